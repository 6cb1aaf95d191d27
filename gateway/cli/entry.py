"""Where the command line begins: arguments in, exit code out.

Importing typer and rich takes longer than opening an index, so a plain `serve` is read here without
them. Typer reads everything else, mistakes and `--help` included.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from gateway.cli.guard import guarded
from gateway.cli.options import LOG_LEVELS, SERVE_OPTIONS, Options
from gateway.process.orphans import PARENT, is_orphan
from gateway.process.tuning import forbid_core_dumps, pause_collector

_FIELDS: Final = {option.flag: option.field for option in SERVE_OPTIONS if option.metavar}
_SOCKET_ONLY: Final = "--socket-only"


class PlainServe(NamedTuple):
    options: Options
    socket_only: bool = False


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; some of typer's ways end in SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None when the descriptor was closed
            stream.reconfigure(errors="backslashreplace")
    forbid_core_dumps()
    plain = read_plain_serve(arguments)
    if plain is not None:
        if not plain.socket_only and is_orphan(PARENT):
            return os.EX_OK  # whoever wanted it is gone; there is nobody to tell
        return guarded(lambda: _serve(plain), plain.options)
    return guarded(lambda: _by_typer(arguments), _glance(arguments))


# To import what a command needs is part of it: that may fail, too, where files or memory are short.
def _serve(plain: PlainServe) -> int:
    pause_collector()
    _import_structlog_without_rich()
    from gateway.cli.running import run_gateway

    return run_gateway(plain.options, socket_only=plain.socket_only)


def _import_structlog_without_rich() -> None:
    """Where rich is installed, structlog imports it, to draw tracebacks that we never ask for."""
    if "rich" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["rich"] = None  # to `import`, a module that does not exist
    try:
        import structlog  # noqa: F401
    finally:
        del modules["rich"]


def _by_typer(arguments: Sequence[str]) -> int:
    from gateway.cli.app import run_app

    return run_app(arguments)


def _glance(arguments: Sequence[str]) -> Options:
    """How to report what goes wrong before typer has read the options."""
    return Options(json="--json" in arguments, log_level="debug" if "debug" in arguments else None)


def read_plain_serve(arguments: Sequence[str]) -> PlainServe | None:
    """What `serve [--socket-only] [--name value | --name=value]...` asks for; None for any other line."""
    if not arguments or arguments[0] != "serve":
        return None
    values: dict[str, str] = {}
    socket_only = False
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == _SOCKET_ONLY:
            socket_only = True
            continue
        flag, equals, joined = argument.partition("=")
        value = joined if equals else next(rest, None)
        if flag not in _FIELDS or value is None:
            return None
        values[_FIELDS[flag]] = value
    if values.get("log_level", LOG_LEVELS[0]) not in LOG_LEVELS:
        return None
    return PlainServe(msgspec.convert(values, Options), socket_only)
