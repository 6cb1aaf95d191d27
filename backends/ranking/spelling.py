"""Words of a question that occur in no text, and the index terms that they may be misspellings or beginnings of; words
that no stemmer knows, and the terms that may be other inflections of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from string import ascii_lowercase
from typing import Final

from backends.ranking.query import COMPOUND_SHARE, RELATED_SHARE, Concept, Query
from backends.text.analyser import DEFAULT_LATIN, is_hebrew, is_unspaced, script_language

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


_NOT_LETTERS: Final = frozenset("0123456789_")
_LEAST_BEGINNING: Final = 3
"""The fewest letters that two inflections of a word have in common."""
_MOST_INFLECTED: Final = 8
"""The most words of a question, and the most inflections of each."""
_LAST_LATIN: Final = "\u036f"
_LEAST_LATIN: Final = 4
"""The fewest letters of a word in Latin script with other inflections; many shorter ones are alike."""


class Misspelt:
    """Terms that differ by one letter, or by two transposed letters, from a word that occurs in no text. The first
    letter is assumed to be right. Of words without a stemmer, also terms with the same beginning.
    """

    def __init__(self, query: Query, counts: Mapping[str, int]) -> None:
        """`counts`: the number of chunks that contain each term of the query."""
        asked = [
            (concept.alternatives, any(map(counts.get, concept.alternatives)))
            for concept in query.concepts
            if not (concept.is_prefix or concept.time or concept.instead_of)
        ]
        words = (
            (alternatives[0], term)
            for alternatives, is_known in asked
            if not is_known
            for term in alternatives
            if len(term) >= _LEAST_LETTERS and _NOT_LETTERS.isdisjoint(term)
        )
        self._words = list(islice(words, _MOST_WORDS))
        self._hashes = [
            word for (word, *_), is_known in asked if not is_known and _HASH.fullmatch(word)
        ][:_MOST_WORDS]
        self._inflected = [
            word
            for (word, *_), is_known in asked
            if _may_be_inflected(word, is_known=is_known, stemmed=query.stemmed)
        ][:_MOST_INFLECTED]
        self.parts = [part for _, word in self._words for part in _halves(word)]
        self.parts += [(word, False) for word in self._hashes]
        self.parts += [(_beginning(word), False) for word in self._inflected]
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
        found = [(name, tuple(terms), SLIP_SHARE) for name, terms in meant.items()]
        found += [
            (word, tuple(next(unread)[:_MOST_TERMS]), COMPOUND_SHARE) for word in self._hashes
        ]
        found += [
            (word, _inflections(word, next(unread)), RELATED_SHARE) for word in self._inflected
        ]
        return tuple(
            Concept(terms, share, instead_of=name) for name, terms, share in found if terms
        )


def _inflections(word: str, longer: Iterable[str]) -> tuple[str, ...]:
    begun = (_beginning(word), *longer)
    words = (term for term in begun if term.isalpha() or word[0] > _LAST_LATIN)
    found = sorted((term for term in words if is_inflection(word, term)), key=len)
    return tuple(found[:_MOST_INFLECTED])


def _may_be_inflected(word: str, *, is_known: bool, stemmed: Collection[str]) -> bool:
    """Returns whether a word may be in texts in forms that no stemmer and no list knows: one without a stemmer, as in
    Bengali, or one that is not found by it, as in Bulgarian, which has the script of Russian.
    """
    if is_unspaced(word) or is_hebrew(word) or len(word) < _LEAST_BEGINNING:
        return False
    is_latin = word[0] <= _LAST_LATIN
    if is_latin and (len(word) < _LEAST_LATIN or not _NOT_LETTERS.isdisjoint(word)):
        return False
    script = DEFAULT_LATIN if is_latin else script_language(word)
    return script is None or not (is_known or script in stemmed)


def _beginning(word: str) -> str:
    return word[: max(_LEAST_BEGINNING, (len(word) + 1) // 2)]


def is_inflection(word: str, other: str) -> bool:
    """Returns whether two words differ in their ends alone: by no more than they have in common, and one of them by no
    more than half of that.
    """
    common = _common(word, other)
    shorter, longer = sorted((len(word), len(other)))
    return word != other and longer <= 2 * common and shorter - common <= common // 2


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
    at = _common(word, other)
    if not at or word == other:
        return False
    rest, others = word[at:], other[at:]
    is_swapped = rest[:2] == others[:2][::-1] and rest[2:] == others[2:]
    return is_swapped or rest[1:] == others[1:] or rest == others[1:] or rest[1:] == others


def _common(word: str, other: str) -> int:
    """Returns how many letters two words have in common at their beginning."""
    pairs = enumerate(zip(word, other, strict=False))
    return next((number for number, (one, two) in pairs if one != two), min(len(word), len(other)))
