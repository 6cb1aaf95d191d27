"""The MCP clients that `connect` knows: where each keeps its servers, in which form, and how it is asked.

None of their own commands is used for writing: `claude mcp add`, `codex mcp add` and `gemini mcp add` (2.1.330,
0.169.0, 0.61.0) each format the whole file anew, and removing an entry does not bring back the file as it was. A
client's own command is asked whether it sees the server, on a copy of the file, because the question changes the file:
Claude Code formats it anew whenever it starts.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from config.paths import claude_dir, named_dir, resolve_path, variable
from config.runtime.files import replace_file

Form = Literal["json", "toml"]
"""`json` includes comments and trailing commas, where a client permits them."""
DEFAULT_NAME: Final = "memory-gateway"
Entry = dict[str, Any]


class Surroundings(msgspec.Struct, frozen=True):
    """The environment and directories that decide where a client keeps its files."""

    environment: Mapping[str, str]
    home: Path
    cwd: Path

    def named(self, name: str, default: Path) -> Path:
        """Returns the directory that a variable names, else the default."""
        found = variable(self.environment, name)
        return resolve_path(found[1], home=self.home, base=self.cwd) if found else default

    def settings_dir(self) -> Path:
        """Returns the directory of the system in which desktop programs keep their settings."""
        if sys.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return named_dir(self.environment, "XDG_CONFIG_HOME") or self.home / ".config"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The way to ask a client's own command whether it sees a server, with nothing but a copy of its file."""

    arguments: tuple[str, ...]
    """`{name}` stands for the server's name."""
    variable: str
    """The variable that names the directory of the copy."""
    file: str
    """The path of the copy in that directory."""
    sign: str
    """The words in the output for a server that it sees; `{name}` as above."""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks by which a client runs a command before a prompt."""

    file: Callable[[Surroundings], Path]
    events: tuple[str, ...]
    extra: Entry
    """The members that a hook needs beside its command."""
    then: str = ""
    """The step that a person has to take before the hooks run."""

    def entry(self, command: Sequence[str]) -> Entry:
        """Returns the hooks by event."""
        hook = {"type": "command", "command": shlex.join(command), **self.extra}
        return {event: [{"hooks": [hook]}] for event in self.events}


class Client(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The name on the command line."""
    title: str
    file: Callable[[Surroundings], Path]
    key: str
    """The member, or table, that holds the servers."""
    form: Form = "json"
    extra: Entry = msgspec.field(default_factory=dict)
    """The members that an entry needs beside `command` and `args`."""
    programs: tuple[str, ...] = ()
    """Commands that show that it is installed; the first one is asked by `check`."""
    folder: Callable[[Surroundings], Path] | None = None
    """The directory that shows that it is installed, where that is not the directory of its file."""
    check: Check | None = None
    then: str
    """The next step for a person."""
    hooks: Hooks | None = None
    is_hooks: bool = False
    """True if this is the side of a client that runs hooks: see `hooked`."""

    def hooked(self) -> Client | None:
        """Returns the side of the client that runs hooks; None where there is none."""
        if self.hooks is None:
            return None
        return replace(self, file=self.hooks.file, key="hooks", form="json", is_hooks=True)

    def entry(self, command: Sequence[str]) -> Entry:
        """Returns the entry of a server that is started by this command."""
        program, *arguments = command
        return {**self.extra, "command": program, "args": arguments}

    def is_installed(self, there: Surroundings) -> bool:
        """Returns whether it is installed. An empty directory is no sign of that: undoing may have left it."""
        path = there.environment.get("PATH")
        if any(shutil.which(program, path=path) for program in self.programs):
            return True
        file = self.file(there)
        folder = self.folder(there) if self.folder is not None else file.parent
        return file.exists() or _holds_something(folder)


def _holds_something(folder: Path) -> bool:
    with suppress(OSError):
        return any(folder.iterdir())
    return False


def _claude_file(there: Surroundings) -> Path:
    """Returns the file: beside the client's directory in the home, or inside of one that a variable names."""
    named = variable(there.environment, "CLAUDE_CONFIG_DIR")
    return (_claude_folder(there) if named else there.home) / ".claude.json"


def _claude_folder(there: Surroundings) -> Path:
    return claude_dir(there.environment, home=there.home, cwd=there.cwd)


def _gemini_file(there: Surroundings) -> Path:
    return there.named("GEMINI_CLI_HOME", there.home) / ".gemini" / "settings.json"


def _zed_file(there: Surroundings) -> Path:
    is_mac = sys.platform == "darwin"
    base = there.home / ".config" if is_mac else there.settings_dir()
    return base / "zed" / "settings.json"


def _copilot_folder(there: Surroundings) -> Path:
    return there.named("COPILOT_HOME", there.home / ".copilot")


_NEW_WINDOW: Final = "Start a new conversation; those that are open do not see it."
_RESTART: Final = "Start it again; it reads its configuration only then."

# fmt: off
CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client(
            name="claude-code", title="Claude Code", key="mcpServers", extra={"type": "stdio"}, then=_NEW_WINDOW,
            file=_claude_file, folder=_claude_folder, programs=("claude",),
            check=Check(
                arguments=("mcp", "get", "{name}"), variable="CLAUDE_CONFIG_DIR", file=".claude.json", sign="Connected",
            ),
            hooks=Hooks(
                file=lambda there: _claude_folder(there) / "settings.json",
                events=("UserPromptSubmit", "SessionStart"), extra={"timeout": 5},
            ),
        ),
        Client(
            name="claude-desktop", title="Claude Desktop", key="mcpServers", then=_RESTART,
            file=lambda there: there.settings_dir() / "Claude" / "claude_desktop_config.json",
        ),
        Client(
            name="codex", title="Codex", key="mcp_servers", form="toml", then=_NEW_WINDOW, programs=("codex",),
            file=lambda there: there.named("CODEX_HOME", there.home / ".codex") / "config.toml",
            check=Check(
                arguments=("mcp", "get", "{name}", "--json"), variable="CODEX_HOME", file="config.toml",
                sign='"name": "{name}"',
            ),
            hooks=Hooks(
                file=lambda there: there.named("CODEX_HOME", there.home / ".codex") / "hooks.json",
                events=("UserPromptSubmit", "SessionStart"), extra={"timeout": 5},
                then="Codex runs no hook before you have trusted it: start it, and trust these two when it asks "
                "(or with /hooks). Until then nothing is recalled by itself.",
            ),
        ),
        Client(
            name="gemini", title="Gemini CLI", key="mcpServers", programs=("gemini",), file=_gemini_file,
            then="Start it in a folder that it trusts; it starts no servers in others.",
            check=Check(
                arguments=("mcp", "list"), variable="GEMINI_CLI_HOME", file=".gemini/settings.json", sign="{name}: ",
            ),
            hooks=Hooks(
                file=_gemini_file, events=("BeforeAgent", "SessionStart", "PreCompress"),
                extra={"name": DEFAULT_NAME, "timeout": 5000},
            ),
        ),
        Client(
            name="copilot", title="Copilot CLI", key="mcpServers", extra={"type": "local", "tools": ["*"]},
            then=_NEW_WINDOW, file=lambda there: _copilot_folder(there) / "mcp-config.json", programs=("copilot",),
            check=Check(
                arguments=("mcp", "get", "{name}"), variable="COPILOT_HOME", file="mcp-config.json",
                sign="Status: Enabled",
            ),
            hooks=Hooks(
                file=lambda there: _copilot_folder(there) / "settings.json",
                events=("userPromptSubmitted", "sessionStart", "preCompact"), extra={"timeout": 5},
            ),
        ),
        Client(
            name="cursor", title="Cursor", key="mcpServers", programs=("cursor", "cursor-agent"),
            file=lambda there: there.home / ".cursor" / "mcp.json",
            then="Switch it on under Settings, MCP, if it is not.",
        ),
        Client(
            name="vscode", title="VS Code", key="servers", extra={"type": "stdio"}, programs=("code",),
            file=lambda there: there.settings_dir() / "Code" / "User" / "mcp.json",
            then="Run `MCP: List Servers`, and start it.",
        ),
        Client(
            name="zed", title="Zed", key="context_servers", extra={"source": "custom"}, programs=("zed", "zeditor"),
            file=_zed_file, then="Its agent panel shows it at once.",
        ),
        Client(
            name="windsurf", title="Windsurf", key="mcpServers", programs=("windsurf",),
            file=lambda there: there.home / ".codeium" / "windsurf" / "mcp_config.json",
            then="Press Refresh in Cascade's list of MCP servers.",
        ),
    )
}
# fmt: on


def is_ours(entry: object) -> bool:
    """Returns whether an entry starts this gateway: its command, or our start-up file with `gateway serve`."""
    if not isinstance(entry, Mapping):
        return False
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else ())]
    if not all(isinstance(one, str) for one in words) or "serve" not in words:
        return False
    return _starts_us(words, "serve")


def _starts_us(words: Sequence[str], command: str) -> bool:
    """Returns whether the words before our command name our program."""
    before = [Path(one).name for one in words[: words.index(command)]]
    return before[-1:] == ["memory-gateway"] or before[-2:] == ["start.py", "gateway"]


def hooks_in(group: object) -> list[object]:
    """Returns the hooks of a group; none for anything that is not a group."""
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    return hooks if isinstance(hooks, list) else []


def hook_name(hook: object) -> str | None:
    """Returns the name of the server that a hook belongs to; None for the hooks of others."""
    if not isinstance(hook, Mapping):
        return None
    try:
        words = shlex.split(str(hook.get("command", "")))
    except ValueError:
        return None
    if "recall" not in words or "--hook" not in words or not _starts_us(words, "recall"):
        return None
    named = words[words.index("--name") + 1 :] if "--name" in words else []
    return named[0] if named else DEFAULT_NAME


_PATIENCE_S: Final = 60.0
_SHOWN: Final = 300
_QUIET: Final = {
    "NO_COLOR": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "GEMINI_TELEMETRY_ENABLED": "false",
}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the client. `unknown`: it has no command to ask, or that is not installed here."""

    verdict: Literal["seen", "not_seen", "unknown"]
    words: str


def check(client: Client, there: Surroundings, name: str, data: bytes) -> Seen:
    """Asks the client whether it sees the server; blocks for a minute at most. Raises OSError if it cannot copy."""
    asked = client.check
    if asked is None:
        return Seen(verdict="unknown", words=f"{client.title} has no command that could be asked.")
    program = shutil.which(client.programs[0], path=there.environment.get("PATH"))
    if program is None:
        words = f"Not checked: the command {client.programs[0]} is not on PATH."
        return Seen(verdict="unknown", words=words)
    arguments = tuple(one.replace("{name}", name) for one in asked.arguments)
    with tempfile.TemporaryDirectory(
        prefix="memory-gateway-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder, asked.file)
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(copy, data)
        environment = {
            **there.environment,
            **_QUIET,
            "XDG_CACHE_HOME": folder,
            asked.variable: folder,
        }
        said = _ask((program, *arguments), environment, folder)
    command = " ".join((client.programs[0], *arguments))
    if asked.sign.replace("{name}", name) in said:
        return Seen(verdict="seen", words=f"{client.title} sees it (`{command}`).")
    words = f"`{command}` does not show it: {said.strip()[-_SHOWN:] or 'it says nothing'}"
    return Seen(verdict="not_seen", words=words)


def _ask(command: tuple[str, ...], environment: dict[str, str], folder: str) -> str:
    """Returns what the command printed; in an empty folder that is not trusted it starts no other servers."""
    try:
        done = subprocess.run(  # noqa: S603 - the client's own command, arguments of our own
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE_S:g} s"
    except OSError as error:
        return os.strerror(error.errno or 0)
    return f"{done.stdout}\n{done.stderr}"
