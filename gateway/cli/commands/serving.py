"""`serve`: the gateway itself."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.options import Options


def serve(
    options: Options,
    socket_only: Annotated[
        bool,
        typer.Option("--socket-only", help="Answer on the socket alone, as a service of its own."),
    ] = False,
) -> int:
    """Answer JSON-RPC on standard input and output until the input ends."""
    from gateway.cli.running import run_gateway

    return run_gateway(options, socket_only=socket_only)
