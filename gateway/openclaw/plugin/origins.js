// Whose word a memory file is. The host puts MEMORY.md and USER.md into a prompt by itself only when the
// plugin in its memory slot can say so, and leaves out what is untrusted.
//
// The one evidence is the host's own record of what tools wrote during which turns: `agent`, or
// `untrusted` when the turn had read something from outside. It is in the host's database, which plugins
// have no interface to, so it is read there. A file without a record was written by the user, or by the
// agent in a way that the host does not see (a shell command): nothing tells these apart, and so nothing is
// ever called `owner`.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import path from "node:path";

const OWNER_ID = "core:memory-artifact-provenance";
const NAMESPACE = "workspace-files";
const ROOT_FILES = new Set(["MEMORY.md", "memory.md", "USER.md"]);
const PERSONAL = /^users\/[a-zA-Z0-9][a-zA-Z0-9_-]{0,127}\/USER\.md$/;
const DREAMS = /^(?:dreams\.md|memory\/(?:dreaming|\.dreams)(?:\/.*)?)$/i;
const BUSY_MS = 1_000;

/** One `{relativePath, originClass}` for each path. Rejects when the record is there and cannot be read. */
export async function classify({ workspaceDir, relativePaths, readSources }, stateDir) {
  const workspace = await realOrNull(workspaceDir);
  const classes = await Promise.all(
    relativePaths.map(async (relativePath) => {
      const actual = readSources
        ? canonical(readSources.find((source) => source.relativePath === relativePath)?.canonicalRelativePath)
        : await inside(workspace, relativePath);
      return { relativePath, actual, originClass: withoutRecord(actual) };
    }),
  );
  const unsettled = classes.filter(({ originClass }) => originClass === "agent");
  const records = unsettled.length > 0 ? await readRecords(path.join(stateDir, "state", "openclaw.sqlite")) : null;
  const key = sha256(workspace ?? path.resolve(workspaceDir));
  return classes.map(({ relativePath, actual, originClass }) => ({
    relativePath,
    originClass: originClass === "agent" ? (records?.(`${key}:${sha256(actual)}`) ?? originClass) : originClass,
  }));
}

function withoutRecord(actual) {
  if (actual === null) return "untrusted";
  if (DREAMS.test(actual)) return "system";
  const isMemory = ROOT_FILES.has(actual) || PERSONAL.test(actual) || (actual.startsWith("memory/") && actual.endsWith(".md"));
  return isMemory ? "agent" : "untrusted";
}

/** Where the path really leads, relative to the workspace; null: out of it, or nowhere. */
async function inside(workspace, relativePath) {
  const file = workspace && (await realOrNull(path.resolve(workspace, relativePath)));
  if (!file) return null;
  const relative = path.relative(workspace, file);
  return relative === "" || relative.startsWith("..") || path.isAbsolute(relative) ? null : relative.replaceAll(path.sep, "/");
}

/** The path under which a remote workspace has read a file; null for anything but a plain one. */
function canonical(given) {
  const plain =
    typeof given === "string" && given !== "" && given !== "." && !given.startsWith("..") && !path.isAbsolute(given) &&
    !given.includes("\\") && !given.includes("\0") && path.posix.normalize(given) === given; // prettier-ignore
  return plain ? given : null;
}

async function realOrNull(place) {
  try {
    return await realpath(place);
  } catch {
    return null;
  }
}

/** A look-up of the recorded class; null where there is no database, and so no record. */
async function readRecords(database) {
  if (!existsSync(database)) return null;
  const { DatabaseSync } = await import("node:sqlite");
  const rows = new Map();
  const store = new DatabaseSync(database, { readOnly: true, timeout: BUSY_MS });
  try {
    const statement = store.prepare("SELECT entry_key, value_json FROM plugin_state_entries WHERE plugin_id = ? AND namespace = ?");
    for (const row of statement.iterate(OWNER_ID, NAMESPACE)) rows.set(row.entry_key, row.value_json);
  } finally {
    store.close();
  }
  return (key) => (rows.has(key) ? recordedClass(rows.get(key)) : undefined);
}

/** A record in a form that is not known is no reason to trust what it is about. */
function recordedClass(json) {
  try {
    const { originClass } = JSON.parse(json);
    return originClass === "agent" ? "agent" : "untrusted";
  } catch {
    return "untrusted";
  }
}

function sha256(text) {
  return createHash("sha256").update(text).digest("hex");
}
