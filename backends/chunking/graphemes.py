"""The places where a text may be cut without tearing what a reader sees as one character.

Unicode's grapheme clusters (UAX 29) are read cautiously: every position that is allowed here is a cluster boundary
there, while some real boundaries are refused. Words and lines are not known here.
"""

from __future__ import annotations

import unicodedata
from typing import Final

LONGEST_CLUSTER: Final = 64
"""The code points after which a cluster may be cut all the same, so that stacked marks cannot stop the work."""

_JOINER: Final = "\u200d"
_VIRAMA_CLASS: Final = 9


def _characters(*ranges: tuple[int, int]) -> frozenset[str]:
    return frozenset(chr(code) for first, last in ranges for code in range(first, last + 1))


# Extenders that are not marks: joiners, half-width voicing marks, Thai and Lao AM, skin tones, tags.
_EXTENDERS: Final = _characters(
    (0x200C, 0x200D),
    (0xFF9E, 0xFF9F),
    (0x0E33, 0x0E33),
    (0x0EB3, 0x0EB3),
    (0x1F3FB, 0x1F3FF),
    (0xE0020, 0xE007F),
)
# Hangul vowels and finals join any Hangul before them.
_HANGUL_TAILS: Final = _characters((0x1160, 0x11FF), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB))
_HANGUL_LEADS: Final = _characters((0x1100, 0x115F), (0xA960, 0xA97C))
# Signs that join what follows them (Grapheme_Cluster_Break=Prepend).
_PREPENDED: Final = _characters(
    (0x0600, 0x0605),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x0D4E, 0x0D4E),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x111C2, 0x111C3),
    (0x1193F, 0x1193F),
    (0x11941, 0x11941),
    (0x11A3A, 0x11A3A),
    (0x11A84, 0x11A89),
    (0x11D46, 0x11D46),
    (0x11F02, 0x11F02),
)
_FLAG_LETTERS: Final = _characters((0x1F1E6, 0x1F1FF))


def may_cut(text: str, position: int, known: int) -> bool:
    """Returns whether `text` may be cut before `position`, where `0 < position < len(text)`.

    `known` is a boundary at or before `position`; pairs of flag letters are counted from there.
    """
    before, after = text[position - 1], text[position]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if _is_control(before):
        return True
    if _extends(after) or before == _JOINER or before in _PREPENDED:
        return False
    if after in _FLAG_LETTERS and before in _FLAG_LETTERS:
        return _flag_letters_before(text, position, known) % 2 == 0
    if after in _HANGUL_TAILS:
        return not (before in _HANGUL_TAILS or _is_hangul_start(before))
    if before in _HANGUL_LEADS:
        return not _is_hangul_start(after)
    return not (after.isalpha() and _ends_in_virama(text, position, known))


def next_cut(text: str, start: int, wanted: int, end: int) -> int:
    """Returns where to cut `text[start:end]`: at or before `wanted`, or as soon after it as possible.

    `start` is a boundary and `start < wanted <= end`. The result is after `start`; it tears a cluster only if that is
    longer than `LONGEST_CLUSTER` code points.
    """
    if wanted == end:
        return end
    for position in range(wanted, max(start, wanted - LONGEST_CLUSTER), -1):
        if may_cut(text, position, start):
            return position
    if wanted - start > LONGEST_CLUSTER:
        return wanted
    for position in range(wanted + 1, min(end, start + LONGEST_CLUSTER)):
        if may_cut(text, position, start):
            return position
    return min(end, start + LONGEST_CLUSTER)


def _is_control(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Cf":
        return character not in _EXTENDERS and character not in _PREPENDED
    return category in ("Cc", "Zl", "Zp")


def _extends(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or character in _EXTENDERS


def _is_hangul_start(character: str) -> bool:
    return character in _HANGUL_LEADS or "\uac00" <= character <= "\ud7a3"


def _flag_letters_before(text: str, position: int, known: int) -> int:
    first = position
    while first > known and text[first - 1] in _FLAG_LETTERS:
        first -= 1
    return position - first


def _ends_in_virama(text: str, position: int, known: int) -> bool:
    """Returns whether the marks just before `position` contain a virama, which joins two Indic consonants."""
    for index in range(position - 1, max(known, position - LONGEST_CLUSTER) - 1, -1):
        if not _extends(text[index]):
            return False
        if unicodedata.combining(text[index]) == _VIRAMA_CLASS:
            return True
    return False
