"""The lines of Gemini's batch files: one request to write, one result to read. Pure.

Requests go by the field names that the vendor's examples use. Of an error nothing but its numbers and
codes is passed on, since its words may repeat the text.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from providers.batch.lines import Line

_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class _Embedding(msgspec.Struct):
    values: Any = None


class _Response(msgspec.Struct):
    embedding: _Embedding | None = None


class _Error(msgspec.Struct):
    code: int | str | None = None
    status: str | None = None


class _RawLine(msgspec.Struct):
    key: str
    response: _Response | None = None
    error: _Error | None = None


def write_line(key: str, text: str, *, task_type: str | None, dimensions: int | None) -> bytes:
    """The request for one text; options that are None are left to the vendor."""
    options = {"task_type": task_type, "output_dimensionality": dimensions}
    request = {
        "content": {"parts": [{"text": text}]},
        **{name: value for name, value in options.items() if value is not None},
    }
    return msgspec.json.encode({"key": key, "request": request}) + b"\n"


def read_line(raw: bytes) -> Line | None:
    """What a line says; None for one that is blank or cannot be understood."""
    try:
        line = msgspec.json.decode(raw, type=_RawLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if line.error is not None:
        return Line(line.key, error=_refusal(line.error))
    if line.response is None or line.response.embedding is None:
        return Line(line.key, error="The batch job's answer holds no vector for this text.")
    return Line(line.key, line.response.embedding.values)


def _refusal(error: _Error) -> str:
    said = (str(word) for word in (error.code, error.status) if word is not None)
    known = ", ".join(word for word in said if _CODE.fullmatch(word))
    return f"A batch job refused this text ({known or 'it gave no reason'})."
