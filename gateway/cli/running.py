"""From the options of `serve` to the running gateway. Imports no command line library."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from config.runtime.standard_error import claim_standard_error
from config.settings import Settings, StartedAs
from gateway.cli.options import LogLevel, Options, load
from gateway.process.log_output import configure_logs
from gateway.process.serve import serve

_LOG_LEVEL: Final[LogLevel] = "info"


def run_gateway(options: Options, *, socket_only: bool = False, write: bool = False) -> int:
    """Serves until the end and returns the exit code; a reload is about the same agent. With `write` the agent of
    this client may append, whatever the configuration says.
    """
    claim_standard_error().write_behind()
    if socket_only:
        return _run_service(options, write=write)
    return _run(options, "sidecar", write=write)


def run_staying(options: Options) -> int:
    """Serves for hooks, until nobody asks any more. The route is that of this very command line."""
    from gateway.hook import Route
    from gateway.process.serve import stay

    settings = load(options, "mcp")
    return stay(
        settings,
        Route([one for one in sys.argv[2:] if one != "--serve"]),
        read_settings=partial(load, options, "mcp"),
        log_level=options.log_level or "warning",
    )


def _run(options: Options, started_as: StartedAs, *, write: bool, **service: Any) -> int:
    def read(options: Options, *args: StartedAs) -> Settings:
        settings = load(options, *args)
        return replace(settings, write_granted=True) if write else settings

    settings = read(options, started_as)
    if (folder := settings.notes_folder) is not None:
        same = replace(options, notes=str(folder))
    else:
        same = replace(options, agent=settings.agent_id)
    return serve(
        settings,
        read_settings=partial(read, same),
        log_level=options.log_level or _LOG_LEVEL,
        **service,
    )


def _run_service(options: Options, *, write: bool) -> int:
    """Runs as a service; a child of a chat gateway leaves the service manager to its parent."""
    from gateway.notify import handed_in_sockets, notifying

    configure_logs(options.log_level or _LOG_LEVEL)  # what is handed in may be worth a line
    sockets = handed_in_sockets()
    with notifying() as notifier:
        return _run(
            options, "service", write=write, socket_only=True, sockets=sockets, notifier=notifier
        )
