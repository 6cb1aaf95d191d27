"""Reading a note, adding to one and forgetting what is gone: parameters, limits and results."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from backends.interface import ForgetRequest, ReadAnswer, ReadRequest
from config.errors import ErrorKind
from gateway.rpc.registry import Params
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import Key, PathText

MAX_ENTRY_BYTES = 64 * 1024
"""More than one entry of a log should ever have."""
_FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]"
Target = Literal["daily", "longterm"]


class GetParams(Params, frozen=True):
    """Parameters of `memory_get`; `from` and `lines` may be 0 or absent for the whole file."""

    path: PathText
    first_line: Annotated[int, msgspec.Meta(ge=0)] | None = msgspec.field(default=None, name="from")
    lines: Annotated[int, msgspec.Meta(ge=0)] | None = None
    session_key: Key | None = msgspec.field(default=None, name="sessionKey")


def read_request(params: GetParams) -> ReadRequest:
    """Returns the backend's request; a citation is read as path and lines. Raises InvalidParamsError."""
    path, first, lines = params.path, params.first_line, params.lines
    if not path.strip():
        raise InvalidParamsError(
            "path is blank.", remedy="Give the path of a result, as in memory/2026-02-08.md."
        )
    if not first and (cited := re.fullmatch(r"(.+)#L([1-9]\d{0,8})(?:-L(\d{1,9}))?", path)):
        path, first = cited[1], int(cited[2])
        lines = lines or max(1, int(cited[3] or 0) - first + 1)
    return ReadRequest(path=path, first_line=first or None, line_count=lines or None)


def denied_result(path: str, reason: str) -> ReadAnswer:
    """Returns the answer to a conversation that may not read; nothing was looked at for it."""
    error = f"This conversation may not read memory: {reason}."
    return failed_result(path, error, kind=ErrorKind.DENIED, denied=True)


def failed_result(
    path: str, error: str, *, kind: ErrorKind, denied: bool = False, disabled: bool = False
) -> ReadAnswer:
    """Returns a refusal as a result, not as an error of the call: a model can read it and try another path."""
    return ReadAnswer(
        text="", path=path, status="error", first_line=0, line_count=0, denied=denied, disabled=disabled, error=error,
        kind=kind,
    )  # fmt: skip


class AppendParams(Params, frozen=True, kw_only=True):
    text: str
    target: Target = "daily"
    """Today's log, or `MEMORY.md`."""
    session_key: Key | None = None


class AppendResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The lines that were added; nothing was written when there is an `error`."""

    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    created: bool = False
    denied: bool = False
    disabled: bool = False
    error: str | None = None
    kind: ErrorKind | None = None
    """The kind of the error."""


def read_entry(params: AppendParams) -> str:
    """Returns the entry as it is written. Raises InvalidParamsError."""
    text = params.text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not text.strip():
        raise InvalidParamsError("text is blank.", remedy="Say what should be remembered.")
    if re.search(_FORBIDDEN, text):
        raise InvalidParamsError(
            "text holds control characters.", remedy="Markdown needs only newlines and tabs."
        )
    if len(text.encode()) > MAX_ENTRY_BYTES:
        raise InvalidParamsError(
            f"text is longer than {MAX_ENTRY_BYTES} bytes.",
            remedy="Append a summary, or several entries.",
        )
    return text


class ForgetParams(Params, frozen=True, kw_only=True):
    """A path or an age in milliseconds. Without `remove` the answer only says what is kept."""

    path: str | None = None
    older_than_ms: int | None = None
    remove: bool = False

    def request(self) -> ForgetRequest:
        """Raises InvalidParamsError."""
        if (self.path is None) == (self.older_than_ms is None):
            raise InvalidParamsError(
                "forget takes a path or an age, and one of them.",
                remedy="`memory-gateway forget --help` shows both.",
            )
        if self.older_than_ms is not None and self.older_than_ms < 0:
            raise InvalidParamsError("An age is not negative.", remedy="Say for example 90d.")
        return ForgetRequest(path=self.path, older_than_ms=self.older_than_ms, remove=self.remove)
