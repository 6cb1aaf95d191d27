"""The MCP clients that `connect` knows: where each keeps its servers, in which form, and how it is asked.

None of their own commands is used for writing: `claude mcp add`, `codex mcp add` and `gemini mcp add` (2.1.330,
0.169.0, 0.61.0) each lay the whole file out anew, and what they remove does not come back as it was.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from config.paths import claude_dir, resolve_path, variable

Form = Literal["json", "toml"]
"""`json` includes comments and trailing commas, where a client permits them."""
Entry = dict[str, Any]


class Surroundings(msgspec.Struct, frozen=True):
    """What decides where a client keeps its files."""

    environment: Mapping[str, str]
    home: Path
    cwd: Path

    def named(self, name: str, default: Path) -> Path:
        """The directory that a variable names, else the default."""
        found = variable(self.environment, name)
        return resolve_path(found[1], home=self.home, base=self.cwd) if found else default

    def settings_dir(self) -> Path:
        """Where desktop programs keep what they are told: that of the system."""
        if sys.platform == "darwin":
            return self.home / "Library" / "Application Support"
        found = variable(self.environment, "XDG_CONFIG_HOME")
        is_absolute = found is not None and Path(found[1]).is_absolute()
        return Path(found[1]) if found and is_absolute else self.home / ".config"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """How a client's own command is asked whether it sees a server, with a copy of its file alone."""

    arguments: tuple[str, ...]
    """`{name}` stands for the server's name."""
    variable: str
    """Names the directory that holds the copy."""
    file: str
    """Where in that directory the copy has to be."""
    sign: str
    """What the output says of a server that it sees; `{name}` as above."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """As on the command line."""
    title: str
    file: Callable[[Surroundings], Path]
    key: str
    """The member, or table, that holds the servers."""
    form: Form = "json"
    extra: Entry = msgspec.field(default_factory=dict)
    """What an entry needs beside `command` and `args`."""
    programs: tuple[str, ...] = ()
    """Commands that show that it is installed; the first one is asked by `check`."""
    folder: Callable[[Surroundings], Path] | None = None
    """What shows that it is installed, where that is not the directory of its file."""
    check: Check | None = None
    then: str
    """What a person does next."""

    def entry(self, command: Sequence[str]) -> Entry:
        """What stands in the file for a server that is started so."""
        program, *arguments = command
        return {**self.extra, "command": program, "args": arguments}

    def is_installed(self, there: Surroundings) -> bool:
        """A directory that is empty shows nothing: undoing may have left it."""
        path = there.environment.get("PATH")
        if any(shutil.which(program, path=path) for program in self.programs):
            return True
        file = self.file(there)
        folder = self.folder(there) if self.folder is not None else file.parent
        return file.exists() or _holds_something(folder)


def _holds_something(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _claude_file(there: Surroundings) -> Path:
    """Beside its directory in the home, inside of one that is named."""
    named = variable(there.environment, "CLAUDE_CONFIG_DIR")
    return (_claude_folder(there) if named else there.home) / ".claude.json"


def _claude_folder(there: Surroundings) -> Path:
    return claude_dir(there.environment, home=there.home, cwd=there.cwd)


_NEW_WINDOW: Final = "Start a new conversation; those that are open do not see it."
_RESTART: Final = "Start it again; it reads its configuration only then."

CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client(
            name="claude-code",
            title="Claude Code",
            file=_claude_file,
            key="mcpServers",
            extra={"type": "stdio"},
            programs=("claude",),
            folder=_claude_folder,
            check=Check(
                arguments=("mcp", "get", "{name}"),
                variable="CLAUDE_CONFIG_DIR",
                file=".claude.json",
                sign="Connected",
            ),
            then=_NEW_WINDOW,
        ),
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            file=lambda there: there.settings_dir() / "Claude" / "claude_desktop_config.json",
            key="mcpServers",
            then=_RESTART,
        ),
        Client(
            name="codex",
            title="Codex",
            file=lambda there: there.named("CODEX_HOME", there.home / ".codex") / "config.toml",
            key="mcp_servers",
            form="toml",
            programs=("codex",),
            check=Check(
                arguments=("mcp", "get", "{name}", "--json"),
                variable="CODEX_HOME",
                file="config.toml",
                sign='"name": "{name}"',
            ),
            then=_NEW_WINDOW,
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            file=lambda there: (
                there.named("GEMINI_CLI_HOME", there.home) / ".gemini" / "settings.json"
            ),
            key="mcpServers",
            programs=("gemini",),
            check=Check(
                arguments=("mcp", "list"),
                variable="GEMINI_CLI_HOME",
                file=".gemini/settings.json",
                sign="{name}: ",
            ),
            then="Start it in a folder that it trusts; it starts no servers in others.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            file=lambda there: there.home / ".cursor" / "mcp.json",
            key="mcpServers",
            programs=("cursor", "cursor-agent"),
            then="Switch it on under Settings, MCP, if it is not.",
        ),
        Client(
            name="vscode",
            title="VS Code",
            file=lambda there: there.settings_dir() / "Code" / "User" / "mcp.json",
            key="servers",
            extra={"type": "stdio"},
            programs=("code",),
            then="Run `MCP: List Servers`, and start it.",
        ),
        Client(
            name="zed",
            title="Zed",
            file=lambda there: (
                (there.settings_dir() if sys.platform != "darwin" else there.home / ".config")
                / "zed"
                / "settings.json"
            ),
            key="context_servers",
            extra={"source": "custom"},
            programs=("zed", "zeditor"),
            then="Its agent panel shows it at once.",
        ),
        Client(
            name="windsurf",
            title="Windsurf",
            file=lambda there: there.home / ".codeium" / "windsurf" / "mcp_config.json",
            key="mcpServers",
            programs=("windsurf",),
            then="Press Refresh in Cascade's list of MCP servers.",
        ),
    )
}


def is_ours(entry: Any) -> bool:
    """Whether an entry starts this gateway: its command, or our start-up file with `gateway serve`."""
    if not isinstance(entry, Mapping):
        return False
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else ())]
    if not all(isinstance(one, str) for one in words) or "serve" not in words:
        return False
    before = [Path(one).name for one in words[: words.index("serve")]]
    return before[-1:] == ["memory-gateway"] or before[-2:] == ["start.py", "gateway"]
