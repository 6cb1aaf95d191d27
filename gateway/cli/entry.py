"""Where the command line begins: arguments in, exit code out.

Owns the quick way of `serve`. Typer and what it brings along cost more time than the gateway needs to
open its index, so a plain `serve` is read here; everything else, mistakes and `--help` included, is
typer's business.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import msgspec

from gateway.cli.guard import guarded
from gateway.cli.options import LOG_LEVELS, SERVE_OPTIONS, Options
from gateway.process.dumps import forbid_core_dumps
from gateway.process.orphans import PARENT, is_orphan

_FIELDS = {option.flag: option.field for option in SERVE_OPTIONS if option.metavar}


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; some of typer's ways end in SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None when the descriptor was closed
            stream.reconfigure(errors="backslashreplace")
    forbid_core_dumps()
    options = read_plain_serve(arguments)
    if options is not None:
        if is_orphan(PARENT):
            return os.EX_OK  # whoever wanted it is gone; there is nobody to tell
        return guarded(lambda: _serve(options), options)
    return guarded(lambda: _by_typer(arguments), _glance(arguments))


# To import what a command needs is part of it: that may fail, too, where files or memory are short.
def _serve(options: Options) -> int:
    from gateway.cli.running import run_gateway

    return run_gateway(options)


def _by_typer(arguments: Sequence[str]) -> int:
    from gateway.cli.app import run_app

    return run_app(arguments)


def _glance(arguments: Sequence[str]) -> Options:
    """How to report what goes wrong before typer has read the options."""
    return Options(json="--json" in arguments, log_level="debug" if "debug" in arguments else None)


def read_plain_serve(arguments: Sequence[str]) -> Options | None:
    """The options of `serve [--name value | --name=value]...`; None for any other command line."""
    if not arguments or arguments[0] != "serve":
        return None
    values: dict[str, str] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        flag, equals, joined = argument.partition("=")
        value = joined if equals else next(rest, None)
        if flag not in _FIELDS or value is None:
            return None
        values[_FIELDS[flag]] = value
    if values.get("log_level", LOG_LEVELS[0]) not in LOG_LEVELS:
        return None
    return msgspec.convert(values, Options)
