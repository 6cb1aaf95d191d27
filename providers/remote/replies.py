"""Turning an error answer of a host into a typed error, without secrets and without the user's texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import msgspec

from config.secrets import redact
from providers.provider_errors import (
    ProviderAuthError,
    ProviderError,
    ProviderInputTooLargeError,
    ProviderQuotaError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTransientError,
    ProviderUnavailableError,
    SizeReason,
)

_WINDOW = 16
"""So many characters in common with a sent text mean that the host quotes it."""
_NOT_TEXTS = frozenset({"model", "taskType", "input_type", "encoding_format"})
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
_MAX_DETAIL = 200
_USED_UP = (
    r"insufficient.?(quota|balance|credit|funds)|exceeded your current quota|out of credits"
    r"|billing.?(hard.?limit|not.?active)|(credits?|balance|allowance) (is |are )?(exhausted|used up)"
    r"|payment required|arrears"
)
_BAD_KEY = r"api.?key.{0,20}(not valid|invalid|expired)|API_KEY_INVALID"
_DURATION = r"(\d+(?:\.\d+)?)s"


def without_echo(message: str, request: bytes) -> str:
    """The message up to where it begins to repeat a text of the request's JSON body."""
    try:
        sent = "\n".join(_strings(msgspec.json.decode(request)))
    except (msgspec.DecodeError, RecursionError):
        return message
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
    """What was too large, or None if this answer is about something else.

    A bare 413 speaks of the body's bytes.
    """
    if status not in _STATUSES:
        return None
    for reason, wording in _WORDINGS:
        match = _pattern(wording).search(words)
        if match:
            named = match.groupdict().get("limit")
            limit = int(re.sub(r"\D", "", named)) if named else None
            return SizeRefusal(reason, limit or None)
    return SizeRefusal("bytes") if status == 413 else None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One answer that is no success, as far as it matters."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names."""
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
    """The typed error of a refusal."""
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
    """The wait that the host asks for, in a header or in Gemini's `RetryInfo`."""
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
    # Gemini words every limit alike; only the quota's name tells a day from a minute.
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
    """The part of the body that describes the error, wherever the vendor puts it."""
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
    return (
        [entry for entry in details if isinstance(entry, dict)] if isinstance(details, list) else []
    )


def _detail(body: object, refusal: Refusal) -> str:
    if refusal.request is None:  # it cannot be told which part of it the host repeats
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
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None
