"""Bringing spellings together: compatibility forms, case, diacritics.

Owns the folding of one text or word. Never drops a mark that makes another letter: the short i of
Cyrillic, kana voicing and Indic vowel signs stay.
"""

from __future__ import annotations

import re
import unicodedata

_MARKS = re.compile(
    "(?<![\u0418\u0438])[\u0300-\u036f]"  # Latin, Greek, Cyrillic; but not the breve of U+0439
    "|[\u0300-\u0305\u0307-\u036f]"
    "|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]"  # Hebrew points
    "|[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"  # Arabic vowel signs and tatweel
)
_IGNORED = re.compile("[\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]")
_LETTERS = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th",
        "ı": "i", "ё": "е", "ي": "ی", "ى": "ی", "ك": "ک", "أ": "ا", "إ": "ا", "آ": "ا", "ة": "ه",
    }
)  # fmt: skip


def normalise(text: str) -> str:
    """NFKC without invisible characters; case is kept, because camelCase is read from it."""
    if text.isascii():
        return text
    return _IGNORED.sub("", unicodedata.normalize("NFKC", text))


def fold(word: str) -> str:
    """Case and diacritics removed from normalised text: `Ação` and `ACAO` both give `acao`."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFD", word.casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", decomposed)).translate(_LETTERS)
