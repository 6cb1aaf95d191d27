"""Recognising passages that say only what was shown already.

Owns the rule: a text whose every run of three words stands in one shown text adds nothing, whatever its
markup, case, spacing and punctuation. One new word, a number above all, makes it another text: notes
that differ in a detail are often there because of the detail.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

_RUN: Final = 3
_WORD: Final = re.compile(r"\w+")


class Repeats:
    """What was shown for one query."""

    def __init__(self) -> None:
        self._shown: list[frozenset[tuple[str, ...]]] = []

    def is_new(self, text: str) -> bool:
        """Whether the text says anything that no shown one says; it counts as shown from now on."""
        runs = _runs(text)
        if any(runs <= shown for shown in self._shown):
            return False
        self._shown.append(runs)
        return True


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    """Every run of three words; of fewer words, or none, the whole."""
    words = _WORD.findall(text.casefold()) or [text.strip()]
    return frozenset(
        zip(*(islice(words, at, None) for at in range(min(_RUN, len(words)))), strict=False)
    )
