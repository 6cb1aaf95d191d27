"""`memory_get`: parameters and the result as the contract has it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from backends.interface import ReadAnswer, ReadRequest
from config.errors import ErrorKind
from gateway.rpc.errors import InvalidParamsError
from gateway.tools.bounds import Key, PathText


class GetParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `memory_get`; `from` and `lines` may be 0 or absent for the whole file."""

    path: PathText
    first_line: Annotated[int, msgspec.Meta(ge=0)] | None = msgspec.field(default=None, name="from")
    lines: Annotated[int, msgspec.Meta(ge=0)] | None = None
    session_key: Key | None = msgspec.field(default=None, name="sessionKey")


class GetResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    text: str
    path: str
    status: Literal["ok", "not_found", "error"]
    first_line: int = msgspec.field(name="from")
    lines: int
    truncated: bool = False
    next_from: int | None = msgspec.field(default=None, name="nextFrom")
    denied: bool = False
    disabled: bool = False
    error: str | None = None
    kind: ErrorKind | None = None
    """Of the error; `path_not_allowed` for every refusal."""


def read_request(params: GetParams) -> ReadRequest:
    """The backend's request. Raises InvalidParamsError."""
    if not params.path.strip():
        raise InvalidParamsError(
            "path is blank.", remedy="Give the path of a result, as in memory/2026-02-08.md."
        )
    return ReadRequest(
        path=params.path, first_line=params.first_line or None, line_count=params.lines or None
    )


def write_result(answer: ReadAnswer) -> GetResult:
    return GetResult(
        text=answer.text,
        path=answer.path,
        status=answer.status,
        first_line=answer.first_line,
        lines=answer.line_count,
        truncated=answer.truncated,
        next_from=answer.next_line,
    )


def denied_result(path: str, reason: str) -> GetResult:
    """What a conversation that may not read is told; nothing was looked at for it."""
    error = f"This conversation may not read memory: {reason}."
    return GetResult(
        text="", path=path, status="error", first_line=0, lines=0, denied=True, error=error
    )


def failed_result(
    path: str, error: str, *, kind: ErrorKind | None = None, disabled: bool = False
) -> GetResult:
    """A refusal is a result, not an error of the call: a model can read it and try another path."""
    return GetResult(
        text="",
        path=path,
        status="error",
        first_line=0,
        lines=0,
        disabled=disabled,
        error=error,
        kind=kind,
    )
