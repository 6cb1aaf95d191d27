"""Words of a question that occur in no text, and the index terms that they may be misspellings or beginnings of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from string import ascii_lowercase
from typing import Final

from backends.ranking.query import COMPOUND_SHARE, Concept, Query

_HASH: Final = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,40}")
"""A hash that may be shortened: `4be81d7` for that of a commit."""
_LEAST_LETTERS: Final = 5
"""The fewest letters of a word: shorter ones have too many neighbours."""
_SHORT: Final = 7
"""The most letters of a word whose second letter is replaced by each other letter: the index finds only longer words by
their ends.
"""
_MOST_WORDS: Final = 4
_MOST_TERMS: Final = 4
"""The most for each word."""
SLIP_SHARE: Final = 0.3
"""The weight of such a term relative to the word: on LoCoMo, REALTALK, RealMem and BEAM, with a misspelling in each
question, .25 and .3 found most, and without misspellings nothing was lost by them.
"""


class Misspelt:
    """Terms that differ by one letter, or by two transposed letters, from a word that occurs in no text. The first
    letter is assumed to be right.
    """

    def __init__(self, query: Query, counts: Mapping[str, int]) -> None:
        """`counts`: the number of chunks that contain each term of the query."""
        unknown = [
            concept
            for concept in query.concepts
            if not (concept.is_prefix or concept.time or concept.instead_of)
            and not any(map(counts.get, concept.alternatives))
        ]
        words = (
            (concept.alternatives[0], term)
            for concept in unknown
            for term in concept.alternatives
            if len(term) >= _LEAST_LETTERS and term.isalpha()
        )
        self._words = list(islice(words, _MOST_WORDS))
        self._hashes = [
            (concept.alternatives[0], term)
            for concept in unknown
            for term in concept.alternatives[:1]
            if _HASH.fullmatch(term)
        ][:_MOST_WORDS]
        self.parts = [part for _, word in self._words for part in _halves(word)]
        self.parts += [(term, False) for _, term in self._hashes]
        """The strings that the terms begin with or (True) end with."""

    def found(self, longer: Iterable[Sequence[str]]) -> tuple[Concept, ...]:
        """Returns weaker evidence for the words, including terms that may occur in no text.

        `longer`: the terms that begin or end with each of `parts`.
        """
        unread = iter(longer)
        meant: defaultdict[str, dict[str, None]] = defaultdict(dict)
        is_replaced = False
        for name, word in self._words:
            terms = {term for _ in _halves(word) for term in next(unread) if is_slip(word, term)}
            meant[name].update(dict.fromkeys(sorted(terms)[:_MOST_TERMS]))
            # In one word only: some fifty lookups take half a millisecond.
            if not (terms or is_replaced) and (others := _by_second_letter(word)):
                meant[name].update(dict.fromkeys(others))
                is_replaced = True
        slips = [(name, terms, SLIP_SHARE) for name, terms in meant.items()]
        whole = [(name, next(unread)[:_MOST_TERMS], COMPOUND_SHARE) for name, _ in self._hashes]
        return tuple(
            Concept(tuple(terms), share, instead_of=name)
            for name, terms, share in (*slips, *whole)
            if terms
        )


def _halves(word: str) -> tuple[tuple[str, bool], ...]:
    """Returns the halves of a word. One of them has none of the wrong or transposed letters."""
    half = (len(word) - 1) // 2
    return (word[:half], False), (word[-half:], True)


def _by_second_letter(word: str) -> list[str]:
    """Returns what a short word may have been meant to be, if its second letter is wrong."""
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
    """Returns whether one letter was left out, added or changed, or two were transposed; not the first one."""
    pairs = enumerate(zip(word, other, strict=False))
    at = next((number for number, (one, two) in pairs if one != two), min(len(word), len(other)))
    if not at or word == other:
        return False
    rest, others = word[at:], other[at:]
    is_swapped = rest[:2] == others[:2][::-1] and rest[2:] == others[2:]
    return is_swapped or rest[1:] == others[1:] or rest == others[1:] or rest[1:] == others
