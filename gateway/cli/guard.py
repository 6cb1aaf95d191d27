"""Runs a command with the shared options; every failure becomes a message and an exit code."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from backends.interface import DISK_IS_FULL, IndexFullError
from config.errors import ErrorKind, MemoryGatewayError, lone_error
from config.runtime.files import denied
from config.runtime.tasks import lacks_threads
from gateway.cli import output
from gateway.cli.options import PROGRAM, Options, log_for

INTERRUPTED: Final = 130
"""128 + SIGINT, as in shells."""
BROKEN_PIPE: Final = 141
"""128 + SIGPIPE: the reader of our output has ended, as `head` does."""

_KINDS: Final = {
    os.EX_USAGE: "invalid_params",
    os.EX_DATAERR: "line_too_long provider_input_too_large",
    os.EX_NOINPUT: "file_unreadable",
    os.EX_CANTCREAT: "file_unwritable",
    os.EX_UNAVAILABLE: "index_unavailable disabled provider_unavailable provider_quota qmd_unavailable",
    os.EX_SOFTWARE: "internal",
    os.EX_TEMPFAIL: "cancelled deadline_exceeded shutting_down overloaded provider_rate_limited provider_transient",
    os.EX_PROTOCOL: "parse_error invalid_request method_not_found unsupported_protocol_version provider_bad_response",
    os.EX_NOPERM: "path_not_allowed denied provider_auth",
    os.EX_CONFIG: "config_invalid config_not_found",
}
EXIT_CODES: Final[Mapping[ErrorKind, int]] = {
    ErrorKind(kind): code for code, kinds in _KINDS.items() for kind in kinds.split()
}
HEALTH_CODES: Final = {"ok": 0, "degraded": 1, "failing": 2}
"""The exit codes of `health` and `doctor`, as probes expect them."""
NOTHING_FOUND: Final = 1
"""The exit code of `search` and lists that are empty, as of `grep`."""
NOT_FOUND: Final = os.EX_NOINPUT
"""The exit code of `get` for a permitted path without a file."""


_NO_SPACE: Final = (
    "no space is left where it had to write", "Free some, or send the output, TMPDIR or store.path to a disk with room."
)  # fmt: skip
# fmt: off
_SHORTAGES: Final = {
    errno.EMFILE: ("this process may not open more files",
        "Allow it more: `ulimit -n` in the shell, LimitNOFILE= in a service."),
    errno.ENFILE: ("the machine can open no more files", "End programs that have many of them, or raise fs.file-max."),
    errno.ENOMEM: ("no memory is left",
        "Free some, or allow more: `ulimit -v` in the shell, MemoryMax= in a service."),
    errno.EAGAIN: ("no further thread or process may be started",
        "End some, or allow more: `ulimit -u` and `ulimit -v` in the shell, TasksMax= in a service."),
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
}
# fmt: on
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class ShortageError(MemoryGatewayError):
    """The machine, or what it allows us, ran out of something. Exit code 75, EX_TEMPFAIL."""

    kind = ErrorKind.OVERLOADED


class NotThereError(MemoryGatewayError):
    """A file, note or job that was named does not exist. Exit code 66, EX_NOINPUT."""

    kind = ErrorKind.FILE_UNREADABLE


class AnsweredRefusalError(MemoryGatewayError):
    """The memory answered that it may not or cannot do what was asked."""

    def __init__(self, message: str, kind: ErrorKind | None) -> None:
        super().__init__(message)
        self.kind = kind or ErrorKind.INDEX_UNAVAILABLE


def shortage(error: BaseException) -> ShortageError | None:
    """Returns an error that names what ran out; None if `error` has another cause."""
    number = _number(error)
    if number is None:
        return None
    what, remedy = _SHORTAGES[number]
    place = ""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is not None:
        place = f" ({error.filename})"  # a file that lacked only a descriptor does not matter
    return ShortageError(f"The command could not go on: {what}{place}.", remedy=remedy)


def _number(error: BaseException) -> int | None:
    """Returns the errno of a shortage. Errors of threads and of imports are recognised by their message."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError):
        is_one = error.errno in _SHORTAGES and error.errno != errno.EAGAIN  # a pipe: not ready
        return error.errno if is_one else None
    if isinstance(error, RuntimeError):
        return errno.EAGAIN if lacks_threads(error) else None
    if isinstance(error, ImportError):
        return next((one for one in _SHORTAGES if os.strerror(one) in str(error)), None)
    return None


def run_logged(command: Callable[..., int], options: Options, values: Mapping[str, object]) -> int:
    """Sets up the log, runs a command and returns its exit code."""
    log_for(options)
    return command(options, **values)


def guarded(command: Callable[[], int], options: Options) -> int:
    """Runs `command` and returns its exit code, or that of its failure."""
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
        return _explain(lone_error(error), options)
    return code


def _explain(error: BaseException, options: Options) -> int:
    """Reports what happened, as far as there is space for it, and returns the exit code."""
    shown = (
        error
        if isinstance(error, MemoryGatewayError)
        else shortage(error) or denied(error) or _lost_directory(error) or _apology(error, options)
    )
    with suppress(OSError):
        if shown is not error and options.log_level == "debug":
            output.note_text("".join(traceback.format_exception(error)).rstrip())
        _report(shown, options)
    output.settle()
    is_full = isinstance(shown, IndexFullError) or shown.remedy == DISK_IS_FULL
    return os.EX_TEMPFAIL if is_full else EXIT_CODES[shown.kind]


def _lost_directory(error: BaseException) -> NotThereError | None:
    """Returns an error for a working directory that was removed; None if `error` has another cause."""
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return None
    return NotThereError(
        "The working directory does not exist any more.", remedy="Change to another directory."
    )


def _report(error: MemoryGatewayError, options: Options) -> None:
    if options.json:
        with suppress(OSError):
            output.write_json(
                {"error": {"kind": error.kind, "message": error.message, "remedy": error.remedy}}
            )
            output.flush()
            return
    write = output.note_text if error.kind is ErrorKind.CONFIG_INVALID else output.note
    write(f"{PROGRAM}: {error.message.strip()}")  # for a configuration, each problem on a line
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
