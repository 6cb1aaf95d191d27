// How the program `memory-gateway` is started from here: which one, with which arguments, and with what
// of the host's environment.

import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { INSTALL_REMEDY } from "./child.js";
import { SHARED } from "./prompt.js";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PROGRAM = "memory-gateway";
const RECORD = path.join(HERE, "installed.json"); // written by `memory-gateway openclaw install`

/** The command that was recorded at the installation; without a record, what is found where programs lie. */
export function recordedCommand(record = RECORD, environment = process.env) {
  try {
    const { command } = JSON.parse(readFileSync(record, "utf8"));
    if (Array.isArray(command) && command.length > 0 && command.every((part) => typeof part === "string")) return command;
  } catch {
    // Installed from npm: there is no record.
  }
  return [installedProgram(environment)];
}

/** That on PATH, else where uv and pipx put it: a service of the host often lacks that folder on its PATH. */
function installedProgram(environment) {
  const folders = [...(environment.PATH ?? "").split(path.delimiter), path.join(environment.HOME || homedir(), ".local", "bin")];
  const found = folders.filter(Boolean).map((folder) => path.join(folder, PROGRAM)).find(isExecutable);
  return found ?? PROGRAM;
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const PASSED = new Set(
  (
    "PATH HOME USER LOGNAME SHELL LANG TZ TMPDIR XDG_RUNTIME_DIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME " +
    "OPENCLAW_HOME OPENCLAW_PROFILE OPENCLAW_STATE_DIR OPENCLAW_CONFIG_PATH CLAWDBOT_STATE_DIR CLAWDBOT_CONFIG_PATH " +
    "HF_HOME HF_ENDPOINT HF_HUB_OFFLINE CREDENTIALS_DIRECTORY CLAUDE_CONFIG_DIR " +
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy " +
    "SSL_CERT_FILE SSL_CERT_DIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH LLAMA_CPP_LIB_PATH " +
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES"
  )
    .split(" ")
    .concat(SHARED.keyVariables),
);
const PASSED_PREFIXES = ["LC_", "GGML_", "OMP_"];
const REFERENCE = /\$\{([A-Z_][A-Z0-9_]*)\}/g;
const INCLUDE = /\$include["']?\s*:\s*(\[[^\]]*\]|"[^"]*"|'[^']*')/g;
const LONGEST_CHAIN = 10; // of files that include one another
const SECRET = /["']?\bid["']?\s*:\s*["']([A-Z_][A-Z0-9_]*)["']/g;

/** Of the host's variables those that memory needs: the names above, and those that the configuration refers to. */
export function childEnvironment(environment, configText = "") {
  const referred = new Set([REFERENCE, SECRET].flatMap((form) => [...configText.matchAll(form)].map((match) => match[1])));
  const passes = (name) => PASSED.has(name) || referred.has(name) || PASSED_PREFIXES.some((prefix) => name.startsWith(prefix));
  return Object.fromEntries(Object.entries(environment).filter(([name]) => passes(name)));
}

/** The state directory and the configuration file that the host uses. */
export function hostPlaces(api, environment = process.env) {
  const stateDir = api.runtime.state.resolveStateDir(environment);
  const named = environment.OPENCLAW_CONFIG_PATH?.trim();
  const home = environment.OPENCLAW_HOME?.trim() || homedir();
  return {
    stateDir,
    configPath: named ? path.resolve(named.replace(/^~(?=$|\/)/, home)) : path.join(stateDir, "openclaw.json"),
  };
}

/** What starts the process of one agent, for `Child`. */
export function launchOf(api, agentId, environment = process.env) {
  const { stateDir, configPath } = hostPlaces(api, environment);
  const [command, ...before] = recordedCommand();
  const args = [...before, "serve", "--agent", agentId, "--state-dir", stateDir, "--log-level", "warning"];
  if (existsSync(configPath)) args.push("--config", configPath);
  const workspace = api.runtime.agent.resolveAgentWorkspaceDir(api.runtime.config.current(), agentId);
  if (existsSync(workspace)) args.push("--workspace", workspace);
  const env = childEnvironment(environment, readConfiguration(configPath));
  return { command, args, env, cwd: stateDir, key: JSON.stringify([command, args, env]) };
}

/** `openclaw memory ...` and `openclaw memory-gateway ...`: our own command line, on this terminal. */
export function runCommandLine(api, given, environment = process.env) {
  const { stateDir, configPath } = hostPlaces(api, environment);
  const [command, ...before] = recordedCommand();
  const env = {
    ...childEnvironment(environment, readConfiguration(configPath)),
    ...terminalOf(environment),
    OPENCLAW_STATE_DIR: stateDir,
    ...(existsSync(configPath) ? { OPENCLAW_CONFIG_PATH: configPath } : {}),
  };
  return new Promise((resolve) => {
    const child = spawn(command, [...before, ...given], { env, stdio: "inherit" });
    child.on("error", (error) => {
      console.error(`memory-gateway cannot be started (${command}: ${error.code}). ${INSTALL_REMEDY}`);
      resolve(127);
    });
    child.on("exit", (code) => resolve(code ?? 1));
  });
}

function terminalOf(environment) {
  const names = ["TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "PAGER"];
  return Object.fromEntries(names.filter((name) => name in environment).map((name) => [name, environment[name]]));
}

/** What stands in the configuration file, and in the files that it includes. */
export function readConfiguration(file, chain = []) {
  if (chain.length > LONGEST_CHAIN || chain.includes(file)) return "";
  const text = readText(file);
  const lists = [...text.matchAll(INCLUDE)].map((match) => match[1]);
  const names = lists.flatMap((list) => [...list.matchAll(/"([^"]*)"|'([^']*)'/g)].map((match) => match[1] ?? match[2]));
  const included = names.map((name) => readConfiguration(realPath(path.resolve(path.dirname(file), name)), [...chain, file]));
  return [text, ...included].join("\n");
}

/** Where a link leads: what it includes stands beside that. */
function realPath(file) {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function readText(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
