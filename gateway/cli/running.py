"""From the options of `serve` to the running gateway. Imports no command line library."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from gateway.cli.loading import load
from gateway.cli.options import Options
from gateway.serve import serve


def run_gateway(options: Options, *, socket_only: bool = False) -> int:
    """Serves until the end and returns the exit code; a reload is about the same agent."""
    settings = load(options)
    return serve(
        settings,
        read_settings=partial(load, replace(options, agent=settings.agent_id)),
        log_level=options.log_level or "info",
        socket_only=socket_only,
    )
