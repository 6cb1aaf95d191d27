"""What a query asks for, as concepts that a passage may hold.

Owns the reading of a query: its language, its stop words, and for each word the index terms that
would satisfy it. Everything a user types is data; there is no query syntax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from backends.text.analyser import Analyser, detect_language, is_unspaced, tokens
from backends.text.folding import normalise
from backends.text.languages import stop_bigrams, stop_words_of

MAX_QUERY_CHARS: Final = 20_000
"""What follows is ignored: a pasted log file must not cost seconds. Whoever asks cuts, and says so."""
MAX_CONCEPTS: Final = 1_000
"""Read from one query; the index then looks for the most telling of them."""
PARTS_SHARE: Final = 1.0
"""What the parts of an identifier count together, beside its whole."""


class Concept(NamedTuple):
    """One thing asked for. A passage has it when it holds any of the alternative terms."""

    alternatives: tuple[str, ...]
    share: float = 1.0
    """How much it counts. The parts of an identifier share what its whole stands for."""
    is_prefix: bool = False
    """Whether a term that begins with an alternative will do: a character of an unspaced script."""


class Query(NamedTuple):
    """`concepts` in the order of the question, without repetitions; empty: nothing to look for."""

    concepts: tuple[Concept, ...]
    language: str

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

    def analyse(self, text: str) -> Query:
        text = normalise(text[:MAX_QUERY_CHARS])
        language = detect_language(text)
        concepts = dict.fromkeys(self._concepts(content_words(text, language), language))
        asked = [c for c in concepts if c.alternatives[0] not in stop_bigrams()]
        return Query(tuple((asked or list(concepts))[:MAX_CONCEPTS]), language)

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


def content_words(text: str, language: str) -> list[str]:
    """The words of a normalised question without its stop words; all of them where nothing is left."""
    words = tokens(text)
    stop_words = stop_words_of(language) | stop_words_of("russian")
    return [word for word in words if not _is_stop_word(word, stop_words)] or words


def _is_stop_word(word: str, stop_words: frozenset[str]) -> bool:
    lowered = word.casefold()
    return lowered in stop_words or lowered.replace("'", "").replace("’", "") in stop_words
