"""Telling a secret from the next word of a sentence.

Owns the judgement of one value, given how much its name promises. Errs on the side of masking what
looks like a password, and on the side of keeping what looks like language or code.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from backends.redaction.mask import is_masked


class Trust(Enum):
    """How much the name before a value promises."""

    ASSIGNED = auto()
    """`DB_PASSWORD=`: whatever follows at once, but a placeholder, is the secret."""
    PASSWORD = auto()
    """`password`: even a plain word behind it is one, when the clause ends with it."""
    NAMED = auto()
    """`OPENAI_API_KEY`, `clientSecret`: a name that people give to nothing else."""
    LIKELY = auto()
    """`token`, `secret` alone: also everyday words."""
    VAGUE = auto()
    """`key` alone: mostly an everyday word."""


_PLACEHOLDER: Final = re.compile(
    r"[x.*_-]+|\$\{[^}]*\}|(?-i:\$[A-Z_][A-Z0-9_]*)|\$?\([^)]*\)|<[\w-]*>?|\{.*\}|%\w+%?"
    r"|\[[^\]]*\]|none|null|nil|true|false|undefined|yes|no|unknown|required|optional|string|str"
    r"|value|text|bytes|int|any|changed?|here|below|above|env(?:ironment)?|redacted|example"
    r"|(?:your|my)[-_][\w-]*|change[-_]?me",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(
    r"[{\[(]|(?:self|os|process|config|settings|env)\.[A-Za-z_]"
    r"|(?:[A-Za-z_]{1,40}\.){0,4}[A-Za-z_]{2,40}(?:\[|\((?:[\"'rfb]?[\"']|.*\)|\Z))"
)
"""A literal, an attribute, an index or a call."""
_ATTRIBUTE: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
_PLAIN: Final = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_MIXED_RUN: Final = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]+")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OPAQUE: Final = re.compile(r"[A-Za-z0-9_+/=~-]+")
_LEAST_DIGITS: Final = 4
_LEAST_RUN: Final = {Trust.LIKELY: 7, Trust.VAGUE: 10}


def is_secret(value: str, trust: Trust, *, quoted: bool, ends_clause: bool) -> bool:
    """Whether the value is to be masked. `ends_clause`: no further word follows it."""
    if not value or is_masked(value) or _PLACEHOLDER.fullmatch(value):
        return False
    if not quoted and (_CODE.match(value) or _is_count(value)):
        return False
    if trust in _LEAST_RUN:
        return _looks_opaque(value, _LEAST_RUN[trust])
    if quoted or trust is Trust.ASSIGNED:
        return True
    if trust is Trust.NAMED and _ATTRIBUTE.fullmatch(value):
        return False
    if _PLAIN.fullmatch(value):
        return value.isascii() and ends_clause and trust is Trust.PASSWORD
    return True


def _is_count(value: str) -> bool:
    return value.isdigit() and len(value) < _LEAST_DIGITS


def _looks_opaque(value: str, least: int) -> bool:
    """Letters and digits mixed in one long run: no word, name, date or path looks so."""
    if not _OPAQUE.fullmatch(value):
        return False
    longest = max((len(run) for run in _MIXED_RUN.findall(value)), default=0)
    return longest >= least or _UUID.fullmatch(value) is not None
