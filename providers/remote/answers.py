"""Reads the answers of hosts, as validated vectors (limited in size, decoded, checked, normalised, ordered) or as typed
errors, with secrets and the user's own text masked.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import chain
from typing import Any, Final

import msgspec

from config.errors import ErrorKind
from config.secrets import redact
from providers.provider_interface import (
    ItemError,
    ProviderAuthError,
    ProviderError,
    ProviderInputTooLargeError,
    ProviderQuotaError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTransientError,
    ProviderUnavailableError,
    SizeReason,
    Vector,
)

MOST_DIMENSIONS: Final = 16_384
"""Several times what any model gives."""
OTHER_VALUES: Final = 100_000
"""The most values that an answer may have beside its vectors, such as a list of jobs."""

_texts: ContextVar[int] = ContextVar("texts in the request", default=0)

Row = tuple[int | None, object]
"""One embedding as it came: its index, if the host sent one, and floats or a base64 string."""

_WINDOW = 16
"""This many characters in common with a sent text mean that the host quotes it."""
_NOT_TEXTS = frozenset({"model", "taskType", "input_type", "encoding_format"})
_STATUSES = frozenset({400, 413, 422, 429, 500})
"""500 is the answer of llama.cpp's server to a text that exceeds its physical batch."""
_N = r"(?P<limit>\d[\d_,]{0,30})"
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
_MAX_DETAIL = 200
_USED_UP = (
    r"insufficient.?(quota|balance|credit|funds)|exceeded your current quota|out of credits"
    r"|billing.?(hard.?limit|not.?active)|(credits?|balance|allowance) (is |are )?(exhausted|used up)"
    r"|payment required|arrears"
)
_BAD_KEY = r"api.?key.{0,20}(not valid|invalid|expired)|API_KEY_INVALID"
_DURATION = r"(\d+(?:\.\d+)?)s"


class Reply(msgspec.Struct, frozen=True):
    """A host's answer, not yet validated."""

    rows: Sequence[Row]
    tokens: int = 0


@contextmanager
def expecting(texts: int) -> Iterator[None]:
    """Allows answers within the body to contain the vectors of this many texts."""
    token = _texts.set(texts)
    try:
        yield
    finally:
        _texts.reset(token)


def most_values() -> int:
    """Returns how many values the answer to a request of this task may have."""
    return _texts.get() * MOST_DIMENSIONS + OTHER_VALUES


def values_in(data: bytes) -> int:
    """Returns an upper bound of the values in JSON: each begins an array or an object, or follows a comma.

    They are counted before parsing: a megabyte of `{},` takes fifty in memory afterwards.
    """
    return data.count(b",") + data.count(b"[") + data.count(b"{")


_NUMBERS: Final = frozenset({float, int})


def decode(raw: object) -> Vector | None:
    """Decodes floats, or base64 of float32 in the byte order of x86 and ARM; returns None for anything else."""
    try:
        if isinstance(raw, str):
            return array("f", base64.b64decode(raw, validate=True))
        if isinstance(raw, list) and _NUMBERS.issuperset(map(type, raw)):
            return array("f", raw)
    except (binascii.Error, ValueError, OverflowError):
        return None
    return None


def normalise(vector: Vector) -> Vector | None:
    """Returns the vector scaled to length 1, or None if it has no direction (zero, not finite, empty)."""
    length = math.hypot(*vector)
    if not 0.0 < length < math.inf:
        return None
    return array("f", [number / length for number in vector])


def _normalise_by_numpy() -> Callable[[Vector], Vector | None]:
    """Returns a `normalise` that takes a fifth of the time, for so many vectors that loading numpy pays."""
    import numpy as np  # noqa: PLC0415 - never for the one vector of a query

    def normalise_one(vector: Vector) -> Vector | None:
        wide = np.frombuffer(vector, np.float32).astype(np.float64)
        length = float(np.linalg.norm(wide))
        if not 0.0 < length < math.inf:
            return None
        return array("f", (wide / length).astype(np.float32).tobytes())

    return normalise_one


def in_order(rows: Sequence[Row], expected: int) -> list[object]:
    """Returns the raw embeddings in the order of the request; None stands for one that did not come.

    Indices decide when every row has its own. Without them (some hosts send none, or 0 for all) the
    order of the rows decides, if their number is right; otherwise nothing can be attributed.
    """
    indices = [index for index, _ in rows]
    own = all(index is not None and 0 <= index < expected for index in indices)
    if own and len(set(indices)) == len(rows):
        slots: list[object] = [None] * expected
        for index, raw in rows:
            slots[index or 0] = raw
        return slots
    return [raw for _, raw in rows] if len(rows) == expected else [None] * expected


def collect(
    rows: Sequence[Row], expected: int, dimensions: int | None
) -> tuple[Vector | ItemError, ...]:
    """Returns one validated vector or error for each of the `expected` texts.

    `dimensions` is the length of every vector; None takes that of most vectors of this answer.
    """
    decoded = [decode(raw) for raw in in_order(rows, expected)]
    if dimensions is None:
        sizes = Counter(len(vector) for vector in decoded if vector)
        dimensions = max(sizes, key=lambda size: sizes[size], default=0)
    scale = normalise if expected == 1 else _normalise_by_numpy()
    return tuple(_checked(vector, dimensions, scale) for vector in decoded)


def _checked(
    vector: Vector | None, dimensions: int, scale: Callable[[Vector], Vector | None]
) -> Vector | ItemError:
    if vector is None:
        return _fault("The host returned no vector for this text.")
    if len(vector) != dimensions:
        return _fault(
            f"The host returned a vector of {len(vector)} dimensions instead of {dimensions}."
        )
    unit = scale(vector)
    if unit is None:
        return _fault("The host returned a vector that is zero or not finite.")
    return unit


def _fault(message: str) -> ItemError:
    return ItemError(kind=ErrorKind.PROVIDER_BAD_RESPONSE, message=message)


def without_echo(message: str, request: bytes) -> str:
    """Returns the message up to where it begins to repeat a text of the request's JSON body, quoted or not."""
    try:
        texts = list(_strings(msgspec.json.decode(request)))
    except (msgspec.DecodeError, RecursionError):
        return message
    forms = ((" ".join(text.split()), repr(text)[1:-1], json.dumps(text)[1:-1]) for text in texts)
    sent = "\n".join(dict.fromkeys(chain.from_iterable(forms)))
    for at in range(len(message) - _WINDOW + 1):
        if message[at : at + _WINDOW] in sent:
            return f"{message[:at]}…"
    return message


def _strings(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for entry in node:
            yield from _strings(entry)
    elif isinstance(node, dict):
        for name, entry in node.items():
            if name not in _NOT_TEXTS:
                yield from _strings(entry)


# Compiled with the first refusal, not at start.
@cache
def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(words, re.IGNORECASE | re.DOTALL)


class SizeRefusal(msgspec.Struct, frozen=True):
    reason: SizeReason
    limit: int | None = None
    """The host's own number, in the unit of the reason."""


def size_refusal(status: int, words: str) -> SizeRefusal | None:
    """Returns what was too large, or None if this answer is about something else.

    A bare 413 means the body's bytes. With 429 only `tokens` counts: "too many tokens, please wait" is about a rate.
    """
    if status not in _STATUSES:
        return None
    for reason, wording in _WORDINGS:
        if status == 429 and reason != "tokens":
            continue
        match = _pattern(wording).search(words)
        if match:
            named = match.groupdict().get("limit")
            limit = int(re.sub(r"\D", "", named)) if named else None
            return SizeRefusal(reason, limit or None)
    return SizeRefusal("bytes") if status == 413 else None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that matter of one answer that is not a success."""

    status: int
    headers: Mapping[str, str]
    """The headers, with lower-case names."""
    body: bytes
    request: bytes | None = b""
    """The body that was sent, so that none of it is repeated; None if it was streamed."""
    place: str
    """The host that answered (`OpenAI at api.openai.com`)."""
    key_source: str | None
    """None: no key was sent."""
    secrets: tuple[str, ...] = ()
    now_s: float = 0
    """Seconds since 1970, for a `Retry-After` that is a date."""


def error_for(refusal: Refusal) -> ProviderError:
    """Returns the typed error of a refusal."""
    body = _decoded(refusal.body)
    detail = _detail(body, refusal)
    words = f"{_codes(body)} {_message(body)}"
    status = refusal.status

    def said(what: str) -> str:
        message = f"{refusal.place} {what} (HTTP {status})"
        return f"{message}: {detail}" if detail else f"{message}."

    size = size_refusal(status, words)
    if size is not None:
        return ProviderInputTooLargeError(
            said("refused the request's size"), reason=size.reason, limit=size.limit, status=status
        )
    if status in (401, 403) or (status == 400 and _pattern(_BAD_KEY).search(words)):
        return ProviderAuthError(
            said("refused the credential"),
            remedy=f"The key came from {refusal.key_source}: check it, or set another."
            if refusal.key_source
            else "No key was sent: set remote.apiKey, or that of models.providers.",
            status=status,
        )
    if status == 402 or (status == 429 and _is_final_quota(body, words)):
        return ProviderQuotaError(
            said("has no allowance left for this account"),
            remedy="Check plan and billing with the vendor; notes stay searchable by keywords.",
            status=status,
        )
    return _by_status(status, said, retry_after_s(refusal, body))


def _by_status(status: int, said: Callable[[str], str], wait_s: float | None) -> ProviderError:
    if status == 429:
        message = said("asks for fewer requests")
        return ProviderRateLimitError(message, status=status, retry_after_s=wait_s)
    if status in (408, 409, 425) or status >= 500:
        message = said("is not able to answer")
        return ProviderTransientError(message, status=status, retry_after_s=wait_s)
    if status in (404, 405, 410):
        return ProviderUnavailableError(
            said("does not know this model or path"),
            remedy="Check model and remote.baseUrl.",
            status=status,
        )
    return ProviderRejectedError(
        said("rejected the request"),
        remedy="Check model, outputDimensionality and the input types.",
        status=status,
    )


def retry_after_s(refusal: Refusal, body: object) -> float | None:
    """Returns the wait that the host asks for, in a header or in Gemini's `RetryInfo`."""
    milliseconds = _number(refusal.headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = refusal.headers.get("retry-after", "").strip()
    if header:
        seconds = _number(header)
        return seconds if seconds is not None else _until(header, refusal.now_s)
    for entry in _details(body):
        match = re.fullmatch(_DURATION, str(entry.get("retryDelay", "")))
        if match:
            return float(match[1])
    return None


def _is_final_quota(body: object, words: str) -> bool:
    violations = [
        str(violation.get("quotaId", ""))
        for entry in _details(body)
        for violation in entry.get("violations") or ()
        if isinstance(violation, dict)
    ]
    # Gemini words every limit alike; only the quota's name distinguishes a day from a minute.
    if violations or "RESOURCE_EXHAUSTED" in words:
        return any("PerDay" in name for name in violations)
    return _pattern(_USED_UP).search(words) is not None


def _decoded(body: bytes) -> object:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return decoded[0] if isinstance(decoded, list) and decoded else decoded


def _error(body: object) -> Mapping[str, object]:
    """Returns the part of the body that describes the error, wherever the vendor puts it."""
    if not isinstance(body, dict):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, dict) else body


def _message(body: object) -> str:
    error = _error(body)
    said = (error.get(name) for name in ("message", "detail", "error"))
    return next((text for text in said if isinstance(text, str)), "")


def _codes(body: object) -> str:
    error = _error(body)
    return " ".join(str(error[name]) for name in ("code", "type", "status") if error.get(name))


def _details(body: object) -> list[Mapping[str, Any]]:
    details = _error(body).get("details")
    if not isinstance(details, list):
        return []
    return [entry for entry in details if isinstance(entry, dict)]


def _detail(body: object, refusal: Refusal) -> str:
    if refusal.request is None:  # no part that the host repeats could be recognised
        return ""
    text = " ".join(redact(_message(body), refusal.secrets).split())
    if len(text) > _MAX_DETAIL:
        text = f"{text[:_MAX_DETAIL]}…"
    return without_echo(text, refusal.request)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number >= 0 else None


def _until(date: str, now_s: float) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - rare

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None
