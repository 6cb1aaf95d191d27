"""What a query asks for, as weighted concepts that a passage may hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec

from backends.interface import MAX_QUERY_CHARS
from backends.text.analyser import (
    Analyser,
    detect_language,
    is_unspaced,
    normalise,
    stop_bigrams,
    stop_words_of,
    tokens,
)
from backends.text.dates import day_terms
from backends.text.times import Days, days_in

MAX_CONCEPTS: Final = 1_000
"""Read from one query; the index then looks for the most telling of them."""
PARTS_SHARE: Final = 1.0
"""What the parts of an identifier count together, beside its whole."""


class Concept(msgspec.Struct, frozen=True, gc=False):
    """One thing asked for. A passage has it when it holds any of the alternative terms."""

    alternatives: tuple[str, ...]
    share: float = 1.0
    """How much it counts. The parts of an identifier share what its whole stands for."""
    is_prefix: bool = False
    """Whether a term that begins with an alternative will do: a character of an unspaced script."""
    time: str = ""
    """The question's own words, where the alternatives are days: such a concept is as rare as they are together."""


class Query(msgspec.Struct, frozen=True, gc=False):
    """`concepts` in the order of the question, without repetitions; empty: nothing to look for."""

    concepts: tuple[Concept, ...]
    language: str
    times: tuple[Days, ...] = ()
    """The days that it speaks of."""

    def among(self, document_frequency: Mapping[str, int]) -> Query:
        """Without the days that no chunk speaks of. What is said of time is evidence for some notes, and none
        against the others.
        """
        if not self.times:
            return self
        concepts = []
        for concept in self.concepts:
            if concept.time:
                known = tuple(filter(document_frequency.get, concept.alternatives))
                concepts += [msgspec.structs.replace(concept, alternatives=known)] if known else []
            else:
                concepts.append(concept)
        return msgspec.structs.replace(self, concepts=tuple(concepts))

    def terms(self) -> tuple[str, ...]:
        """Every index term of the query, once."""
        return tuple(
            dict.fromkeys(term for concept in self.concepts for term in concept.alternatives)
        )


class QueryAnalyser:
    """Reads queries against an index that holds texts in some (Latin-script) languages."""

    def __init__(self, languages: Iterable[str] = ()) -> None:
        self.languages = tuple(languages)
        self._analysers: dict[str, Analyser] = {}

    def analyse(self, text: str, today: date | None = None) -> Query:
        """`today`: the day of whoever asks; None: words that say when are only words."""
        text = normalise(text[:MAX_QUERY_CHARS])
        language = detect_language(text)
        concepts = dict.fromkeys(self._concepts(content_words(text, language), language))
        asked = [c for c in concepts if c.alternatives[0] not in stop_bigrams()]
        found = (asked or list(concepts))[:MAX_CONCEPTS]
        times = days_in(text[:_WITH_TIMES], today) if today else ()
        return Query((*found, *_times(times, found)), language, times)

    def _concepts(self, words: Iterable[str], language: str) -> Iterator[Concept]:
        analysers = [self._analyser(name) for name in dict.fromkeys((language, *self.languages))]
        for word in words:
            readings = [analyser.concepts(word) for analyser in analysers]
            whole_and_parts = not is_unspaced(word) and len(readings[0]) > 1
            share = PARTS_SHARE / (len(readings[0]) - 1) if whole_and_parts else 1.0
            for number, alternatives in enumerate(zip(*readings, strict=True)):
                terms = tuple(dict.fromkeys(term for reading in alternatives for term in reading))
                is_prefix = is_unspaced(word) and len(terms[0]) == 1
                yield Concept(terms, 1.0 if number == 0 else share, is_prefix)

    def _analyser(self, language: str) -> Analyser:
        if language not in self._analysers:
            self._analysers[language] = Analyser(language)
        return self._analysers[language]


_WITH_TIMES: Final = 1_000
"""Characters. What is longer is pasted, and full of dates that nobody asks for."""


def _times(times: Sequence[Days], others: Iterable[Concept]) -> Iterator[Concept]:
    """A concept for each time, of all its readings, unless its words themselves find the notes of then."""
    known = {term for concept in others for term in concept.alternatives}
    readings: dict[str, list[str]] = {}
    for days in times:
        if not days.is_named:
            readings.setdefault(days.text, []).extend(day_terms(days.first, days.last))
    for text, terms in readings.items():
        if not known.issuperset(terms):
            yield Concept(tuple(terms), time=text)


def content_words(text: str, language: str) -> list[str]:
    """The words of a normalised question without its stop words; all of them where nothing is left."""
    words = tokens(text)
    stop_words = stop_words_of(language) | stop_words_of("russian")
    return [word for word in words if not _is_stop_word(word, stop_words)] or words


def _is_stop_word(word: str, stop_words: frozenset[str]) -> bool:
    lowered = word.casefold()
    return lowered in stop_words or lowered.replace("'", "").replace("’", "") in stop_words


_FEW_WORDS: Final = 24
"""Up to so many are looked for as substrings, which is faster than splitting a line into its terms."""


class Weights:
    """Information content of a query's concepts in one collection.

    A set of concepts is an integer, bit `n` for the concept of number `n`: sets are joined for every
    line of every candidate.

    `weight(c) = ln(1 + (N - n + 0.5) / (n + 0.5))`, N chunks of which n hold the concept: the idf
    of Robertson and Sparck Jones in the form that is never negative.
    """

    def __init__(
        self, concepts: Sequence[Concept], document_frequency: Mapping[str, int], documents: int
    ) -> None:
        self.concepts = tuple(concepts)
        self.by_concept = tuple(
            concept.share * _idf(_frequency(concept, document_frequency), documents)
            for concept in self.concepts
        )
        words = (
            weight
            for concept, weight in zip(self.concepts, self.by_concept, strict=True)
            if not concept.time
        )
        self.total = math.fsum(words) or 1.0
        """Nats, of the words: what is of another time than was said has lost nothing."""
        self._by_term: dict[str, int] = defaultdict(int)
        self._by_character: dict[str, int] = defaultdict(int)
        for number, concept in enumerate(self.concepts):
            known = self._by_character if concept.is_prefix else self._by_term
            for term in concept.alternatives:
                known[term] |= 1 << number
        self.coverage: Callable[[int], float] = _Coverages(self.by_concept, self.total).__getitem__
        """The share of the query's information content that a set of concepts holds: 0..1, and more for what is
        also of the time that was said.
        """
        self._labels: dict[str, int] = {}
        self._words = [(f" {term} ", found) for term, found in self._by_term.items()]
        self._words += [(f" {start}", found) for start, found in self._by_character.items()]

    def concepts_by_line(self, terms: str) -> list[int]:
        """The set of the concepts that each line of a chunk's terms holds."""
        if len(self._words) > _FEW_WORDS:
            return [self.concepts_in(line.split()) for line in terms.split("\n")]
        text = f" {terms} ".replace("\n", " \n ")
        lines = text.split("\n")
        found = [0] * len(lines)
        for word, concepts in self._words:
            if word in text:
                for number, line in enumerate(lines):
                    if word in line:
                        found[number] |= concepts
        return found

    def concepts_in(self, terms: Sequence[str]) -> int:
        """The set of the concepts that the terms stand for."""
        by_term, by_character = self._by_term, self._by_character
        found = 0
        if not by_term.keys().isdisjoint(terms):
            for term in by_term.keys() & terms:
                found |= by_term[term]
        if by_character:
            for character in by_character.keys() & {term[0] for term in terms}:
                found |= by_character[character]
        return found

    def concepts_of_label(self, label: str, terms: str, line: int) -> int:
        """The set of the concepts that the beginning of a line holds; `terms`, of its chunk.

        Many lines begin with the same label, whose terms are looked for once.
        """
        found = self._labels.get(label)
        if found is None:
            words = len(label.split()) if label.isascii() else len(label)
            found = self.concepts_in(terms.split("\n")[line].split(" ", words)[:words])
            self._labels[label] = found
        return found

    def members(self, concepts: int) -> tuple[Concept, ...]:
        """A set of concepts, in the query's order."""
        return tuple(self.concepts[number] for number in _numbers(concepts))


class _Coverages(dict[int, float]):
    """By set of concepts; filled as they are asked for, which is some thousand times a query."""

    def __init__(self, by_concept: Sequence[float], total: float) -> None:
        super().__init__()
        self._by_concept = by_concept
        self._total = total

    def __missing__(self, concepts: int) -> float:
        found = math.fsum(self._by_concept[number] for number in _numbers(concepts))
        share = self[concepts] = found / self._total
        return share


def _numbers(concepts: int) -> Iterator[int]:
    return (number for number in range(concepts.bit_length()) if concepts >> number & 1)


def _frequency(concept: Concept, document_frequency: Mapping[str, int]) -> int:
    counts = [document_frequency.get(term, 0) for term in concept.alternatives]
    return sum(counts) if concept.time else max(counts)


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))
