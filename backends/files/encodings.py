"""Which encoding the bytes of a note are in. Pure.

A byte-order mark says it, valid UTF-8 wins, text of the Latin script with a zero after each letter is
UTF-16, and Western text that is not UTF-8 is Windows-1252 (of which Latin-1 is a part) when nothing speaks
against it. What is left is UTF-8 with damage, or it is not read at all: statistics of languages, which would
tell GBK from Shift JIS, are not reliable on short notes.
"""

from __future__ import annotations

import re
from typing import Final

DECODING_VERSION: Final = 2
"""Goes up with every change of the rule: the notes of stored indexes are then read again."""
UTF8: Final = "utf-8"
WINDOWS: Final = "windows-1252"
BROKEN: Final = "broken"
"""UTF-8 with damage: what cannot be read is shown as U+FFFD."""
UNKNOWN: Final = "unknown"
"""Text in another encoding, or no text: there is nothing in it to search."""

_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_LEAST_UTF16: Final = 8
_ZERO_SHARE: Final = 0.7
_HIGH_SHARE: Final = 1 / 3
_DAMAGED: Final = "[\x00-\x08\x0e-\x1f\x7f\N{REPLACEMENT CHARACTER}]"
_LEAST_DAMAGE: Final = 4
_DAMAGE_SHARE: Final = 1 / 4
"""The share of what is not white space above which damage is hopeless. Damaged notes have a few such places, other
encodings hardly anything else."""
_HIGH: Final = rb"[\x80-\xff]"
_NOT_WINDOWS: Final = rb"[\x00-\x08\x0b\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]|[\x80-\xff]{4}"
"""Control characters, bytes that mean nothing, and runs that no Western word has."""


def encoding_of(data: bytes) -> str:
    """A codec of Python that reads all of it, or `BROKEN` or `UNKNOWN`."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return codec if _reads(data, codec) else BROKEN
    if b"\0" in data:
        guessed = _utf16(data)
        if guessed is not None:
            return guessed
    if _reads(data, UTF8):
        return UTF8
    if _is_windows(data):
        return WINDOWS
    return UNKNOWN if _is_hopeless(data) else BROKEN


def is_marked(data: bytes) -> bool:
    """Whether a byte-order mark says that it is UTF-16."""
    return any(data.startswith(mark) for mark, _ in _MARKS)


def _is_hopeless(data: bytes) -> bool:
    shown = data.decode(UTF8, "replace")
    damaged = len(re.findall(_DAMAGED, shown))
    visible = len(shown) - sum(map(shown.count, " \n\r\t"))
    return damaged >= _LEAST_DAMAGE and damaged > _DAMAGE_SHARE * visible


def _utf16(data: bytes) -> str | None:
    if len(data) < _LEAST_UTF16 or len(data) % 2:
        return None
    half = len(data) // 2
    first, second = data[::2].count(0), data[1::2].count(0)
    if not first and second >= _ZERO_SHARE * half:
        codec = "utf-16-le"
    elif not second and first >= _ZERO_SHARE * half:
        codec = "utf-16-be"
    else:
        return None
    return codec if _reads(data, codec) else None


def _is_windows(data: bytes) -> bool:
    if re.search(_NOT_WINDOWS, data):
        return False
    high = len(re.findall(_HIGH, data))
    visible = len(data) - sum(data.count(space) for space in (b" ", b"\n", b"\r", b"\t"))
    if high > _HIGH_SHARE * visible:
        return False
    # What is mostly UTF-8 is UTF-8 that something broke.
    shown = data.decode(UTF8, "replace")
    broken = shown.count("\N{REPLACEMENT CHARACTER}")
    valid = sum(character > "\x7f" for character in shown) - broken
    return valid < broken


def _reads(data: bytes, codec: str) -> bool:
    try:
        data.decode(codec)
    except UnicodeDecodeError:
        return False
    return True
