"""Which characters form words, and which scripts are written without spaces between them.

Owns the character classes, as source text for regular expressions. Ranges are those of the Unicode
blocks; rare extensions beyond the BMP are covered by plane.
"""

from __future__ import annotations

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1100-\u11ff"  # Hangul jamo
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b"  # ideographic marks and numerals
    "\u3041-\u3096\u3099\u309a\u309d-\u309f"  # hiragana
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # katakana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U0001b000-\U0001b16f"  # kana supplements
    "\U00020000-\U0003ffff"  # Han extensions
)
"""Scripts without word spaces, or (Hangul) with particles glued to the word: indexed as bigrams."""

MARKS = (
    "\u0300-\u036f\u0483-\u0487"  # Latin, Greek, Cyrillic accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points, without the maqaf
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # Arabic
    "\u0711-\u07f3"  # Syriac, Thaana, N'Ko
    "\u0900-\u0963\u0966-\u0dff"  # the scripts of India
    "\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e-\u0f84\u0f86-\u0fbc"  # Tibetan
)
"""Signs that belong to the letter before them and that `\\w` does not know."""

EMOJI = "\u2190-\u24ff\u25a0-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
"""Arrows, symbols and pictographs, each a term of its own; not what frames and bars are drawn with."""
