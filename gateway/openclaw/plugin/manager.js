// What the host itself asks of memory, outside of a model's turn: its search over RPC, status, doctor,
// the sync after a compaction. Each manager is a view on the one process of its agent.

import { present } from "./tools.js";

const SEARCH_MS = 15_000;
const READ_MS = 10_000;
const STATUS_MS = 10_000;
const SYNC_MS = 10 * 60_000;
const PROBE_MS = 60_000;

/** `ask(method, params, limits)` is the process of the agent. Rejects where that cannot tell its status. */
export async function openManager(ask) {
  let status = await ask("status", {}, { timeoutMs: STATUS_MS });
  let probe = null;
  const refresh = async () => {
    status = await ask("status", {}, { timeoutMs: STATUS_MS });
  };
  const deepHealth = async () => {
    const { trials = [] } = await ask("health", { deep: true }, { timeoutMs: PROBE_MS });
    return trials;
  };
  return {
    async search(query, { maxResults, minScore, sessionKey, sources, signal, onDebug } = {}) {
      const params = present({ query, maxResults, minScore, sources, sessionKey });
      const result = await ask("memory_search", params, { timeoutMs: SEARCH_MS, signal });
      if (result.outcome === "denied" || result.outcome === "disabled") throw new Error(result.error ?? `memory is ${result.outcome}`);
      onDebug?.({ backend: "builtin", effectiveMode: result.mode });
      return result.results;
    },
    async readFile({ relPath, from, lines }) {
      const result = await ask("memory_get", present({ path: relPath, from, lines }), { timeoutMs: READ_MS });
      if (result.status === "error") throw new Error(result.error);
      return result;
    },
    status: () => providerStatus(status),
    async sync({ reason, force, progress } = {}) {
      progress?.({ completed: 0, total: 1, label: "memory" });
      await ask("sync", present({ reason, force, wait: true }), { timeoutMs: SYNC_MS });
      progress?.({ completed: 1, total: 1, label: "memory" });
      await refresh();
    },
    getCachedEmbeddingAvailability: () => probe,
    async probeEmbeddingAvailability() {
      const trial = (await deepHealth()).find((one) => one.part === "provider");
      probe = { ...embeddingProbe(trial), checked: true, checkedAtMs: Date.now() };
      await refresh();
      return probe;
    },
    async probeVectorAvailability() {
      return (await deepHealth()).some((one) => one.part === "vectors" && one.outcome === "ok");
    },
    async close() {}, // the process stays: it is the agent's, and others ask it as well
  };
}

function embeddingProbe(trial) {
  if (trial?.outcome === "ok") return { ok: true };
  return { ok: false, error: [trial?.detail, trial?.remedy].filter(Boolean).join(" ") || "No provider of embeddings is set up." };
}

/** Our status in the host's words; what it has no word for is in `custom`. */
function providerStatus(status) {
  const vector = status.details?.vector ?? {};
  const keyword = status.details?.keyword ?? {};
  const active = vector.provider?.active;
  const store = vector.store ?? {};
  return present({
    backend: "builtin",
    provider: active?.provider ?? status.provider ?? "none",
    model: active?.model ?? status.model,
    requestedProvider: status.requestedProvider,
    files: status.files,
    chunks: status.chunks,
    dirty: status.dirty,
    lastSyncError: status.lastSyncError,
    workspaceDir: status.workspace,
    dbPath: status.databasePath,
    sources: status.sources.map(({ source }) => source),
    sourceCounts: status.sources.map(({ source, indexed, chunks, onDisk, pending, skipped }) => ({
      source,
      files: indexed,
      chunks,
      eligible: onDisk,
      issues: [pending && `${pending} not yet indexed`, skipped && `${skipped} skipped`].filter(Boolean),
    })),
    fts: { enabled: true, available: keyword.available !== false },
    vector: present({ enabled: vector.enabled === true, available: Boolean(active), semanticAvailable: Boolean(active), dims: store.dimensions }),
    custom: {
      searchMode: active ? "hybrid" : "fts-only",
      memoryGateway: present({
        version: status.version,
        pid: status.pid,
        reason: vector.reason,
        issues: status.issues,
        warnings: status.warnings,
        disabled: status.disabled,
      }),
    },
  });
}
