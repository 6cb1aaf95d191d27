// What the model is told before a turn without being asked: `recall` of the agent's process, once a turn, where the
// owner of the host allows it (`memory-gateway openclaw install --recall`). A turn never waits long for it, and never fails.

import { present } from "./tools.js";

const RECALL_MS = 1_500;
const HOST_MS = 2_000; // the host's own default is 15 s
const BEGIN_MS = 2_000;
const MOST_SESSIONS = 500;
const CONVERSATIONS = ["sessions/*", "qmd/sessions*/**"];
const UNASKED = new Set(["heartbeat", "cron", "memory"]);
const BOTH =
  "memory-gateway: recall stays silent, since the host's Active Memory is on and tells the model the same. Switch one of them off: " +
  "plugins.entries.active-memory.enabled, or plugins.entries.memory-gateway.config.recall.";

/** `ask(agentId, method, params, limits)` is the process of an agent. A session that is sandboxed is told no conversations. */
export function registerRecall(api, ask, isSandboxed = () => false) {
  if (api.pluginConfig?.recall !== true || typeof api.on !== "function") return;
  const sessions = new Map(); // by key: the host's id of the session, and the last turn with what it was told
  let isTold = false;

  const activeMemory = () => {
    const isOn = api.runtime.config.current()?.plugins?.entries?.["active-memory"]?.enabled === true;
    if (isOn && !isTold) api.logger.warn?.(BOTH);
    isTold = isOn;
    return isOn;
  };

  api.on(
    "before_prompt_build",
    async (event, context) => {
      const { agentId, sessionKey, sessionId, trigger, toolAuthority } = context ?? {};
      const prompt = event?.prompt;
      if (!sessionKey || typeof prompt !== "string" || UNASKED.has(trigger) || activeMemory()) return undefined;
      if (toolAuthority && !toolAuthority.allows("memory_search")) return undefined; // who may not search is not told
      const known = sessions.get(sessionKey);
      const turn = `${context.runId ?? ""} ${sessionId ?? ""} ${prompt}`;
      if (known?.turn === turn) return await known.told;
      const isNew = known !== undefined && known.sessionId !== sessionId;
      const told = tell(ask, agentId, { sessionKey, exclude: notTold(sessionId, isSandboxed(sessionKey)), prompt, isNew });
      sessions.delete(sessionKey);
      sessions.set(sessionKey, { sessionId, turn, told });
      if (sessions.size > MOST_SESSIONS) sessions.delete(sessions.keys().next().value);
      return await told;
    },
    { requiresToolAuthority: true, timeoutMs: HOST_MS },
  );

  // What it was told is gone from its context: it may be told again.
  api.on("after_compaction", async (_event, context) => {
    if (context?.sessionKey) await begin(ask, context.agentId, context.sessionKey);
  });
}

function notTold(sessionId, inSandbox) {
  if (inSandbox) return CONVERSATIONS;
  return sessionId && /^[\w-]+$/.test(sessionId) ? [`sessions/${sessionId}*`] : undefined;
}

async function tell(ask, agentId, { sessionKey, exclude, prompt, isNew }) {
  try {
    if (isNew) await begin(ask, agentId, sessionKey);
    const { text } = await ask(agentId, "recall", present({ prompt, sessionKey, exclude }), { timeoutMs: RECALL_MS });
    return text ? { prependContext: text } : undefined;
  } catch {
    return undefined; // a search will say what is wrong
  }
}

/** The session begins anew. */
async function begin(ask, agentId, sessionKey) {
  await ask(agentId, "session_start", { sessionKey }, { timeoutMs: BEGIN_MS }).catch(() => {});
}
