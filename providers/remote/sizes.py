"""Recognising, in a host's words, that a request was refused for its size, and the limit it names.

Pure. Hosts have no common code for this, so the wordings in use are known here: OpenAI, Azure,
Gemini, Voyage, Text Embeddings Inference, vLLM, DashScope, llama.cpp and their relatives.
"""

from __future__ import annotations

import re

import msgspec

from providers.errors import SizeReason

_STATUSES = frozenset({400, 413, 422, 429, 500})
"""500: llama.cpp's server answers so when a text exceeds its physical batch."""

_N = r"(?P<limit>\d[\d_,]*)"
_WORDINGS: tuple[tuple[SizeReason, str], ...] = (
    ("input", r"too large to process"),
    ("tokens", rf"request too large.{{0,160}}limit:? {_N}"),
    (
        "tokens",
        rf"max(?:imum)? (?:allowed )?tokens per (?:submitted batch|request) (?:is |of )?{_N}",
    ),
    ("tokens", rf"max(?:imum)? {_N} tokens per request"),
    ("tokens", rf"enqueued tokens?.{{0,160}}limit:? {_N}"),
    ("tokens", r"enqueued tokens?"),
    ("tokens", r"max_tokens_per_request|tokens per (?:request|submitted batch)"),
    (
        "items",
        rf"batch size.{{0,80}}(?:maximum allowed batch size|larger than|limit is|at most) {_N}",
    ),
    ("items", rf"at most {_N} (?:requests|inputs|texts|items|documents)"),
    ("items", rf"max(?:imum)? (?:number of )?(?:inputs|items|texts|documents)(?: is| of|:)? {_N}"),
    ("items", rf"array (?:is )?too long.{{0,80}}maximum length {_N}"),
    ("items", rf"maximum (?:of )?{_N} (?:inputs|items|texts|documents)"),
    ("items", r"too many (?:inputs|items|texts|documents|embeddings)|batch size|array too long"),
    ("bytes", rf"payload size exceeds the limit:? {_N}"),
    ("bytes", r"(?:payload|entity|body|request) (?:is )?too large|payload size exceeds"),
    (
        "input",
        r"maximum (?:context|input|sequence) length|context length|input (?:is |text )?too l",
    ),
    ("input", r"too many tokens|input length|exceeds the (?:model|context)"),
)
_PATTERNS = tuple(
    (reason, re.compile(text, re.IGNORECASE | re.DOTALL)) for reason, text in _WORDINGS
)


class SizeRefusal(msgspec.Struct, frozen=True):
    reason: SizeReason
    limit: int | None = None
    """The host's own number, in the unit of the reason."""


def size_refusal(status: int, words: str) -> SizeRefusal | None:
    """What was too large, or None if this answer is about something else.

    A bare 413 speaks of the body's bytes.
    """
    if status not in _STATUSES:
        return None
    for reason, pattern in _PATTERNS:
        match = pattern.search(words)
        if match:
            named = match.groupdict().get("limit")
            limit = int(re.sub(r"\D", "", named)) if named else None
            return SizeRefusal(reason, limit or None)
    return SizeRefusal("bytes") if status == 413 else None
