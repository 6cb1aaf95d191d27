"""Keeping credentials out of everything that is logged or answered.

Known secrets and everything that has the shape of a key are masked in any text. The mask shows no part of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from config.source.environment import Secret

MASK = "***"

_MIN_KNOWN_LENGTH = 6
"""A shorter "secret" is a placeholder such as `x`; masking it everywhere would only garble text."""

_PLAIN_SECRET = re.compile(r"[A-Za-z0-9_.~-]+")

_ASSIGNMENT = (
    r"(?P<lead>\b(?:[\w-]{0,40}api[-_]?key|[\w-]{0,40}(?:token|secret|password|passwd)|authorization)"
    r"[\"']?\s*[:=]\s*[\"']?)(?!Bearer\b|Basic\b|\*\*\*)[^\s\"',;&}]{4,}"
)

# Each pattern keeps its group `lead` and loses the rest.
_SHAPES = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?P<lead>://)[^/?#\s@\"']+(?=@)",
    r"(?P<lead>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}",
    _ASSIGNMENT,
    r"(?P<lead>[?&]key=)[^\s\"'&]+",
    r"\bsk-[\w-]{8,}",
    r"\bAIza[\w-]{20,}",
    r"\bpa-[\w-]{20,}",
    r"\b(?:gh[pousr]_|github_pat_|hf_)\w{20,}",
    r"\b(?:xox[abeoprs]|xapp|pplx)-[\w-]{10,}",
    r"\b(?:gsk|npm)_\w{10,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\beyJ(?:\w|-(?!eyJ)){8,}\.[\w-]{8,}\.[\w-]*",
    r"\b[0-9]{6,}:[\w-]{20,}",
)


def redact(text: str, secrets: Iterable[Secret | str] = ()) -> str:
    """Returns the text with `***` for every known secret and for everything that looks like a key.

    Known secrets are found as they are and as they look inside JSON, inside a URL and in base64.
    """
    values = {secret.reveal() if isinstance(secret, Secret) else secret for secret in secrets}
    forms = {form for value in values for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    for pattern in _patterns():
        text = pattern.sub(_keep_lead, text)
    return text


def _forms(value: str) -> Iterator[str]:
    value = value.strip()
    if len(value) < _MIN_KNOWN_LENGTH:
        return
    yield value
    if not _PLAIN_SECRET.fullmatch(value):
        from urllib.parse import quote  # noqa: PLC0415 - rarely needed

        yield msgspec.json.encode(value).decode()[1:-1]
        yield quote(value, safe="")
    import base64  # noqa: PLC0415 - only where secrets are known

    yield base64.b64encode(value.encode()).decode().rstrip("=")


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(shape, re.DOTALL | re.IGNORECASE) for shape in _SHAPES)


def _keep_lead(match: re.Match[str]) -> str:
    return match.groupdict().get("lead", "") + MASK
