"""Exit codes: the one place that says which error ends a command with which number.

The numbers are those of sysexits.h, which scripts and service managers know; `health` has its own
three. A command that found nothing has still succeeded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from config.errors import ErrorKind

INTERRUPTED: Final = 130
"""128 + SIGINT, as shells have it."""
BROKEN_PIPE: Final = 141
"""128 + SIGPIPE: the reader of our output went away, as `head` does."""

EXIT_CODES: Final[Mapping[ErrorKind, int]] = {
    ErrorKind.INVALID_PARAMS: os.EX_USAGE,
    ErrorKind.LINE_TOO_LONG: os.EX_DATAERR,
    ErrorKind.PROVIDER_INPUT_TOO_LARGE: os.EX_DATAERR,
    ErrorKind.FILE_UNREADABLE: os.EX_NOINPUT,
    ErrorKind.FILE_UNWRITABLE: os.EX_CANTCREAT,
    ErrorKind.INDEX_UNAVAILABLE: os.EX_UNAVAILABLE,
    ErrorKind.PROVIDER_UNAVAILABLE: os.EX_UNAVAILABLE,
    ErrorKind.PROVIDER_QUOTA: os.EX_UNAVAILABLE,
    ErrorKind.QMD_UNAVAILABLE: os.EX_UNAVAILABLE,
    ErrorKind.INTERNAL: os.EX_SOFTWARE,
    ErrorKind.CANCELLED: os.EX_TEMPFAIL,
    ErrorKind.DEADLINE_EXCEEDED: os.EX_TEMPFAIL,
    ErrorKind.SHUTTING_DOWN: os.EX_TEMPFAIL,
    ErrorKind.OVERLOADED: os.EX_TEMPFAIL,
    ErrorKind.PROVIDER_RATE_LIMITED: os.EX_TEMPFAIL,
    ErrorKind.PROVIDER_TRANSIENT: os.EX_TEMPFAIL,
    ErrorKind.PARSE_ERROR: os.EX_PROTOCOL,
    ErrorKind.INVALID_REQUEST: os.EX_PROTOCOL,
    ErrorKind.METHOD_NOT_FOUND: os.EX_PROTOCOL,
    ErrorKind.UNSUPPORTED_PROTOCOL_VERSION: os.EX_PROTOCOL,
    ErrorKind.PROVIDER_BAD_RESPONSE: os.EX_PROTOCOL,
    ErrorKind.PATH_NOT_ALLOWED: os.EX_NOPERM,
    ErrorKind.PROVIDER_AUTH: os.EX_NOPERM,
    ErrorKind.CONFIG_INVALID: os.EX_CONFIG,
    ErrorKind.CONFIG_NOT_FOUND: os.EX_CONFIG,
}
HEALTH_CODES: Final = {"ok": 0, "degraded": 1, "failing": 2}
"""Of `health` and `doctor`, as probes have it."""
NOT_FOUND: Final = os.EX_NOINPUT
"""`get` of a permitted path where no file is."""
