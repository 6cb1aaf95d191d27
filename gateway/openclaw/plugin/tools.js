// The two tools as the model sees them: what it may ask, how that reaches the process of the agent, and
// what it reads when memory cannot answer. Nothing here throws.

const SEARCH_MS = 15_000;
const GET_MS = 10_000;
const NOTHING_WAS_SEARCHED =
  "Memory is unavailable and nothing was searched: this is not the same as finding nothing. Tell the user so.";
const NO_WIKI = "This memory has no wiki: a wiki plugin answers with tools of its own.";
const NO_SESSIONS_IN_SANDBOX = "A sandboxed session may neither search nor read past conversations.";

const SEARCH = {
  name: "memory_search",
  label: "Memory search",
  description:
    "Search the agent's long-term memory (MEMORY.md, USER.md, the notes below memory/ and, where they are indexed, past " +
    "conversations). Use it before answering anything about earlier work, decisions, dates, people, preferences or tasks. " +
    "Each result is a passage with its path and lines; `outcome`, `warning` and `action` say what an answer lacks.",
  parameters: {
    type: "object",
    properties: {
      query: { type: "string", description: "A question or keywords, in any language. There is no query syntax." },
      maxResults: { type: "integer", minimum: 1, description: "At most this many passages; usually left out (6)." },
      minScore: { type: "number", minimum: 0, maximum: 1, description: "Usually left out; 0.1 when nothing was found." },
      corpus: { type: "string", enum: ["memory", "sessions", "all", "wiki"], description: "Notes, past conversations, or all." },
      after: { type: "string", description: "Only notes dated this day (YYYY-MM-DD) or later." },
      before: { type: "string", description: "Only notes dated before this day." },
    },
    required: ["query"],
    additionalProperties: false,
  },
};
const GET = {
  name: "memory_get",
  label: "Memory get",
  description:
    "Read lines of a memory file that memory_search named, or of MEMORY.md or USER.md. `status` is ok, not_found or error; a long " +
    "file is cut, and `nextFrom` says where to go on.",
  parameters: {
    type: "object",
    properties: {
      path: { type: "string", description: "The `path` of a result, such as memory/2026-02-08.md." },
      from: { type: "integer", minimum: 1, description: "First line." },
      lines: { type: "integer", minimum: 1, description: "How many lines." },
      corpus: { type: "string", enum: ["memory", "all", "wiki"] },
    },
    required: ["path"],
    additionalProperties: false,
  },
};

/**
 * The tools of one run. `ask(agentId, method, params, limits)` is the process of an agent; `context` is the
 * host's: whose session it is, and whether it is sandboxed. Who is listening is its to say, never the model's.
 */
export function searchTool(context, ask) {
  return tool(SEARCH, SEARCH_MS, (params, signal) => search(context, ask, params, signal));
}

export function getTool(context, ask) {
  return tool(GET, GET_MS, (params, signal) => get(context, ask, params, signal));
}

function tool(contract, timeoutMs, run) {
  return {
    ...contract,
    catalogMode: "direct-only", // else the host hides it behind a search for tools: two more requests of the model
    getExecutionTimeoutMs: () => timeoutMs + 1_000,
    async execute(_callId, params, signal) {
      const { answer, details = answer } = await run(params ?? {}, signal);
      return { content: [{ type: "text", text: JSON.stringify(answer) }], details };
    },
  };
}

async function search(context, ask, given, signal) {
  const { query, maxResults, minScore, corpus = "all", after, before } = given;
  const sources = sourcesOf(corpus, context.sandboxed === true);
  if (sources.refusal) return { answer: refused(sources.refusal) };
  const params = present({ query, maxResults, minScore, after, before, sources: sources.names, sessionKey: context.sessionKey });
  const started = performance.now();
  try {
    const result = await ask(context.agentId, "memory_search", params, { timeoutMs: SEARCH_MS, signal });
    const answer = searchAnswer(result);
    const debug = { backend: "builtin", effectiveMode: result.mode, searchMs: Math.round(performance.now() - started), hits: answer.results.length };
    return { answer, details: { ...answer, debug } };
  } catch (error) {
    return { answer: unavailable({ results: [] }, error) };
  }
}

function sourcesOf(corpus, sandboxed) {
  if (corpus === "wiki") return { refusal: NO_WIKI };
  if (sandboxed && corpus === "sessions") return { refusal: NO_SESSIONS_IN_SANDBOX };
  if (sandboxed || corpus === "memory") return { names: ["memory"] };
  return { names: corpus === "sessions" ? ["sessions"] : undefined };
}

function refused(reason) {
  return { results: [], outcome: "disabled", disabled: true, error: reason, warning: reason };
}

/** The snippet ends with its source where citations are on, so that `citation` would only cost tokens. */
function searchAnswer(result) {
  const results = result.results.map(({ path, startLine, endLine, score, snippet, source, title, tags }) =>
    present({ path, startLine, endLine, score: Math.round(score * 100) / 100, snippet, corpus: source, title, tags }),
  );
  const { outcome, mode, warning, error, stale, undated, disabled } = result;
  const off = outcome === "denied" || outcome === "disabled";
  return present({ results, outcome, mode, warning: warning ?? (off ? error : undefined), error, stale, undated, disabled });
}

async function get(context, ask, given, signal) {
  const { path, from, lines, corpus = "all" } = given;
  const refusal = corpus === "wiki" ? NO_WIKI : context.sandboxed === true && isConversation(path) ? NO_SESSIONS_IN_SANDBOX : undefined;
  if (refusal) return { answer: { path, text: "", status: "error", disabled: true, error: refusal } };
  const params = present({ path, from, lines, sessionKey: context.sessionKey });
  try {
    const result = await ask(context.agentId, "memory_get", params, { timeoutMs: GET_MS, signal });
    const { kind, ...rest } = result;
    return { answer: present({ ...rest, code: kind }) };
  } catch (error) {
    return { answer: unavailable({ path, text: "", status: "error" }, error) };
  }
}

/** Whether the path is one of a conversation: of the host's database, or exported for QMD. */
function isConversation(path) {
  const plain = String(path).trim();
  return (plain.startsWith("sessions/") && !plain.endsWith(".md")) || plain.startsWith("qmd/sessions");
}

const OF_THE_QUESTION = new Set(["invalid_params", "path_not_allowed"]);

/** What the model reads instead of an answer. A question that was put wrongly is not a memory that fails. */
function unavailable(empty, error) {
  if (OF_THE_QUESTION.has(error.kind)) return { ...empty, outcome: "error", error: error.message, action: error.remedy };
  return {
    ...empty,
    outcome: "unavailable",
    unavailable: true,
    error: error.message,
    warning: NOTHING_WAS_SEARCHED,
    action: error.remedy ?? "Ask the user to run `openclaw memory-gateway doctor`.",
  };
}

/** Without what is undefined: the process refuses what it does not know, and null is not nothing. */
export function present(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null));
}
