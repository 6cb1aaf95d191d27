// The plugin's own logic: with a fake `api` of the host, and a fake program that speaks lines of JSON-RPC.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createHash } from "node:crypto";
import { afterEach, test } from "node:test";
import { pathToFileURL } from "node:url";

const PLUGIN = process.env.PLUGIN_DIR;
const load = (name) => import(pathToFileURL(path.join(PLUGIN, name)).href);
const { Child, childOf, closeChildren, UnavailableError } = await load("child.js");
const { searchTool, getTool } = await load("tools.js");
const { openManager } = await load("manager.js");
const { classify } = await load("origins.js");
const { childEnvironment, launchOf, readConfiguration, recordedCommand } = await load("program.js");
const { promptSection } = await load("prompt.js");
const { registerRecall } = await load("recall.js");
const plugin = (await load("index.js")).default;

// Does what the query says: dies, keeps silent, or answers with its pid and what it was asked.
const PROGRAM = `
import { createInterface } from "node:readline";
const seen = [];
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
  seen.push({ method, params });
  if (method === "initialize") answer({ protocol: process.env.PROTOCOL ?? "1" });
  else if (params?.query === "die") process.kill(process.pid, "SIGKILL");
  else if (params?.query === "silence" || method.startsWith("$/")) continue;
  else if (params?.query === "refuse") process.stdout.write(JSON.stringify({ id, error: { code: 1, message: "No index.", data: { kind: "index_unavailable", remedy: "Make one." } } }) + "\\n");
  else answer({ pid: process.pid, seen, results: [], outcome: "empty" });
}
`;
const scratch = mkdtempSync(path.join(tmpdir(), "plugin-test-"));
const program = path.join(scratch, "program.mjs");
writeFileSync(program, PROGRAM);
const quiet = {};
const opened = [];

function launched(changes = {}) {
  const plan = { command: process.execPath, args: [program], env: {}, cwd: scratch, key: "one", ...changes };
  const child = new Child({ launch: () => plan, logger: quiet });
  opened.push(child);
  return child;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((child) => child.close()));
  await closeChildren();
});

const ask = (child, query, limits) => child.request("memory_search", { query }, { timeoutMs: 10_000, ...limits });

test("a request is answered, and the process stays for the next one", async () => {
  const child = launched();
  const first = await ask(child, "heron");
  assert.equal((await ask(child, "heron")).pid, first.pid);
  assert.deepEqual(first.seen[0].params, { client: "openclaw" });
});

test("a process that ends under a request is replaced, and what only reads is asked once more", async () => {
  const child = launched();
  const before = (await ask(child, "heron")).pid;
  const asked = ask(child, "silence");
  process.kill(before, "SIGKILL");
  await assert.rejects(child.request("memory_search", { query: "die" }, { timeoutMs: 10_000 }), { kind: "ended" });
  asked.catch(() => {});
  assert.notEqual((await ask(child, "heron")).pid, before);
});

test("a query that kills every process is refused, with what the user can do", async () => {
  await assert.rejects(ask(launched(), "die"), (error) => {
    assert.ok(error instanceof UnavailableError);
    assert.match(error.message, /ended \(signal SIGKILL\)/);
    assert.match(error.remedy, /memory-gateway doctor/);
    return true;
  });
});

test("after several ends in a row it is not started at once, and whoever cannot wait is told how long", async () => {
  const child = launched();
  for (let times = 0; times < 2; times += 1) await ask(child, "die").catch(() => {});
  const started = performance.now();
  await assert.rejects(ask(child, "heron", { timeoutMs: 50 }), /started again in \d+ s/);
  assert.ok(performance.now() - started < 1_000);
  assert.ok((await ask(child, "heron", { timeoutMs: 60_000 })).pid);
});

test("an answer that does not come in time is given up, and taken back from the process", async () => {
  const child = launched();
  await ask(child, "heron");
  await assert.rejects(ask(child, "silence", { timeoutMs: 50 }), { kind: "timeout" });
  const { seen } = await ask(child, "heron");
  assert.ok(seen.some(({ method }) => method === "$/cancelRequest"));
});

test("a process that is silent again and again is replaced", async () => {
  const child = launched();
  const before = (await ask(child, "heron")).pid;
  for (let times = 0; times < 2; times += 1) await ask(child, "silence", { timeoutMs: 50 }).catch(() => {});
  assert.notEqual((await ask(child, "heron")).pid, before);
});

test("questions that wait for a moment only do not end a process that is slow to start", async () => {
  const slow = path.join(scratch, "slow.mjs");
  writeFileSync(slow, `await new Promise((done) => setTimeout(done, 1_000));\n${PROGRAM}`);
  const child = launched({ args: [slow] });
  const briefly = () => ask(child, "heron", { timeoutMs: 50 }).catch((error) => error.kind);
  assert.deepEqual(await Promise.all([briefly(), briefly(), briefly()]), ["timeout", "timeout", "timeout"]);
  const { pid } = child;
  assert.equal((await ask(child, "heron")).pid, pid);
});

test("a cancelled request ends at once, and the process is told", async () => {
  const child = launched();
  await ask(child, "heron");
  const cancel = new AbortController();
  const asked = ask(child, "silence", { signal: cancel.signal });
  setImmediate(() => cancel.abort());
  await assert.rejects(asked, { kind: "cancelled" });
  const { seen } = await ask(child, "heron");
  assert.ok(seen.some(({ method }) => method === "$/cancelRequest"));
});

test("an error of the process keeps its kind, its words and its remedy", async () => {
  await assert.rejects(ask(launched(), "refuse"), { kind: "index_unavailable", message: "No index.", remedy: "Make one." });
});

test("a program that is not there, and one of another protocol, are said to need another installation", async () => {
  for (const changes of [{ command: "/nowhere/memory-gateway" }, { env: { PROTOCOL: "99" } }]) {
    const child = launched(changes);
    await ask(child, "silence", { timeoutMs: 5_000 }).catch(() => {});
    await assert.rejects(ask(child, "silence", { timeoutMs: 5_000 }), { remedy: /memory-gateway openclaw install/ });
  }
});

test("what a program says of its configuration before it ends is the reason", async () => {
  const text = 'process.stderr.write("memory-gateway: Line 3 is wrong.\\\\n  Correct it.\\\\n"); process.exit(78)';
  const child = launched({ args: ["-e", text.replaceAll("\\\\n", "\\n")] });
  await assert.rejects(ask(child, "heron"), { message: "Line 3 is wrong.", remedy: "Correct it." });
});

test("another configuration is read by the running process, and other arguments start another", async () => {
  const plan = { command: process.execPath, args: [program], env: {}, cwd: scratch, key: "one" };
  const child = new Child({ launch: () => plan, logger: quiet });
  opened.push(child);
  await child.heed("a", 5_000);
  const before = await ask(child, "heron");
  await child.heed("b", 5_000);
  const again = await ask(child, "heron");
  assert.equal(again.pid, before.pid);
  assert.equal(again.seen.filter(({ method }) => method === "reload").length, 1);
  plan.key = "two";
  await child.heed("c", 5_000);
  assert.notEqual((await ask(child, "heron")).pid, before.pid);
});

test("questions at once wait until the process has read a changed configuration", async () => {
  const child = launched();
  await child.heed("a", 10_000);
  await ask(child, "heron");
  const events = [];
  const heeded = async (name) => {
    await child.heed("b", 10_000);
    events.push(name);
  };
  await Promise.all([heeded("first"), heeded("second")]);
  assert.deepEqual(events, ["first", "second"]);
  const { seen } = await ask(child, "heron");
  assert.equal(seen.filter(({ method }) => method === "reload").length, 1);
});

test("however often the module is loaded, an agent has one process", async () => {
  const again = await import(`${pathToFileURL(path.join(PLUGIN, "child.js")).href}?again`);
  const options = { launch: () => ({ command: process.execPath, args: [program], env: {}, cwd: scratch, key: "one" }), logger: quiet };
  const one = await ask(childOf("main", options), "heron");
  assert.equal((await ask(again.childOf("main", options), "heron")).pid, one.pid);
  assert.notEqual((await ask(childOf("ops", options), "heron")).pid, one.pid);
});

test("closing ends the process in an orderly way, and the next request starts another", async () => {
  const child = launched();
  const before = (await ask(child, "heron")).pid;
  await child.close();
  assert.throws(() => process.kill(before, 0));
  assert.notEqual((await ask(child, "heron")).pid, before);
});

const CONTEXT = { agentId: "main", sessionKey: "agent:main:main" };
const run = async (tool, params) => {
  const { content, details } = await tool.execute("1", params);
  return { answer: JSON.parse(content[0].text), details };
};

test("the host's corpus and the session reach the process as sources and sessionKey", async () => {
  const asked = [];
  const record = async (agentId, method, params) => {
    asked.push({ agentId, method, params });
    return { results: [], outcome: "empty" };
  };
  const tool = searchTool(CONTEXT, record);
  for (const corpus of ["memory", "sessions", "all", undefined]) await run(tool, { query: "heron", corpus });
  assert.deepEqual(asked.map(({ params }) => params.sources), [["memory"], ["sessions"], undefined, undefined]);
  assert.ok(asked.every(({ agentId, params }) => agentId === "main" && params.sessionKey === "agent:main:main"));
  assert.equal(tool.catalogMode, "direct-only");
});

test("a sandboxed session searches notes only, and is told so when it asks for conversations", async () => {
  const asked = [];
  const record = async (_agentId, _method, params) => {
    asked.push(params.sources);
    return { results: [], outcome: "empty" };
  };
  const tool = searchTool({ ...CONTEXT, sandboxed: true }, record);
  await run(tool, { query: "heron" });
  const { answer } = await run(tool, { query: "heron", corpus: "sessions" });
  assert.deepEqual(asked, [["memory"]]);
  assert.equal(answer.disabled, true);
  assert.match(answer.error, /sandboxed/);
});

test("a sandboxed session reads notes only", async () => {
  const asked = [];
  const record = async (_agentId, _method, params) => {
    asked.push(params.path);
    return { path: params.path, text: "", status: "ok" };
  };
  const tool = getTool({ ...CONTEXT, sandboxed: true }, record);
  await run(tool, { path: "memory/2026-02-01.md" });
  for (const path of ["sessions/s-1", " sessions/s-1", "qmd/sessions-main/s-1.md"]) {
    const { answer } = await run(tool, { path });
    assert.equal(answer.status, "error");
    assert.match(answer.error, /sandboxed/);
  }
  assert.deepEqual(asked, ["memory/2026-02-01.md"]);
});

test("a wiki is not searched, and neither tool calls that an empty result", async () => {
  const never = async () => assert.fail("nothing is to be asked");
  assert.equal((await run(searchTool(CONTEXT, never), { query: "x", corpus: "wiki" })).answer.outcome, "disabled");
  assert.equal((await run(getTool(CONTEXT, never), { path: "x", corpus: "wiki" })).answer.status, "error");
});

test("a memory that fails is told as unavailable, never as an exception or as nothing found", async () => {
  const fails = async () => {
    throw new UnavailableError("ended", "The memory process ended.", "Do this.");
  };
  for (const [tool, params] of [[searchTool(CONTEXT, fails), { query: "x" }], [getTool(CONTEXT, fails), { path: "x" }]]) {
    const { answer, details } = await run(tool, params);
    assert.equal(answer.outcome, "unavailable");
    assert.equal(answer.unavailable, true);
    assert.equal(details.unavailable, true);
    assert.match(answer.warning, /not the same as finding nothing/);
    assert.equal(answer.action, "Do this.");
  }
});

test("a question that was put wrongly is not called a memory that fails", async () => {
  const refuses = async () => {
    throw new UnavailableError("invalid_params", "`after` must be a day.", "Write 2026-02-08.");
  };
  const { answer } = await run(searchTool(CONTEXT, refuses), { query: "x", after: "soon" });
  assert.equal(answer.outcome, "error");
  assert.equal(answer.unavailable, undefined);
});

test("of a result the model gets what it needs, and no field twice", async () => {
  const hit = { path: "MEMORY.md", startLine: 1, endLine: 2, score: 0.70812, snippet: "x\n\nSource: MEMORY.md#L1-L2", source: "memory", citation: "MEMORY.md#L1-L2", textScore: 0.7 };
  const { answer, details } = await run(searchTool(CONTEXT, async () => ({ results: [hit], outcome: "ok", mode: "keyword", timings: {} })), { query: "x" });
  assert.deepEqual(answer.results, [{ path: "MEMORY.md", startLine: 1, endLine: 2, score: 0.71, snippet: hit.snippet, corpus: "memory" }]);
  assert.deepEqual(Object.keys(answer), ["results", "outcome", "mode"]);
  assert.equal(details.debug.hits, 1);
});

const STATUS = {
  agentId: "main", version: "0.1.0", pid: 7, workspace: "/w", files: 3, chunks: 5, dirty: false, provider: null, requestedProvider: "auto",
  databasePath: "/db", issues: [], warnings: [], sources: [{ source: "memory", onDisk: 4, indexed: 3, pending: 1, skipped: 0, chunks: 5 }],
  details: { keyword: { available: true }, vector: { enabled: true, reason: "No key." } },
}; // prettier-ignore

test("the manager's status is that of the process, in the host's words", async () => {
  const manager = await openManager(async () => STATUS);
  const status = manager.status();
  assert.deepEqual([status.backend, status.provider, status.files, status.chunks, status.dbPath], ["builtin", "none", 3, 5, "/db"]);
  assert.deepEqual(status.sourceCounts, [{ source: "memory", files: 3, chunks: 5, eligible: 4, issues: ["1 not yet indexed"] }]);
  assert.equal(status.custom.searchMode, "fts-only");
});

test("the manager's search fails where memory is off, rather than find nothing", async () => {
  const manager = await openManager(async (method) => (method === "status" ? STATUS : { results: [], outcome: "denied", error: "No." }));
  await assert.rejects(manager.search("heron"), /No\./);
});

test("a probe says what the process found out about embeddings", async () => {
  const trials = [{ part: "provider", outcome: "failed", detail: "No answer.", remedy: "Start it." }, { part: "vectors", outcome: "ok" }];
  const manager = await openManager(async (method) => (method === "status" ? STATUS : { trials }));
  assert.equal(manager.getCachedEmbeddingAvailability(), null);
  assert.equal((await manager.probeEmbeddingAvailability()).error, "No answer. Start it.");
  assert.equal(manager.getCachedEmbeddingAvailability().ok, false);
  assert.equal(await manager.probeVectorAvailability(), true);
});

function workspaceWith(files) {
  const workspace = mkdtempSync(path.join(scratch, "ws-"));
  for (const file of files) {
    mkdirSync(path.dirname(path.join(workspace, file)), { recursive: true });
    writeFileSync(path.join(workspace, file), "x");
  }
  return workspace;
}

const hash = (text) => createHash("sha256").update(text).digest("hex");

function stateWith(workspace, records) {
  const state = mkdtempSync(path.join(scratch, "state-"));
  mkdirSync(path.join(state, "state"));
  const store = new DatabaseSync(path.join(state, "state", "openclaw.sqlite"));
  store.exec("CREATE TABLE plugin_state_entries (plugin_id TEXT, namespace TEXT, entry_key TEXT, value_json TEXT)");
  const insert = store.prepare("INSERT INTO plugin_state_entries VALUES ('core:memory-artifact-provenance', 'workspace-files', ?, ?)");
  for (const [file, originClass] of Object.entries(records)) insert.run(`${hash(workspace)}:${hash(file)}`, JSON.stringify({ version: 1, originClass }));
  store.close();
  return state;
}

const classesOf = async (workspaceDir, relativePaths, state, more = {}) =>
  Object.fromEntries((await classify({ workspaceDir, relativePaths, ...more }, state)).map((one) => [one.relativePath, one.originClass]));

test("the host's record decides: what was written in a tainted turn is untrusted, and nothing is ever the owner's", async () => {
  const files = ["MEMORY.md", "USER.md", "memory/2026-02-01.md"];
  const workspace = workspaceWith(files);
  const state = stateWith(workspace, { "USER.md": "untrusted", "memory/2026-02-01.md": "agent" });
  assert.deepEqual(await classesOf(workspace, files, state), { "MEMORY.md": "agent", "USER.md": "untrusted", "memory/2026-02-01.md": "agent" });
});

test("dreams are the system's; what is no memory, leads out of the workspace or does not exist is untrusted", async () => {
  const workspace = workspaceWith(["DREAMS.md", "memory/dreaming/a.md", "notes.md"]);
  const outside = workspaceWith(["secret.md"]);
  symlinkSync(path.join(outside, "secret.md"), path.join(workspace, "MEMORY.md"));
  const paths = ["DREAMS.md", "memory/dreaming/a.md", "notes.md", "MEMORY.md", "USER.md", "../x.md"];
  const found = await classesOf(workspace, paths, stateWith(workspace, {}));
  assert.deepEqual(Object.values(found), ["system", "system", "untrusted", "untrusted", "untrusted", "untrusted"]);
});

test("of a remote workspace only the path under which it was read counts", async () => {
  const workspace = workspaceWith([]);
  const readSources = [{ relativePath: "MEMORY.md", canonicalRelativePath: "MEMORY.md" }, { relativePath: "USER.md" }];
  const found = await classesOf(workspace, ["MEMORY.md", "USER.md"], stateWith(workspace, {}), { readSources });
  assert.deepEqual(found, { "MEMORY.md": "agent", "USER.md": "untrusted" });
});

test("a record that cannot be read is an error, which makes the host leave the files out, and says why", async () => {
  const workspace = workspaceWith(["MEMORY.md"]);
  const state = mkdtempSync(path.join(scratch, "state-"));
  mkdirSync(path.join(state, "state"));
  writeFileSync(path.join(state, "state", "openclaw.sqlite"), "no database at all, but long enough to be taken for one");
  await assert.rejects(classesOf(workspace, ["MEMORY.md"], state));
});

test("of the host's variables the program gets those that memory needs, and those that the configuration names", () => {
  const host = { PATH: "/bin", OPENAI_API_KEY: "k", SLACK_BOT_TOKEN: "s", MY_KEY: "m", OTHER_KEY: "o", LC_ALL: "C", NODE_OPTIONS: "-r x" };
  const config = 'remote: {apiKey: "${MY_KEY}"}, x: {source: "env", id: "OTHER_KEY"}';
  assert.deepEqual(Object.keys(childEnvironment(host, config)).sort(), ["LC_ALL", "MY_KEY", "OPENAI_API_KEY", "OTHER_KEY", "PATH"]);
});

test("variables that included files name count as those of the configuration itself", () => {
  const folder = mkdtempSync(path.join(scratch, "config-"));
  const files = {
    "openclaw.json": "{memory: {$include: './memory.json5'}, models: {\"$include\": [\"a.json5\", \"none.json5\"]}}",
    "memory.json5": 'search: {remote: {apiKey: "${MY_KEY}"}, "$include": "openclaw.json"}',
    "a.json5": '{source: "env", id: "OTHER_KEY"}',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
  const host = { MY_KEY: "m", OTHER_KEY: "o", SLACK_BOT_TOKEN: "s" };
  assert.deepEqual(childEnvironment(host, readConfiguration(path.join(folder, "openclaw.json"))), { MY_KEY: "m", OTHER_KEY: "o" });
});

test("what an included file that is a link includes stands beside where the link leads", () => {
  const [folder, elsewhere] = ["config-", "elsewhere-"].map((name) => mkdtempSync(path.join(scratch, name)));
  writeFileSync(path.join(folder, "openclaw.json"), '{$include: "./memory.json5"}');
  writeFileSync(path.join(elsewhere, "memory.json5"), '{search: {$include: "./keys.json5"}}');
  writeFileSync(path.join(elsewhere, "keys.json5"), '{remote: {apiKey: "${MY_KEY}"}}');
  symlinkSync(path.join(elsewhere, "memory.json5"), path.join(folder, "memory.json5"));
  assert.deepEqual(childEnvironment({ MY_KEY: "m" }, readConfiguration(path.join(folder, "openclaw.json"))), { MY_KEY: "m" });
});

test("a configuration that refers to another variable wants another process, since this one does not have it", () => {
  const folder = mkdtempSync(path.join(scratch, "state-"));
  const runtime = {
    config: { current: () => ({}) },
    state: { resolveStateDir: () => folder },
    agent: { resolveAgentWorkspaceDir: () => folder },
  };
  const keyOf = (text) => {
    writeFileSync(path.join(folder, "openclaw.json"), text);
    return launchOf({ runtime }, "main", { MY_KEY: "m" }).key;
  };
  assert.equal(keyOf("{}"), keyOf("{memory: {}}"));
  assert.notEqual(keyOf("{}"), keyOf('{memory: {search: {remote: {apiKey: "${MY_KEY}"}}}}'));
});

test("the recorded command is used, and without a record the one on PATH", () => {
  const record = path.join(scratch, "installed.json");
  writeFileSync(record, JSON.stringify({ command: ["/p/python", "-m", "gateway"] }));
  chmodSync(record, 0o600);
  assert.deepEqual(recordedCommand(record), ["/p/python", "-m", "gateway"]);
});

test("without a record the program on PATH is started, else the one that uv or pipx installed", () => {
  const home = path.join(scratch, "home");
  const [onPath, installed] = ["bin", ".local/bin"].map((folder) => path.join(home, folder, "memory-gateway"));
  const command = () => recordedCommand(path.join(scratch, "none.json"), { HOME: home, PATH: path.dirname(onPath) });
  assert.deepEqual(command(), ["memory-gateway"]);
  for (const file of [installed, onPath]) {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, "#!/bin/sh\n");
    chmodSync(file, 0o755);
    assert.deepEqual(command(), [file]);
  }
});

test("the prompt speaks of memory only to a run that has its tools, and heeds the rule for citations", () => {
  assert.deepEqual(promptSection({ availableTools: new Set() }), []);
  const withTools = (citationsMode) => promptSection({ availableTools: new Set(["memory_search"]), citationsMode }).join("\n");
  assert.match(withTools("auto"), /Source: path#line/);
  assert.match(withTools("off"), /Do not mention paths/);
});

test("registering offers both tools, one capability, a service that ends what it started, and two commands", async () => {
  const bin = path.join(scratch, "bin");
  mkdirSync(bin);
  writeFileSync(path.join(bin, "memory-gateway"), `#!${process.execPath}\n${PROGRAM}`, { mode: 0o755 });
  writeFileSync(path.join(bin, "package.json"), '{"type": "module"}');
  process.env.PATH = bin; // without a record the command is looked for there
  const offered = { tools: {}, commands: [], services: [], hooks: {} };
  const api = {
    logger: quiet,
    runtime: {
      config: { current: () => ({ memory: {} }) },
      state: { resolveStateDir: () => scratch },
      agent: { resolveAgentWorkspaceDir: () => scratch },
    },
    registerTool: (factory, { names }) => (offered.tools[names[0]] = factory),
    registerMemoryCapability: (capability) => (offered.capability = capability),
    registerService: (service) => offered.services.push(service),
    registerCli: (_registrar, { descriptors }) => offered.commands.push(descriptors[0].name),
    pluginConfig: { recall: true },
    on: (name, handler) => (offered.hooks[name] = handler),
  };
  assert.equal(plugin.register(api), undefined);
  assert.deepEqual(Object.keys(offered.tools), ["memory_search", "memory_get"]);
  assert.deepEqual(offered.commands, ["memory", "memory-gateway"]);
  assert.equal(offered.capability.flushPlanResolver({}).relativePath.slice(0, 7), "memory/");

  // The prompt of a run starts the process of its agent, which hears of the session.
  offered.capability.promptBuilder({ availableTools: new Set(["memory_search"]), agentId: "main", agentSessionKey: "agent:main:main" });
  await new Promise(setImmediate); // until it has been started
  const child = childOf("main", { launch: () => assert.fail("it runs already"), logger: quiet });
  const { seen, pid } = await child.request("status", {}, { timeoutMs: 10_000 });
  assert.deepEqual(seen[1], { method: "session_start", params: { sessionKey: "agent:main:main" } });

  // What a sandboxed session is told before its turn holds no conversation.
  for (const sandboxed of [true, false]) {
    offered.capability.promptBuilder({ availableTools: new Set(), agentId: "main", agentSessionKey: "agent:main:boxed", sandboxed });
    await offered.hooks.before_prompt_build({ prompt: `heron ${sandboxed}` }, { agentId: "main", sessionKey: "agent:main:boxed", sessionId: "s-1" });
  }
  const recalled = (await child.request("status", {}, { timeoutMs: 10_000 })).seen.filter(({ method }) => method === "recall");
  assert.deepEqual(recalled.map(({ params }) => params.exclude), [["sessions/*", "qmd/sessions*/**"], ["sessions/s-1*"]]);
  await offered.services[0].stop();
  assert.throws(() => process.kill(pid, 0));
});

function recalling({ config = {}, pluginConfig = { recall: true }, answer = () => ({ text: "notes" }) } = {}) {
  const asked = [];
  const warned = [];
  const hooks = {};
  registerRecall(
    {
      pluginConfig,
      logger: { warn: (line) => warned.push(line) },
      runtime: { config: { current: () => config } },
      on: (name, handler, options) => (hooks[name] = { handler, options }),
    },
    async (agentId, method, params) => {
      asked.push({ agentId, method, params });
      return answer(params);
    },
  );
  const prompt = (text, context = {}) => hooks.before_prompt_build.handler({ prompt: text }, { agentId: "main", sessionKey: "agent:main:main", sessionId: "s-1", ...context });
  return { asked, warned, hooks, prompt };
}

test("nothing is recalled by itself unless the owner asked for it", () => {
  assert.deepEqual(recalling({ pluginConfig: {} }).hooks, {});
  assert.deepEqual(recalling({ pluginConfig: { recall: false } }).hooks, {});
});

test("a turn is told what memory holds, once, whatever how often the host builds its prompt", async () => {
  const { asked, prompt, hooks } = recalling();
  assert.deepEqual(await prompt("Where is the heron?", { runId: "1" }), { prependContext: "notes" });
  assert.deepEqual(await prompt("Where is the heron?", { runId: "1" }), { prependContext: "notes" });
  assert.deepEqual(asked, [{ agentId: "main", method: "recall", params: { prompt: "Where is the heron?", sessionKey: "agent:main:main", exclude: ["sessions/s-1*"] } }]);
  assert.equal(hooks.before_prompt_build.options.requiresToolAuthority, true);
});

test("a session that begins anew under its key, or was compacted, may be told again", async () => {
  const { asked, prompt, hooks } = recalling();
  await prompt("heron", { runId: "1" });
  await prompt("heron", { runId: "2", sessionId: "s-2" });
  await hooks.after_compaction.handler({}, { agentId: "main", sessionKey: "agent:main:main" });
  assert.deepEqual(asked.map((one) => one.method), ["recall", "session_start", "recall", "session_start"]);
});

test("who may not search, a timer and a prompt of nobody are told nothing", async () => {
  const { asked, prompt } = recalling();
  assert.equal(await prompt("heron", { toolAuthority: { allows: () => false } }), undefined);
  assert.equal(await prompt("heron", { trigger: "heartbeat" }), undefined);
  assert.equal(await prompt("heron", { sessionKey: undefined }), undefined);
  assert.deepEqual(asked, []);
});

test("a memory that has nothing, or fails, leaves the turn as it is", async () => {
  assert.equal(await recalling({ answer: () => ({ tokens: 0, reason: "nothing_likely" }) }).prompt("heron"), undefined);
  const failing = recalling({ answer: () => { throw new UnavailableError("timeout", "Late."); } });
  assert.equal(await failing.prompt("heron"), undefined);
});

test("beside the host's Active Memory it stays silent, and says so once", async () => {
  const { asked, warned, prompt } = recalling({ config: { plugins: { entries: { "active-memory": { enabled: true } } } } });
  await prompt("heron");
  await prompt("pond");
  assert.deepEqual(asked, []);
  assert.equal(warned.length, 1);
  assert.match(warned[0], /Active Memory/);
});
