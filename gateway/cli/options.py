"""The options that the commands share, as data.

Owns their names and help texts, once for typer and once for the quick way of `serve`. Imports no
command line library.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

import msgspec

PROGRAM: Final = "memory-gateway"

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the shared options say; None where the configuration or a default decides."""

    agent: str | None = None
    workspace: str | None = None
    state_dir: str | None = None
    config: str | None = None
    claude_code: bool = False
    json: bool = False
    log_level: LogLevel | None = None


class SharedOption(NamedTuple):
    field: str
    metavar: str | None
    help: str
    short: str | None = None

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")


SHARED_OPTIONS: Final = (
    SharedOption("agent", "ID", "Whose memory; else the configuration's default agent.", "-a"),
    SharedOption("workspace", "DIR", "Where MEMORY.md, USER.md and memory/ are.", "-w"),
    SharedOption(
        "state_dir",
        "DIR",
        "Where the index and, without --config, openclaw.json are; else ~/.openclaw.",
    ),
    SharedOption("config", "FILE", "The openclaw.json to read.", "-c"),
    SharedOption("claude_code", None, "Search Claude Code's memory, too."),
    SharedOption("json", None, "Print JSON on standard output, for programs.", "-j"),
    SharedOption("log_level", "LEVEL", "What to log: debug, info, warning or error."),
)
SERVE_OPTIONS: Final = tuple(option for option in SHARED_OPTIONS if option.field != "json")
"""The output of `serve` is the protocol, which is always JSON."""
