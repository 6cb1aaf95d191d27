"""`serve`: the gateway itself."""

from __future__ import annotations

from gateway.cli.options import Options


def serve(options: Options) -> int:
    """Answer JSON-RPC on standard input and output until the input ends."""
    from gateway.cli.loading import load
    from gateway.serve import serve as run

    return run(load(options), log_level=options.log_level or "info")
