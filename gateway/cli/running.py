"""From the options of `serve` to the running gateway. Imports no command line library."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from config.settings import StartedAs
from gateway.cli.options import LogLevel, Options, load
from gateway.process.logs import configure_logs
from gateway.process.serve import serve

_LOG_LEVEL: Final[LogLevel] = "info"


def run_gateway(options: Options, *, socket_only: bool = False) -> int:
    """Serves until the end and returns the exit code; a reload is about the same agent."""
    return _run_service(options) if socket_only else _run(options, "sidecar")


def _run(options: Options, started_as: StartedAs, **service: Any) -> int:
    settings = load(options, started_as)
    agent = options.agent if options.notes is not None else settings.agent_id
    return serve(
        settings,
        read_settings=partial(load, replace(options, agent=agent)),
        log_level=options.log_level or _LOG_LEVEL,
        **service,
    )


def _run_service(options: Options) -> int:
    """Runs as a service; a child of a chat gateway leaves the service manager to its parent."""
    from gateway.notify import handed_in_sockets, notifying

    configure_logs(options.log_level or _LOG_LEVEL)  # what is handed in may be worth a line
    sockets = handed_in_sockets()
    with notifying() as notifier:
        return _run(options, "service", socket_only=True, sockets=sockets, notifier=notifier)
