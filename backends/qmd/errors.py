"""What can go wrong with the QMD sidecar, so that the floor above can answer without it."""

from __future__ import annotations

from typing import Literal

from config.errors import ErrorKind, MemoryGatewayError

Cause = Literal[
    "missing", "broken", "not_ready", "timeout", "crashed", "bad_answer", "corrupt_index"
]


class QmdUnavailableError(MemoryGatewayError):
    """QMD cannot answer now. `cause` says of which sort the reason is."""

    kind = ErrorKind.QMD_UNAVAILABLE

    def __init__(self, cause: Cause, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.cause: Cause = cause
