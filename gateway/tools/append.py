"""`memory_append`: parameters, limits and results."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import Key

MAX_ENTRY_BYTES = 64 * 1024
"""More than one entry of a log should ever hold."""

_FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]"

Target = Literal["daily", "longterm"]


class AppendParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
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


def read_entry(params: AppendParams) -> str:
    """The entry as it is written. Raises InvalidParamsError."""
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
