"""Recognising passages that say only what was shown already.

Owns the rule: a text whose every run of three words stands in one shown text adds nothing, whatever its
markup, case, spacing and punctuation. One new word, a number above all, makes it another text: notes
that differ in a detail are often there because of the detail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

_RUN: Final = 3
_WORD: Final = re.compile(r"\w+")


class Repeats:
    """What was shown for one query."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        """The words of each text, with a space on either side."""

    def is_new(self, text: str) -> bool:
        """Whether the text says anything that no shown one says; it counts as shown from now on."""
        words = _WORD.findall(text.casefold()) or [text.strip()]
        said = f" {' '.join(words)} "
        if said in self._shown or any(_holds(shown, words) for shown in self._shown):
            return False
        self._shown.append(said)
        return True


def _holds(shown: str, words: Sequence[str]) -> bool:
    """Whether every run of three of the words is there; of fewer words none is looked for."""
    runs = zip(*(islice(words, at, None) for at in range(_RUN)), strict=False)
    return len(words) >= _RUN and all(f" {' '.join(run)} " in shown for run in runs)
