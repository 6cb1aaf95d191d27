"""Words of a question that no text holds, and the terms of the index that they may be slips of the pen for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from string import ascii_lowercase
from typing import Final

from backends.ranking.query import Concept, Query

_LEAST_LETTERS: Final = 5
"""Of a word: shorter ones have too many neighbours."""
_SHORT: Final = 7
"""The most letters of a word with a slip in the second of them that is looked for letter by letter: an index knows the
ends of long words alone.
"""
_MOST_WORDS: Final = 4
_MOST_TERMS: Final = 4
"""For each word."""
SLIP_SHARE: Final = 0.3
"""What such a term counts of the word: on LoCoMo, REALTALK, RealMem and BEAM, with a slip in each question, .25 and .3
found most, and without slips nothing was lost by them.
"""


class Misspelt:
    """Terms that differ by one letter, or by two that changed places, from a word that no text holds. The first letter
    is taken to be right.
    """

    def __init__(self, query: Query, counts: Mapping[str, int]) -> None:
        """`counts`: in how many chunks each term of the query is."""
        unknown = (
            concept
            for concept in query.concepts
            if not (concept.is_prefix or concept.time or concept.instead_of)
            and not any(map(counts.get, concept.alternatives))
        )
        words = (
            (concept.alternatives[0], term)
            for concept in unknown
            for term in concept.alternatives
            if len(term) >= _LEAST_LETTERS and term.isalpha()
        )
        self._words = list(islice(words, _MOST_WORDS))
        self.parts = [part for _, word in self._words for part in _halves(word)]
        """What the terms begin with, or (True) end with."""

    def found(self, longer: Iterable[Sequence[str]]) -> tuple[Concept, ...]:
        """Weaker evidence of the words, among it terms that no text may hold.

        `longer`: the terms that begin or end with each of `parts`.
        """
        unread = iter(longer)
        meant: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for name, word in self._words:
            terms = {term for _ in _halves(word) for term in next(unread) if is_slip(word, term)}
            meant[name].update(dict.fromkeys(sorted(terms)[:_MOST_TERMS]))
            meant[name].update(dict.fromkeys(_by_second_letter(word)))
        return tuple(
            Concept(tuple(terms), SLIP_SHARE, instead_of=name)
            for name, terms in meant.items()
            if terms
        )


def _halves(word: str) -> tuple[tuple[str, bool], ...]:
    """One of them is without the slip, and without both letters of two that changed places."""
    half = (len(word) - 1) // 2
    return (word[:half], False), (word[-half:], True)


def _by_second_letter(word: str) -> list[str]:
    """A short word as it may have been meant, with a slip there."""
    if len(word) > _SHORT or not word.isascii():
        return []
    first, second, rest = word[0], word[1], word[2:]
    others = ascii_lowercase.replace(second, "")
    longer = (first + letter + second + rest for letter in ascii_lowercase)
    return [
        first + rest,
        first + rest[0] + second + rest[1:],
        *(first + one + rest for one in others),
        *longer,
    ]


def is_slip(word: str, other: str) -> bool:
    """Whether one letter was left out, added or changed, or two changed places; not the first one."""
    pairs = enumerate(zip(word, other, strict=False))
    at = next((number for number, (one, two) in pairs if one != two), min(len(word), len(other)))
    if not at or word == other:
        return False
    rest, others = word[at:], other[at:]
    is_swapped = rest[:2] == others[:2][::-1] and rest[2:] == others[2:]
    return is_swapped or rest[1:] == others[1:] or rest == others[1:] or rest[1:] == others
