// Memory Gateway in OpenClaw's memory slot. Registers what the host asks of a memory plugin; the memory
// itself is the program `memory-gateway`, one process for each agent.

import { childOf, closeChildren } from "./child.js";
import { openManager } from "./manager.js";
import { classify } from "./origins.js";
import { hostPlaces, launchOf, runCommandLine } from "./program.js";
import { flushPlan, PLUGIN_ID, promptSection } from "./prompt.js";
import { registerRecall } from "./recall.js";
import { getTool, searchTool } from "./tools.js";

const DEFAULT_AGENT = "main";
const RELOAD_MS = 5_000;
const WARM_MS = 10_000;
const MOST_WARMED = 1_000;
const MOST_SANDBOXED = 1_000;
const COMMANDS = {
  memory: "Search, inspect and index memory (Memory Gateway)",
  "memory-gateway": "All commands of Memory Gateway: search, status, doctor, index, ...",
};

function register(api) {
  const currentConfig = () => api.runtime.config.current();

  /** Asks the process of an agent, which first hears of a configuration that has changed since it read it. */
  const ask = async (agentId, method, params, limits) => {
    const agent = agentId || DEFAULT_AGENT;
    const child = childOf(agent, { launch: () => launchOf(api, agent), logger: api.logger });
    await child
      .heed(JSON.stringify(currentConfig()), RELOAD_MS)
      .catch((error) => api.logger.warn?.(`memory-gateway: ${error.message}`)); // it goes on as it was
    return await child.request(method, params, limits);
  };

  /** While the model reads its first prompt, the process starts and looks for changed files. */
  const warmed = new Set();
  const warm = ({ agentId, agentSessionKey }) => {
    if (!agentSessionKey || warmed.has(agentSessionKey)) return;
    if (warmed.size >= MOST_WARMED) warmed.clear();
    warmed.add(agentSessionKey);
    ask(agentId, "session_start", { sessionKey: agentSessionKey }, { timeoutMs: WARM_MS }).catch(() => {}); // a search will tell
  };

  /** Sessions in a sandbox: the host says so when it builds their prompt, which is before each of their turns. */
  const sandboxed = new Set();
  const noteSandbox = ({ agentSessionKey, sandboxed: isSandboxed }) => {
    sandboxed.delete(agentSessionKey);
    if (isSandboxed) sandboxed.add(agentSessionKey);
    if (sandboxed.size > MOST_SANDBOXED) sandboxed.delete(sandboxed.values().next().value);
  };

  api.registerTool((context) => searchTool(context, ask), { names: ["memory_search"] });
  api.registerTool((context) => getTool(context, ask), { names: ["memory_get"] });
  api.registerMemoryCapability({
    deterministicRecallToolName: "memory_search",
    promptBuilder(params) {
      noteSandbox(params);
      const lines = promptSection(params);
      if (lines.length > 0) warm(params);
      return lines;
    },
    flushPlanResolver: ({ cfg, nowMs, contextWindowTokens } = {}) => flushPlan(cfg ?? currentConfig(), nowMs, contextWindowTokens),
    runtime: {
      async getMemorySearchManager({ agentId }) {
        try {
          return { manager: await openManager((method, params, limits) => ask(agentId, method, params, limits)) };
        } catch (error) {
          return { manager: null, error: [error.message, error.remedy].filter(Boolean).join(" ") };
        }
      },
      resolveMemoryBackendConfig: () => ({ backend: "builtin" }),
      supportsWorkspaceMemoryReadSources: true,
      classifyWorkspaceMemoryPaths: (params) => classify(params, hostPlaces(api).stateDir),
      closeMemorySearchManager: ({ agentId }) => closeChildren(agentId),
      closeAllMemorySearchManagers: () => closeChildren(),
    },
  });
  api.registerService({ id: PLUGIN_ID, start() {}, stop: () => closeChildren() });
  registerCommands(api);
  registerRecall(api, ask, (sessionKey) => sandboxed.has(sessionKey));
}

function registerCommands(api) {
  for (const [name, description] of Object.entries(COMMANDS)) {
    api.registerCli(
      ({ program }) => {
        program
          .command(name)
          .description(description)
          .argument("[words...]")
          .allowUnknownOption()
          .helpOption(false) // ours has the help
          .action(async (words) => {
            process.exitCode = await runCommandLine(api, words);
          });
      },
      { descriptors: [{ name, description, hasSubcommands: true }] },
    );
  }
}

export default { id: PLUGIN_ID, name: "Memory Gateway", description: "The notes of an agent, searched by memory-gateway.", kind: "memory", register };
