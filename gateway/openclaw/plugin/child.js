// One `memory-gateway serve` for each agent: starting it, asking it, and starting it again when it ends.
// Knows lines of JSON-RPC and time; what the requests mean is the caller's business.

import { spawn as spawnProcess } from "node:child_process";

export const PROTOCOL = "1";
const LINE_LIMIT = 16 * 1024 * 1024; // characters; an answer of ours is far shorter
const STDERR_KEPT = 8 * 1024;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
const SILENT_REQUESTS = 2; // in a row, until a process that answers nothing is replaced
const TO_START_MS = 4_000; // what waited less, as recall does, tells nothing of a process that may be starting
const END_OF_INPUT_MS = 3_000; // until an orderly end is hastened
const TERMINATION_MS = 2_000;
const REPEATABLE = new Set(["memory_search", "memory_get", "status", "health"]);

/** Why memory cannot answer. `message` is for the model and the user, `remedy` says what to do. */
export class UnavailableError extends Error {
  constructor(kind, message, remedy) {
    super(message);
    this.name = "UnavailableError";
    this.kind = kind; // "start", "ended", "timeout", "cancelled", "closed", or the kind of an error of ours
    this.remedy = remedy;
  }
}

const STATUS_REMEDY = "Ask the user to run `openclaw memory-gateway doctor`, which says what is wrong.";
export const INSTALL_REMEDY =
  "The user installs the program (`uv tool install memory-gateway` or `pipx install memory-gateway`), then runs `memory-gateway openclaw install`.";

/** The process of one agent. `launch()` gives `{command, args, env, cwd, key}` for the next start;
 * another `key` means another process. */
export class Child {
  #launch;
  #logger;
  #spawn;
  #process = null;
  #pending = new Map();
  #nextId = 1;
  #failures = 0;
  #restartAt = 0;
  #silent = 0;
  #key = null;
  #configuration = null;
  #heeding = null;
  #closing = null;
  #lastProblem = null;

  constructor(options) {
    this.configure(options);
  }

  /** Holds for the next start; what runs is not disturbed. */
  configure({ launch, logger, spawn = spawnProcess }) {
    this.#launch = launch;
    this.#logger = logger;
    this.#spawn = spawn;
  }

  get pid() {
    return this.#process?.handle.pid ?? null;
  }

  /**
   * The result of one request. Rejects with UnavailableError only, within `timeoutMs`.
   * What only reads is asked once more if the process ends meanwhile.
   */
  async request(method, params, { timeoutMs, signal } = {}) {
    const deadline = performance.now() + timeoutMs;
    try {
      return await this.#attempt(method, params, deadline, signal);
    } catch (error) {
      if (error.kind !== "ended" || !REPEATABLE.has(method)) throw error;
      return await this.#attempt(method, params, deadline, signal);
    }
  }

  /**
   * Notes the configuration in force. A running process that has read another one reads it again, or is replaced;
   * whoever asks meanwhile waits for that as well.
   */
  async heed(configuration, timeoutMs) {
    if (this.#configuration !== configuration) {
      this.#configuration = configuration;
      const heeding = this.#reread(timeoutMs).finally(() => {
        if (this.#heeding === heeding) this.#heeding = null;
      });
      this.#heeding = heeding;
    }
    await this.#heeding;
  }

  async #reread(timeoutMs) {
    if (this.#process === null) return;
    if (this.#launch().key !== this.#key) await this.close();
    else await this.#send("reload", {}, performance.now() + timeoutMs);
  }

  /** Ends the process: by the end of its input, else by force. The next request starts another. */
  async close() {
    const ending = this.#process;
    if (ending === null) return this.#closing ?? undefined;
    this.#process = null;
    this.#rejectAll(new UnavailableError("closed", "Memory is being switched off or reloaded.", "Try again in a moment."));
    this.#closing = end(ending).finally(() => {
      this.#closing = null;
    });
    return this.#closing;
  }

  async #attempt(method, params, deadline, signal) {
    if (signal?.aborted) throw cancelled();
    await this.#started(deadline, signal);
    return await this.#send(method, params, deadline, signal);
  }

  async #started(deadline, signal) {
    if (this.#closing) await this.#closing; // two processes of one agent would share its index for nothing
    if (this.#process) return;
    const pause = this.#restartAt - performance.now();
    if (pause > 0) {
      if (this.#restartAt >= deadline) throw this.#notYet(pause);
      await wait(pause, signal);
      if (signal?.aborted) throw cancelled();
    }
    if (this.#process === null) this.#start();
  }

  #notYet(pause) {
    const cause = this.#lastProblem?.message ?? "The memory process ended again and again.";
    return new UnavailableError(
      "start",
      `${cause} It is started again in ${Math.ceil(pause / 1000)} s.`,
      this.#lastProblem?.remedy ?? STATUS_REMEDY,
    );
  }

  #start() {
    const { command, args, env, cwd, key } = this.#launch();
    const handle = this.#spawn(command, args, { env, cwd, stdio: ["pipe", "pipe", "pipe"] });
    const running = { handle, stderr: "", ended: false, spoke: false, problem: null };
    running.gone = new Promise((resolve) => {
      running.leave = resolve;
    });
    this.#process = running;
    this.#key = key;
    this.#silent = 0;
    handle.on("error", (error) => this.#failedToStart(running, command, error));
    handle.on("exit", (code, signal) => this.#ended(running, code, signal));
    handle.stdin.on("error", () => {}); // the exit says why
    handle.stdout.setEncoding("utf8");
    handle.stdout.on("data", linesOf((line) => this.#answered(running, line), () => handle.kill("SIGKILL")));
    handle.stderr.setEncoding("utf8");
    handle.stderr.on("data", (text) => {
      running.stderr = (running.stderr + text).slice(-STDERR_KEPT);
      for (const line of text.split("\n")) if (line.trim()) this.#logger.debug?.(`memory-gateway: ${line}`);
    });
    // A process that nobody waits for must not keep the host alive; it ends with the host's end of the pipe.
    for (const one of [handle, handle.stdin, handle.stdout, handle.stderr]) one.unref?.();
    this.#send("initialize", { client: "openclaw" }, Number.POSITIVE_INFINITY).then(
      (hello) => this.#greeted(running, hello),
      () => {}, // whoever asks next is told
    );
  }

  #greeted(running, hello) {
    if (hello?.protocol === PROTOCOL) return;
    running.problem = new UnavailableError(
      "start",
      `The installed memory-gateway speaks protocol ${hello?.protocol ?? "(none)"}, this plugin ${PROTOCOL}.`,
      INSTALL_REMEDY,
    );
    running.handle.kill("SIGTERM");
  }

  #failedToStart(running, command, error) {
    running.problem ??= new UnavailableError(
      "start",
      `The memory process cannot be started: ${command}: ${error.code ?? error.message}.`,
      INSTALL_REMEDY,
    );
    if (running.handle.pid === undefined) this.#ended(running, null, null);
  }

  #ended(running, code, signal) {
    if (running.ended) return;
    running.ended = true;
    running.leave();
    if (this.#process !== running) return; // closed by us
    this.#process = null;
    this.#failures += 1;
    const pause = this.#failures < 2 ? 0 : FIRST_PAUSE_MS * 2 ** (this.#failures - 2);
    this.#restartAt = performance.now() + Math.min(LONGEST_PAUSE_MS, pause);
    const problem = running.problem ?? whyEnded(code, signal, running.stderr);
    this.#lastProblem = problem;
    this.#logger.warn?.(`memory-gateway: ${problem.message}`);
    this.#rejectAll(problem);
  }

  #send(method, params, deadline, signal) {
    const running = this.#process;
    if (running === null) return Promise.reject(new UnavailableError("ended", "The memory process ended.", STATUS_REMEDY));
    const id = this.#nextId++;
    const sent = performance.now();
    return new Promise((resolve, reject) => {
      const settle = (act, value) => {
        if (!this.#pending.delete(id)) return;
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        act(value);
      };
      const abandon = (error) => {
        this.#write(running, { jsonrpc: "2.0", method: "$/cancelRequest", params: { id } });
        settle(reject, error);
      };
      const onAbort = () => abandon(cancelled());
      const timer = Number.isFinite(deadline)
        ? setTimeout(() => {
            abandon(timedOut());
            if (running.spoke || performance.now() - sent >= TO_START_MS) this.#noteSilence(running);
          }, Math.max(0, deadline - performance.now()))
        : undefined;
      this.#pending.set(id, {
        counts: method !== "initialize",
        resolve: (value) => settle(resolve, value),
        reject: (error) => settle(reject, error),
      });
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#write(running, { jsonrpc: "2.0", id, method, params });
    });
  }

  #write(running, message) {
    if (!running.ended && running.handle.stdin.writable) running.handle.stdin.write(`${JSON.stringify(message)}\n`);
  }

  #answered(running, line) {
    if (running !== this.#process) return;
    this.#silent = 0;
    running.spoke = true;
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      this.#logger.warn?.("memory-gateway: a line on its output is no JSON");
      return;
    }
    const waiting = this.#pending.get(message?.id);
    if (!waiting) return; // a notification, or an answer that nobody waits for any more
    if (waiting.counts) this.#failures = 0;
    if (message.error) waiting.reject(refused(message.error));
    else waiting.resolve(message.result);
  }

  #noteSilence(running) {
    this.#silent += 1;
    if (this.#silent < SILENT_REQUESTS || running !== this.#process) return;
    running.problem = new UnavailableError("ended", "The memory process did not answer any more and was replaced.", STATUS_REMEDY);
    running.handle.kill("SIGKILL");
  }

  #rejectAll(error) {
    for (const waiting of [...this.#pending.values()]) waiting.reject(error);
  }
}

function cancelled() {
  return new UnavailableError("cancelled", "The request was cancelled.", "Nothing has to be done.");
}

function timedOut() {
  return new UnavailableError("timeout", "Memory did not answer in time.", STATUS_REMEDY);
}

function refused(error) {
  const kind = error.data?.kind ?? "internal";
  return new UnavailableError(kind, error.message ?? "Memory refused the request.", error.data?.remedy ?? STATUS_REMEDY);
}

/** What it said last for people (`memory-gateway: cause`, then the remedy, indented), else how it ended. */
function whyEnded(code, signal, stderr) {
  const lines = stderr.split("\n");
  const at = lines.findLastIndex((line) => line.startsWith("memory-gateway: "));
  if (code && at >= 0) {
    const remedy = lines.slice(at + 1).map((line) => line.trim()).filter(Boolean).join(" ");
    return new UnavailableError("start", lines[at].slice("memory-gateway: ".length), remedy || STATUS_REMEDY);
  }
  const how = signal ? `signal ${signal}` : `exit code ${code}`;
  return new UnavailableError("ended", `The memory process ended (${how}).`, STATUS_REMEDY);
}

/** A listener for pieces of text that hands on whole lines. */
function linesOf(onLine, onTooLong) {
  let rest = "";
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.trim()) onLine(line);
    if (rest.length > LINE_LIMIT) {
      rest = "";
      onTooLong();
    }
  };
}

function wait(milliseconds, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done, { once: true });
  });
}

async function end(running) {
  if (running.ended) return;
  running.handle.stdin.end();
  const steps = [
    [END_OF_INPUT_MS, "SIGTERM"],
    [TERMINATION_MS, "SIGKILL"],
  ];
  for (const [patience, signal] of steps) {
    const enough = new AbortController();
    await Promise.race([running.gone, wait(patience, enough.signal)]);
    enough.abort(); // a timer that is left would keep the host alive
    if (running.ended) return;
    running.handle.kill(signal);
  }
  await running.gone;
}

const CHILDREN = Symbol.for("memory-gateway.children");

/**
 * All processes of this host, by agent. The host loads this module more than once in one process, each
 * time with variables of its own, so they are kept where every copy finds them.
 */
function children() {
  globalThis[CHILDREN] ??= new Map();
  return globalThis[CHILDREN];
}

/** The one of an agent, which from now on starts as `options` say. */
export function childOf(agentId, options) {
  const all = children();
  if (!all.has(agentId)) all.set(agentId, new Child(options));
  else all.get(agentId).configure(options);
  return all.get(agentId);
}

/** Ends that of one agent, or all. Whoever asks later starts another. */
export async function closeChildren(agentId) {
  const chosen = [...children()].filter(([id]) => agentId === undefined || id === agentId);
  await Promise.all(chosen.map(([, child]) => child.close()));
}
