"""Runs a command and turns every way of failing into a message and an exit code.

Owns what people read when something went wrong: cause and remedy, never a traceback. The codes are in
`exit_codes`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress

from config.errors import MemoryGatewayError
from config.groups import lone_error
from gateway.cli import output
from gateway.cli.exit_codes import BROKEN_PIPE, EXIT_CODES, INTERRUPTED
from gateway.cli.options import PROGRAM, Options
from gateway.cli.shortage import shortage


def guarded(command: Callable[[], int], options: Options) -> int:
    """The exit code of `command`, or of how it failed."""
    try:
        return _attempt(command, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        output.discard()
        return BROKEN_PIPE


def _attempt(command: Callable[[], int], options: Options) -> int:
    try:
        code = command()
        output.flush()
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last line of defence: people get no tracebacks
        return _tell(lone_error(error), options)
    return code


def _tell(error: BaseException, options: Options) -> int:
    """Says what happened, as far as there is space to say it; the exit code."""
    told = (
        error
        if isinstance(error, MemoryGatewayError)
        else shortage(error) or _apology(error, options)
    )
    with suppress(OSError):
        if told is not error and options.log_level == "debug":
            output.note("".join(traceback.format_exception(error)).rstrip())
        _report(told, options)
    output.settle()
    return EXIT_CODES[told.kind]


def _report(error: MemoryGatewayError, options: Options) -> None:
    if options.json:
        with suppress(OSError):
            output.write_json(
                {"error": {"kind": error.kind, "message": error.message, "remedy": error.remedy}}
            )
            output.flush()
            return
    output.note(f"{PROGRAM}: {error.message.strip()}")
    if error.remedy:
        output.note(f"  {error.remedy}")


def _apology(error: BaseException, options: Options) -> MemoryGatewayError:
    remedy = (
        "Please report it with the traceback above"
        if options.log_level == "debug"
        else "Please run it again with --log-level debug and report it with the traceback"
    )
    return MemoryGatewayError(
        f"Sorry, this is a fault of the program: {type(error).__name__}: {error}.",
        remedy=f"{remedy} and the output of `{PROGRAM} --version`.",
    )
