"""`memory_get`: parameters, limits and results."""

from __future__ import annotations

from typing import Annotated

import msgspec

from backends.interface import ReadAnswer, ReadRequest
from config.errors import ErrorKind
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import Key, PathText


class GetParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `memory_get`; `from` and `lines` may be 0 or absent for the whole file."""

    path: PathText
    first_line: Annotated[int, msgspec.Meta(ge=0)] | None = msgspec.field(default=None, name="from")
    lines: Annotated[int, msgspec.Meta(ge=0)] | None = None
    session_key: Key | None = msgspec.field(default=None, name="sessionKey")


def read_request(params: GetParams) -> ReadRequest:
    """The backend's request. Raises InvalidParamsError."""
    if not params.path.strip():
        raise InvalidParamsError(
            "path is blank.", remedy="Give the path of a result, as in memory/2026-02-08.md."
        )
    return ReadRequest(
        path=params.path, first_line=params.first_line or None, line_count=params.lines or None
    )


def denied_result(path: str, reason: str) -> ReadAnswer:
    """What a conversation that may not read is told; nothing was looked at for it."""
    error = f"This conversation may not read memory: {reason}."
    return ReadAnswer(
        text="", path=path, status="error", first_line=0, line_count=0, denied=True, error=error
    )


def failed_result(
    path: str, error: str, *, kind: ErrorKind | None = None, disabled: bool = False
) -> ReadAnswer:
    """A refusal is a result, not an error of the call: a model can read it and try another path."""
    return ReadAnswer(
        text="",
        path=path,
        status="error",
        first_line=0,
        line_count=0,
        disabled=disabled,
        error=error,
        kind=kind,
    )
