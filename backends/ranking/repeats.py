"""The lines shown for one query, so that none is shown twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

_RUN: Final = 3
_WORD: Final = re.compile(r"\w+")
_IN_WORDS: Final = bytes(
    code if code < 128 and (chr(code).isalnum() or code == ord("_")) else 32 for code in range(256)
)


def _words(text: str) -> list[str]:
    if text.isascii():  # the same words in a fraction of the time
        return text.lower().encode().translate(_IN_WORDS).decode().split()
    return _WORD.findall(text.casefold())


class Repeats:
    """The lines shown for one query."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        """The words of each text, with a space on either side."""
        self._lines: set[str] = set()
        """The words of each line."""

    def show(self, lines: Sequence[str]) -> None:
        """Records the lines of a passage that is shown."""
        words = [_words(line) for line in lines]
        self._texts.append(f" {' '.join(word for line in words for word in line)} ")
        self._lines.update(map(_line_key, lines, words))

    def has_shown(self, lines: Sequence[str]) -> bool:
        """Returns whether everything these lines say was shown: each of them, or every run of three of their words in
        one passage.
        """
        words = [_words(line) for line in lines]
        if all(_line_key(*one) in self._lines for one in zip(lines, words, strict=True)):
            return True
        together = [word for line in words for word in line]
        return any(_holds(shown, together) for shown in self._texts)


def in_words(line: str) -> str:
    """Returns what a line says: two that say the same in the same words are equal."""
    return _line_key(line, _words(line))


def _line_key(line: str, words: Sequence[str]) -> str:
    return " ".join(words) or line.strip()


def _holds(shown: str, words: Sequence[str]) -> bool:
    """Returns whether every run of three of the words is there; False for fewer than three words."""
    runs = zip(*(islice(words, at, None) for at in range(_RUN)), strict=False)
    return len(words) >= _RUN and all(f" {' '.join(run)} " in shown for run in runs)
