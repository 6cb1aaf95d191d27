"""Runs a command and turns every way of failing into a message and an exit code.

Owns what people read when something went wrong: cause and remedy, never a traceback. The codes are in
`exit_codes`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

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
        code = _report(lone_error(error), options)
        output.flush()
    return code


def _report(error: BaseException, options: Options) -> int:
    if not isinstance(error, MemoryGatewayError):
        error = shortage(error) or _apology(error, options)
    if options.json:
        output.write_json(
            {"error": {"kind": error.kind, "message": error.message, "remedy": error.remedy}}
        )
    else:
        output.note(f"{PROGRAM}: {error.message.strip()}")
        if error.remedy:
            output.note(f"  {error.remedy}")
    return EXIT_CODES[error.kind]


def _apology(error: BaseException, options: Options) -> MemoryGatewayError:
    if options.log_level == "debug":
        output.note("".join(traceback.format_exception(error)).rstrip())
        remedy = "Please report it with the traceback above"
    else:
        remedy = "Please run it again with --log-level debug and report it with the traceback"
    return MemoryGatewayError(
        f"Sorry, this is a fault of the program: {type(error).__name__}: {error}.",
        remedy=f"{remedy} and the output of `{PROGRAM} --version`.",
    )
