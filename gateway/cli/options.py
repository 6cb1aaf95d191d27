"""The options that the commands share, and the settings they lead to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from config.errors import (
    ConfigInvalidError,
    ConfigProblem,
    ErrorKind,
    MemoryGatewayError,
)
from config.loading import load_settings, refuse_unknown_names
from config.settings import Settings, StartedAs
from config.source.discover import LoadRequest, with_notes

PROGRAM: Final = "memory-gateway"
LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)


class CommandLineError(MemoryGatewayError):
    """An option or argument that does not fit, or that lacks another one."""

    kind = ErrorKind.INVALID_PARAMS


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the shared options; None where the configuration or a default decides."""

    agent: str | None = None
    workspace: str | None = None
    notes: str | None = None
    state_dir: str | None = None
    config: str | None = None
    claude_code: bool = False
    json: bool = False
    log_level: LogLevel | None = None


class SharedOption(msgspec.Struct, frozen=True, gc=False):
    field: str
    metavar: str | None
    help: str
    short: str | None = None

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")


# fmt: off
SHARED_OPTIONS: Final = (
    SharedOption("agent", "ID", "The agent whose memory it is; else the folder of setup, or the default agent.", "-a"),
    SharedOption("workspace", "DIR", "Where MEMORY.md, USER.md and memory/ are.", "-w"),
    SharedOption("notes", "DIR",
        "A folder of Markdown as the whole memory, by its path or by its name in setup.", "-n"),
    SharedOption("state_dir", "DIR", "Where the index and, without --config, openclaw.json are; else ~/.openclaw."),
    SharedOption("config", "FILE", "The openclaw.json to read.", "-c"),
    SharedOption("claude_code", None, "Search Claude Code's memory, too."),
    SharedOption("json", None, "Print JSON on standard output, for programs.", "-j"),
    SharedOption("log_level", "LEVEL", "What to log: debug, info, warning or error."),
)
# fmt: on
SERVE_OPTIONS: Final = tuple(option for option in SHARED_OPTIONS if option.field != "json")
"""The output of `serve` is the protocol, which is always JSON."""


READING_PATIENCE_S: Final = 20.0
"""The time limit for reading the files of the configuration, which may be pipes."""


def log_for(options: Options) -> None:
    """Sets up the log of a command, for people or programs. It has to be called before anything that may log.

    A command that only asks a running gateway writes no log, and does not import the code for it.
    """
    from gateway.process.log_output import configure_logs

    configure_logs(options.log_level or "warning", for_people=not options.json)


def load(options: Options, started_as: StartedAs = "command") -> Settings:
    """Loads the settings. Raises ConfigInvalidError, ConfigNotFoundError.

    A typo is refused before anything is created: a workspace that does not exist would empty the index, an unknown
    agent would get a new one. A missing workspace that is indexed is accepted: its disk may be unmounted.
    """
    from config.runtime.tasks import run_within

    request = load_request(options)

    def read() -> Settings:
        settings = load_settings(request)
        refuse_unknown_names(request, settings, lambda unknown: _is_indexed(unknown, options))
        return replace(settings, started_as=started_as)

    try:
        return run_within(read, READING_PATIENCE_S)
    except TimeoutError:
        raise ConfigInvalidError(
            [
                ConfigProblem(
                    message=f"the configuration was not read within {READING_PATIENCE_S:g} s"
                )
            ],
            remedy="See whether the disk of the state directory, of openclaw.json or of the workspace hangs.",
        ) from None


def _is_indexed(settings: Settings, options: Options) -> bool:
    """Returns whether the index was made for the workspace; asked only if that does not exist."""
    log_for(options)
    from backends.builtin.syncing.surveying import is_made_for

    return is_made_for(settings)


def arguments_of(given: Mapping[str, object]) -> list[str]:
    """Returns options as they are typed, without those that have no value."""
    return [part for flag, value in given.items() if value for part in (flag, str(value))]


def named_state_dir(settings: Settings) -> Path:
    """Returns the directory for `--state-dir`; a folder of notes has its own, two levels below that."""
    own = settings.state_dir
    return own if settings.notes_folder is None else own.parents[1]


def load_request(options: Options) -> LoadRequest:
    """Returns what to load by the options, the environment and `setup`.

    Raises ConfigNotFoundError, ConfigInvalidError for our own file, CommandLineError.
    """
    return with_notes(openclaw_request(options))


def openclaw_request(options: Options) -> LoadRequest:
    """Returns what to load by the options alone. Raises CommandLineError."""
    for option in SHARED_OPTIONS:
        value = getattr(options, option.field)
        if isinstance(value, str) and not value.strip() and option.field != "notes":
            raise CommandLineError(
                f"{option.flag} is empty.",
                remedy=f"Give it a value, as in `{option.flag} {option.metavar}`, or leave it out.",
            )
    for flag, value in (("--workspace", options.workspace), ("--agent", options.agent)):
        if options.notes is not None and value is not None:
            raise CommandLineError(
                f"--notes and {flag} do not go together.",
                remedy="A folder of notes has neither agents nor a workspace: leave one of them out.",
            )
    return LoadRequest(
        environment=os.environ,
        cwd=Path.cwd(),
        agent_id=options.agent,
        config_path=options.config,
        state_dir=options.state_dir,
        workspace=options.workspace,
        notes=options.notes,
        claude_code=options.claude_code,
    )
