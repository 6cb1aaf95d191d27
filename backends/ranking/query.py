"""Parsing of queries into weighted concepts that a passage may contain."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, reduce
from itertools import chain, dropwhile, islice, pairwise
from operator import or_
from typing import Final

import msgspec

from backends.interface import MAX_QUERY_CHARS
from backends.text.analyser import (
    COMPOUNDING,
    KANA,
    Analyser,
    detect_language,
    every_stop_word,
    fold,
    forms_of_times,
    forms_of_weeks,
    hebrew_forms,
    in_simplified,
    is_hebrew,
    is_unspaced,
    may_hold_compounds,
    normalise,
    other_forms,
    stemmed_scripts,
    stop_bigrams,
    stop_words_of,
    stop_words_of_other_scripts,
    tokens,
    with_joined_numbers,
)
from backends.text.times import (
    LAST_WORDS,
    Days,
    asks_when,
    day_spellings,
    day_terms,
    days_in,
    is_month,
    month_names,
    without_asking,
)

MAX_CONCEPTS: Final = 1_000
"""The most concepts read from one query; the index then looks up the most informative of them."""
PARTS_SHARE: Final = 1.0
"""The joint weight of the parts of an identifier, relative to the whole."""


class Concept(msgspec.Struct, frozen=True, gc=False):
    """One thing asked for. A passage matches it if it contains any of the alternative terms."""

    alternatives: tuple[str, ...]
    share: float = 1.0
    """The factor of its weight. The parts of an identifier share the weight of the whole."""
    is_prefix: bool = False
    """True if any term that begins with an alternative matches: for a character of an unspaced script."""
    time: str = ""
    """The question's own words, if the alternatives are days: the frequency of such a concept is the sum of theirs."""
    instead_of: str = ""
    """The first alternative of the concept for which these terms are weaker evidence. They count only if that concept
    itself is not found, by their share of its weight.
    """


class Query(msgspec.Struct, frozen=True, gc=False):
    """A parsed query. `concepts` are in the order of the question, without repetitions; there may be none."""

    concepts: tuple[Concept, ...]
    language: str
    times: tuple[Days, ...] = ()
    """The days that it mentions."""
    words: tuple[tuple[Concept, str], ...] = ()
    """Concepts that may be parts of compounds, or compounds, with their spelling; none in languages without them."""
    related: tuple[Concept, ...] = ()
    """Weaker evidence for words, which joins the concepts if the index contains it."""
    stop_terms: frozenset[str] = frozenset()
    """The first alternatives of stop words of the languages of notes: asked for only if a note has them."""
    stemmed: frozenset[str] = frozenset()
    """The scripts of whose words a stemmer knows the other forms, see `stemmed_scripts`."""

    def among(self, document_frequency: Mapping[str, int]) -> Query:
        """Returns the query without the days and the stop words that occur in no chunk, and with the related words that
        occur in one. A time that is mentioned is evidence for some notes, and none against the others.
        """
        concepts = []
        left_out = {
            concept.alternatives[0]
            for concept in self.concepts
            if concept.alternatives[0] in self.stop_terms
            and not any(map(document_frequency.get, concept.alternatives))
        }
        for concept in (*self.concepts, *self.related):
            if not left_out.isdisjoint((concept.alternatives[0], concept.instead_of)):
                continue
            if concept.time or concept in self.related:
                known = tuple(filter(document_frequency.get, concept.alternatives))
                concepts += [msgspec.structs.replace(concept, alternatives=known)] if known else []
            else:
                concepts.append(concept)
        return msgspec.structs.replace(self, concepts=tuple(concepts), related=())

    def terms(self) -> tuple[str, ...]:
        """Returns every index term of the query once."""
        return tuple(
            dict.fromkeys(term for concept in self.concepts for term in concept.alternatives)
        )


class QueryAnalyser:
    """Parses queries for an index of texts in some (Latin-script) languages."""

    def __init__(self, languages: Iterable[str] = ()) -> None:
        self.languages = tuple(languages)
        self._analysers: dict[str, Analyser] = {}

    def analyse(self, text: str, today: date | None = None) -> Query:
        """Parses a question. `today`: the date where it is asked; if None, words for times are plain words."""
        text = normalise(text[:MAX_QUERY_CHARS])
        language = detect_language(text, self.languages)
        content = content_words(with_joined_numbers(text), language)
        times = days_in(text[:_WITH_TIMES], today) if today else ()
        forms = {
            **dict(forms_of_times(text, language)),
            **dict(forms_of_weeks(text)),
            **dict(self._forms_of_months(times, language)),
        }
        concepts = dict.fromkeys(self._concepts(content, language, forms))
        asked = [c for c in concepts if c.alternatives[0] not in stop_bigrams()]
        found = (asked or list(concepts))[:MAX_CONCEPTS]
        query = (*found, *_times(times, found))
        words: tuple[tuple[Concept, str], ...] = ()
        if not COMPOUNDING.isdisjoint(self.languages) and may_hold_compounds(text):
            words = tuple(self._plain_words(content, language))
        names = {concept.alternatives[0] for concept in found}
        derived: Iterable[Concept] = ()
        if language == "english":
            derived = (*self._related(content), *self._joined(text, content))
        others = chain(_alone(content), _hebrew_numbers(content))
        days = self._days_in_digits(times, language)
        weaker = dict.fromkeys((*derived, *days, *islice(others, _MOST_WORDS)))
        related = tuple(one for one in weaker if one.instead_of in names)
        stemmed = stemmed_scripts(text, language, self.languages)
        # A short question in another language may not tell it.
        stop_words = frozenset[str]().union(*map(stop_words_of, self.languages))
        said = (
            word
            for at, word in enumerate(content)
            if word.casefold() in stop_words and (word.islower() or (at == 0 and word.istitle()))
        )
        stop_terms = frozenset(one.alternatives[0] for one in self._concepts(said, language))
        return Query(query, language, times, words, related, stop_terms, stemmed)

    def compounds(self, query: Query, counts: Mapping[str, int], documents: int) -> Compounds:
        """Returns the compounds of its words, and the parts of its own compounds, as far as they are known. `counts`:
        the document frequencies of its terms, in `documents` chunks.
        """
        names = [one for one in self.languages if one in COMPOUNDING or one == query.language]
        return Compounds(query, [self.analyser(name) for name in names], counts, documents)

    def _plain_words(self, words: Iterable[str], language: str) -> Iterator[tuple[Concept, str]]:
        """Yields the concept and spelling of the first few words that consist of letters and are one concept."""
        seen = set()
        plain = (
            word for word in words if _MIN_PART <= len(word) <= _MAX_COMPOUND and word.isalpha()
        )
        for word in islice((word for word in plain if not is_unspaced(word)), _MOST_WORDS):
            first, *others = self._concepts([word], language)
            spelling = fold(word)
            if not others and spelling not in seen:
                seen.add(spelling)
                yield first, spelling

    def _related(self, words: Iterable[str]) -> Iterator[Concept]:
        """Yields related English words that the stemmer does not conflate: `allergies`, `allergic`; `paint`,
        `painter`.
        """
        english = self.analyser("english")
        for word in islice(dict.fromkeys(words), _MOST_WORDS):
            if word.isascii() and word.isalpha() and len(word) >= _MIN_PART:
                (stem, *_), *_ = english.concepts(word)
                forms = {form for one in _bases(word.lower()) for form in english.concepts(one)[0]}
                if stem.endswith("i"):
                    forms.add(stem[:-1])
                elif not forms and len(stem) >= _MIN_PART:
                    agent = "or" if stem.endswith("t") else "er"
                    forms.add(stem.removesuffix("e") + agent)
                found = tuple(sorted(one for one in forms if len(one) >= _MIN_PART and one != stem))
                if found:
                    yield Concept(found, RELATED_SHARE, instead_of=stem)

    def _joined(self, text: str, content: Sequence[str]) -> Iterator[Concept]:
        """Yields English words that are also written as the two of the question: `timezone` for `time zone`, `login`
        for `log in`.
        """
        english = self.analyser("english")
        plain = (
            pair
            for pair in pairwise(tokens(text))
            if all(word.isascii() and word.isalpha() for word in pair)
            and len(pair[0]) >= _MIN_FIRST
        )
        for one, other in islice(plain, _MOST_WORDS):
            (joined, *_), *_ = english.concepts((one + other).lower())
            for word in (one, other):
                if word in content:
                    (name, *_), *_ = english.concepts(word.lower())
                    yield Concept((joined,), COMPOUND_SHARE, instead_of=name)

    def _forms_of_months(
        self, times: Iterable[Days], language: str
    ) -> Iterator[tuple[str, list[str]]]:
        """Yields each word for a month, where it means one, with the terms of other names of it: `dec` of `Dec 14`."""
        analysers = [self.analyser(name) for name in dict.fromkeys((language, *self.languages))]
        for word in {word for days in times for word in tokens(days.text)}:
            terms = [one.concepts(name)[0][0] for name in month_names(word) for one in analysers]
            if terms:
                yield word, terms

    def _days_in_digits(self, times: Iterable[Days], language: str) -> Iterator[Concept]:
        """Yields single days as notes write them in digits, instead of the month or the digits of the question."""
        found: dict[tuple[str, float], dict[str, None]] = {}
        for days in islice((one for one in times if one.first == one.last), _MOST_WORDS):
            words = tokens(days.text)
            months = filter(is_month, words)
            digits = (one for one in words if one[0].isdigit() and not one.isalnum())
            if written := next(chain(months, digits), ""):
                name = self.analyser(language).concepts(written)[0][0]
                for share, month_first in ((COMPOUND_SHARE, False), (AMERICAN_SHARE, True)):
                    terms = day_spellings(days.first, month_first=month_first)
                    found.setdefault((name, share), {}).update(dict.fromkeys(terms))
        for (name, share), spellings in found.items():
            yield Concept(tuple(spellings), share, instead_of=name)

    def _concepts(
        self, words: Iterable[str], language: str, forms: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[Concept]:
        """Yields the concepts of words. `forms`: further alternatives of some of them."""
        analysers = [self.analyser(name) for name in dict.fromkeys((language, *self.languages))]
        for word in words:
            readings = [analyser.concepts(word) for analyser in analysers]
            whole_and_parts = not is_unspaced(word) and len(readings[0]) > 1
            share = PARTS_SHARE / (len(readings[0]) - 1) if whole_and_parts else 1.0
            for number, alternatives in enumerate(zip(*readings, strict=True)):
                found = (term for reading in alternatives for term in reading)
                others = other_forms(word) if number == 0 else ()
                more = forms.get(word.lower(), ()) if forms and number == 0 else ()
                terms = tuple(dict.fromkeys((*found, *others, *more)))
                is_prefix = is_unspaced(word) and len(terms[0]) == 1
                yield Concept(terms, 1.0 if number == 0 else share, is_prefix)

    def analyser(self, language: str) -> Analyser:
        """Returns the analyser for texts in this language."""
        if language not in self._analysers:
            self._analysers[language] = Analyser(language)
        return self._analysers[language]


_WITH_TIMES: Final = 1_000
"""The most characters searched for times: longer texts are pasted, and full of dates that nobody asks about."""


def _times(times: Sequence[Days], others: Iterable[Concept]) -> Iterator[Concept]:
    """Yields one concept per time, with the days of all its readings, unless the other concepts contain those days."""
    known = {term for concept in others for term in concept.alternatives}
    readings: dict[str, list[str]] = {}
    for days in times:
        if not days.is_named:
            readings.setdefault(days.text, []).extend(day_terms(days.first, days.last))
    for text, terms in readings.items():
        if not known.issuperset(terms):
            yield Concept(tuple(terms), time=text)


def content_words(text: str, language: str) -> list[str]:
    """Returns the words of a normalised question without its stop words, or all of them if none is left."""
    stop_words = stop_words_of(language)
    if asks_when(text):
        stop_words |= LAST_WORDS
    words = tokens(without_asking(text))
    return [word for word in words if not _is_stop_word(word, stop_words)] or tokens(text)


def _is_stop_word(word: str, stop_words: frozenset[str]) -> bool:
    lowered = word.casefold()
    if lowered in stop_words or fold(word) in stop_words_of_other_scripts():
        return True
    return lowered.replace("'", "").replace("’", "") in stop_words


RELATED_SHARE: Final = 0.5
"""The weight of a word derived from the one asked for, or that it is derived from, relative to that one."""
AMERICAN_SHARE: Final = 0.35
"""The weight of a day whose month comes first: elsewhere these digits are another day."""
_DERIVED: Final = re.compile("(.{3,}?)(?:ists?|ical|ics?|ous|([eo]rs?))")


def _bases(word: str) -> Iterator[str]:
    """Yields words that an English word may be derived from: `allergy` for `allergic`, `bake` for `baker`."""
    if match := _DERIVED.fullmatch(word):
        base, is_agent = match.groups()
        yield from (base, base + "e") if is_agent else (base, base + "y")


IDEOGRAPH: Final = "[\u3005\u3400-\u9fff]"
CHINESE_AROUND: Final = (
    "[的了在是和与與把被给給吗嗎呢吧我你他她它们們这這那哪"
    "有没沒不也都还還就做怎什多几幾谁誰只隻个個]"
)
"""Characters around Chinese words in questions."""
_SYLLABLE: Final = "^[\uac00-\ud7a3](?=[은는이가을를에의도로와과만]$)"
"""A Korean word of one syllable, before a particle."""


def _alone(words: Iterable[str]) -> Iterator[Concept]:
    """Yields words of one character, which notes may combine with others: `犬` of `犬の`, `洗` of `洗う`,
    `狗` of `狗的`.
    """
    for run in map(fold, (word for word in words if len(word) > 1 and is_unspaced(word))):
        around = KANA if re.search(KANA, run) else CHINESE_AROUND
        letter = f"(?!{around}){IDEOGRAPH}"
        before = f"(?<!{IDEOGRAPH})|(?<={around})"
        for match in re.finditer(f"(?:{before}){letter}(?={around}|$)|{_SYLLABLE}", run):
            at = min(match.start(), len(run) - 2)
            forms = tuple(dict.fromkeys((match[0], in_simplified(match[0]))))
            yield Concept(forms, RELATED_SHARE, is_prefix=True, instead_of=run[at : at + 2])


_HEBREW_ENDINGS: Final = re.compile("(.{3,}?)(?:א?ות|ים|[התי])?")
"""Endings of the feminine, of plurals and of the construct state."""
_FINAL: Final = {"כ": "ך", "מ": "ם", "נ": "ן", "פ": "ף", "צ": "ץ"}


def _hebrew_numbers(words: Iterable[str]) -> Iterator[Concept]:
    """Yields other inflections of Hebrew words: `צמיגים` for `צמיג`, `מלון` for `במלונות`, `מכונת` for `מכונות`."""
    for word in map(fold, words):
        if not is_hebrew(word):
            continue
        name, *_ = known = tuple(hebrew_forms(word))
        forms = dict.fromkeys(
            form
            for one in known
            if (match := _HEBREW_ENDINGS.fullmatch(one))
            for form in _with_hebrew_endings(match[1])
        )
        if found := tuple(form for form in forms if form not in known):
            yield Concept(found, RELATED_SHARE, instead_of=name)


def _with_hebrew_endings(stem: str) -> Iterator[str]:
    """Yields the forms of a stem, whose last letter may be in its final form."""
    inner = stem[:-1] + next((one for one, last in _FINAL.items() if last == stem[-1]), stem[-1])
    yield inner[:-1] + _FINAL.get(inner[-1], inner[-1])
    for ending in ("ה", "ת", "ים", "ות"):
        yield inner + ending


_MIN_PART: Final = 4
"""The fewest characters of a word that is looked for in compounds, and of the last part of a compound."""
_MIN_FIRST: Final = 3
"""The fewest characters of the first part."""
_MIN_DISTINCTIVE: Final = 6
"""The fewest characters of an unambiguous word: the rest of a compound that contains it need not be known."""
_MAX_COMPOUND: Final = 40
"""The most characters of a compound; nobody reads longer ones, but keys and encoded files are full of them."""
_MOST_WORDS: Final = 12
"""The most words of a question that are looked for in compounds: a pasted text contains its own compounds."""
_RARE: Final = 100
_RARE_SHARE: Final = 200
"""A word that is in more than one of so many chunks, and in more than `_RARE`, is not looked for in compounds."""
_MOST_COMPOUNDS: Final = 12
"""The most compounds that one word is looked for in, the shortest first ..."""
_MOST_DOUBTFUL: Final = 6
"""... and the most of them whose other part has to be looked up."""
COMPOUND_SHARE: Final = 0.7
"""The weight of a compound relative to the word that it contains, and of all its parts relative to the compound."""
WEAKER_LIMIT: Final = 0.3
"""The most that weaker evidence adds to the BM25 score of a chunk, relative to the words themselves."""
_LINKING: Final = ("es", "en", "er", "s", "n", "e")
"""Linking elements between two parts, the longest first."""


class Compounds:
    """Finds index terms that are compounds of words of a question, and words that its own compounds consist of.

    Both parts of a compound are words of the index or of the question (Koehn and Knight, 2003: of several ways to split
    one, that whose parts have the highest geometric mean of their frequencies). In a small index few words stand alone,
    so the rest of a compound with a long part is not checked: it only has to look like a word.

    The index is asked as little as possible: not about words that are frequent in it.
    """

    def __init__(
        self, query: Query, analysers: Sequence[Analyser], counts: Mapping[str, int], documents: int
    ) -> None:
        self._query = query
        self._analysers = analysers
        self._counts = dict(counts)
        self._documents = documents
        self._stop_words = _no_parts()
        often = {concept: self._often(concept.alternatives) for concept, _ in query.words}
        rare = max(_RARE, documents // _RARE_SHARE)
        self._words = [one for one in query.words if often[one[0]] <= rare]
        self._stems = {
            (word, is_end): self._stems_of(concept, word, is_end=is_end)
            for concept, word in self._words
            for is_end in (False, True)
        }
        self.parts = [
            (part, is_end) for (_, is_end), found in self._stems.items() for part in found
        ]
        """The strings that compounds of the question's words may begin with or (True) end with."""
        self._divided = {
            word: list(self._divisions(word))
            for concept, word in self._words
            if len(word) >= _MIN_FIRST + _MIN_PART and not often[concept]
        }
        self._candidates: dict[str, dict[str, tuple[str, ...]]] = {}

    def found(self, longer: Iterable[Sequence[str]]) -> set[str]:
        """Takes the terms that begin or end with each of `parts`, and returns the further terms to be counted."""
        unread = iter(longer)
        for concept, word in self._words:
            candidates: dict[str, tuple[str, ...]] = {}
            for is_end in (False, True):
                for part in self._stems[word, is_end]:
                    for term in next(unread):
                        if term not in concept.alternatives:
                            others = self._beside(part, term, is_end=is_end)
                            if others is not None and candidates.get(term) != ():
                                candidates[term] = others
            plain = [term for term, others in candidates.items() if not others]
            doubtful = sorted(candidates.keys() - plain, key=_by_length)[:_MOST_DOUBTFUL]
            shortest = sorted((*plain, *doubtful), key=_by_length)[:_MOST_COMPOUNDS]
            self._candidates[word] = {term: candidates[term] for term in shortest}
        wanted = {
            term for ways in self._divided.values() for way in ways for part in way for term in part
        }
        for candidates in self._candidates.values():
            wanted.update(candidates, *candidates.values())
        return wanted - self._counts.keys()

    def extended(self, counts: Mapping[str, int]) -> tuple[Query, Mapping[str, int]]:
        """Returns the query with what was found as weaker evidence, and all counts. `counts`: of the further terms."""
        self._counts.update(counts)
        asked = set(self._query.terms())
        more = []
        for concept, word in self._words:
            compounds = [
                term
                for term, others in self._candidates[word].items()
                if not others or self._often(others) or not asked.isdisjoint(others)
            ]
            name = concept.alternatives[0]
            if compounds:
                more.append(Concept(tuple(compounds), COMPOUND_SHARE, instead_of=name))
            more += self._parts_of(word, concept, is_known=bool(compounds))
        query = msgspec.structs.replace(self._query, concepts=(*self._query.concepts, *more))
        related = (term for concept in query.related for term in concept.alternatives)
        terms = (*query.terms(), *related)
        return query, {term: self._counts.get(term, 0) for term in terms}

    def _often(self, terms: Iterable[str]) -> int:
        return max(self._counts.get(term, 0) for term in terms)

    def _parts_of(self, word: str, concept: Concept, *, is_known: bool) -> list[Concept]:
        """Returns concepts for the parts of a compound. `is_known`: whether other words contain it; if not, one long
        part is enough.
        """
        name = concept.alternatives[0]
        own = set(concept.alternatives)
        ways = [way for way in self._divided.get(word, ()) if own.isdisjoint(chain(*way))]
        best = max(ways, key=lambda way: math.prod(map(self._often, way)), default=())
        if best and all(map(self._often, best)):
            weights = [_idf(self._often(part), self._documents) for part in best]
            return [
                Concept(part, COMPOUND_SHARE * weight / math.fsum(weights), instead_of=name)
                for part, weight in zip(best, weights, strict=True)
            ]
        if is_known:
            return []
        known = (part for way in ways for part in way if self._often(part))
        distinctive = [part for part in known if _is_distinctive(part, word)]
        longest = max(distinctive, key=lambda part: len(part[-1]), default=None)
        return [Concept(longest, COMPOUND_SHARE / 2, instead_of=name)] if longest else []

    def _divisions(self, word: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        for at in range(_MIN_FIRST, len(word) - _MIN_PART + 1):
            first, last = word[:at], word[at:]
            if self._stop_words.isdisjoint((first, last)):
                yield self._readings(first), self._readings(last)

    def _beside(self, part: str, term: str, *, is_end: bool) -> tuple[str, ...] | None:
        """Returns terms, one of which has to be known if `term` is a compound: none beside a long part; None if it is
        not one.
        """
        rest = term[: -len(part)] if is_end else term[len(part) :]
        if len(term) > _MAX_COMPOUND or not rest.isalpha():
            return None  # the part occurs there by chance
        if is_end:
            others = [rest]
        else:
            linked = [rest.removeprefix(link) for link in _LINKING if rest.startswith(link)]
            others = [rest, *linked]
        is_word = rest not in self._stop_words and not _VOWELS.isdisjoint(rest)
        if not is_word or len(min(others, key=len)) < _MIN_FIRST:
            return None
        if len(part) >= _MIN_DISTINCTIVE and len(rest) >= (_MIN_PART if is_end else _MIN_FIRST):
            return ()
        return self._readings(rest) if is_end else tuple(others)

    def _stems_of(self, concept: Concept, word: str, *, is_end: bool) -> list[str]:
        """Returns a word as it may occur in a compound. At the end of a longer word stemmers remove more."""
        found = [*concept.alternatives, word]
        if is_end:
            longer = (one.concepts(_ANY_FIRST + word)[0][0] for one in self._analysers)
            found += [stem.removeprefix(_ANY_FIRST) for stem in longer]
        return [one for one in dict.fromkeys(found) if len(one) >= _MIN_FIRST]

    def _readings(self, part: str) -> tuple[str, ...]:
        """Returns the index terms of a part; stemmers also remove what links it to the next."""
        found = [stem for one in self._analysers for way in one.concepts(part) for stem in way]
        return tuple(dict.fromkeys((*found, part)))


_ANY_FIRST: Final = "keller"
"""A first part of two syllables, as the rules of stemmers require."""
_VOWELS: Final = frozenset("aeiouyäöüåøæ")


@cache
def _no_parts() -> frozenset[str]:
    return frozenset(fold(word) for name in COMPOUNDING for word in stop_words_of(name))


def _by_length(term: str) -> tuple[int, str]:
    return len(term), term


def _is_distinctive(part: Sequence[str], word: str) -> bool:
    """Returns whether a part, whose spelling comes last, is enough to know what a word is about."""
    spelling = part[-1]
    return len(spelling) >= _MIN_DISTINCTIVE and len(word) - len(spelling) >= _MIN_PART


_FEW_WORDS: Final = 24
"""Up to this many words are searched for as substrings, which is faster than splitting a line into its terms."""


class Weights:
    """Information content of a query's concepts in one collection.

    A set of concepts is an integer with bit `n` for the concept of number `n`, since sets are joined for every line of
    every candidate.

    `weight(c) = ln(1 + (N - n + 0.5) / (n + 0.5))`, for N chunks of which n contain the concept: the idf of Robertson
    and Sparck Jones in the form that is never negative.
    """

    def __init__(
        self,
        concepts: Sequence[Concept],
        document_frequency: Mapping[str, int],
        documents: int,
        *,
        of_oneself: bool = False,
        analyse: Callable[[str], str] = fold,
    ) -> None:
        """`of_oneself`: see `speaks_of_oneself`. `analyse`: returns the terms of a name."""
        self.concepts = tuple(concepts)
        self._analyse = analyse
        self._speakers = _OWN_LABELS if of_oneself else frozenset[str]()
        weights = [
            _idf(_frequency(concept, document_frequency), documents) for concept in self.concepts
        ]
        asked = {
            concept.alternatives[0]: concept.share * weight
            for concept, weight in zip(self.concepts, weights, strict=True)
            if not concept.instead_of
        }
        self.by_concept = tuple(
            concept.share * asked.get(concept.instead_of, weight)
            for concept, weight in zip(self.concepts, weights, strict=True)
        )
        words = [
            (concept, weight)
            for concept, weight in zip(self.concepts, self.by_concept, strict=True)
            if not (concept.time or concept.instead_of)
        ]
        self.total = math.fsum(weight for _, weight in words) or 1.0
        """The sum for the words, in nats. Times do not count: a note of another time loses nothing."""
        self.known = math.fsum(
            weight for concept, weight in words if _frequency(concept, document_frequency)
        )
        """The sum for the words that occur in any text, in nats."""
        self._by_term: dict[str, int] = defaultdict(int)
        self._by_character: dict[str, int] = defaultdict(int)
        for number, concept in enumerate(self.concepts):
            known = self._by_character if concept.is_prefix else self._by_term
            for term in concept.alternatives:
                known[term] |= 1 << number
        self.coverage: Callable[[int], float] = _Coverages(
            self.concepts, self.by_concept, self.total
        ).__getitem__
        """The share of the query's information content in a set of concepts: 0..1, and more with the time mentioned."""
        self._weaker = sum(
            1 << number for number, concept in enumerate(self.concepts) if concept.instead_of
        )
        self._labels: dict[str, bool] = {}
        self._contexts: dict[str, int] = {}
        self._fits: dict[str, float] = {}
        self._words = [(f" {term} ", found) for term, found in self._by_term.items()]
        self._words += [(f" {start}", found) for start, found in self._by_character.items()]

    def limited(self, score: float, concept_sets: Iterable[int]) -> float:
        """Returns a chunk's BM25 score, limited where it is due to weaker evidence: by BM25 a rare compound would count
        more than the word. `concept_sets`: those of its lines and of its context.
        """
        if not self._weaker:
            return score
        found = reduce(or_, concept_sets, 0)
        asked = self.coverage(found & ~self._weaker)
        return min(score, asked + WEAKER_LIMIT * (self.coverage(found) - asked))

    def concepts_by_line(self, terms: str) -> list[int]:
        """Returns the set of concepts in each line of a chunk's terms."""
        if len(self._words) > _FEW_WORDS:
            return [self.concepts_in(line.split()) for line in terms.split("\n")]
        text = f" {terms} ".replace("\n", " \n ")
        present = [(word, concepts) for word, concepts in self._words if word in text]
        if not present:
            return [0] * (text.count("\n") + 1)
        lines = text.split("\n")
        found = [0] * len(lines)
        for word, concepts in present:
            for number, line in enumerate(lines):
                if word in line:
                    found[number] |= concepts
        return found

    def concepts_of(self, context: str) -> int:
        """Returns the set of concepts in a context, which many chunks of a file have in common."""
        known = self._contexts.get(context)
        if known is None:
            known = self._contexts[context] = self.concepts_in(context.split())
        return known

    def concepts_in(self, terms: Sequence[str]) -> int:
        """Returns the set of concepts that the terms match."""
        by_term, by_character = self._by_term, self._by_character
        found = 0
        if not by_term.keys().isdisjoint(terms):
            for term in by_term.keys() & terms:
                found |= by_term[term]
        if by_character:
            for character in by_character.keys() & {term[0] for term in terms}:
                found |= by_character[character]
        return found

    def is_label(self, label: str, terms: str, line: int) -> bool:
        """Returns whether the label of a line names a concept, or the person asking in a question about themselves.
        `terms`: those of the line's chunk.

        Many lines begin with the same label, whose terms are looked up once.
        """
        known = self._labels.get(label)
        if known is None:
            words = len(_LABEL_WORD.findall(label)) if label.isascii() else len(label)
            speaker = label.strip(_MARKS_OF_LABEL).casefold()
            said = iter(terms.split("\n")[line].split())
            if not speaker[:1].isdigit():  # the time of a message is no part of its label
                said = dropwhile(lambda term: term[0].isdigit() or term in {"am", "pm"}, said)
            first = tuple(islice(said, words))
            known = speaker in self._speakers or self.concepts_in(first) != 0
            self._labels[label] = known
        return known

    def fit(self, name: str, concepts: int | None = None) -> float:
        """Returns how well the name of a note or a section fits the question: 0..1, and 1 if it says that and nothing
        else.

        The cube of the share of the question's information that the name contains, if at least `LEAST_NAMED`, times the
        share of its words that were asked for. `concepts`: those of the name, if known.
        """
        known = self._fits.get(name)
        if known is None:
            words = _NAME_WORD.findall(name.casefold())
            if concepts is None:
                # As it is written, too: `feedback_terse` is more than its words.
                concepts = self.concepts_in(self._analyse(" ".join((name, *words))).split())
            known = 0.0
            if (share := min(1.0, self.coverage(concepts))) >= LEAST_NAMED:
                said = len(
                    [word for word in words if not (word.isdigit() or word in every_stop_word())]
                )
                known = share**3 * min(1.0, concepts.bit_count() / max(1, said))
            self._fits[name] = known
        return known

    def members(self, concepts: int) -> tuple[Concept, ...]:
        """Returns the concepts of a set, in the order of the query."""
        return tuple(self.concepts[number] for number in _numbers(concepts))


LEAST_NAMED: Final = 0.4
"""The least share of the question's information that a name has to contain to fit."""
_NAME_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_OWN_LABELS: Final = frozenset(("user", "me", "human", "i"))
"""Labels of what a person said to an agent, in its transcripts and in notes made of them."""
_MARKS_OF_LABEL: Final = " \t-*+_"
_LABEL_WORD: Final = re.compile(r"\S*[^\W_]\S*")
"""A word that has a term; the mark of a list and the box of a task have none."""
_ONESELF: Final = re.compile(
    r"\b(?:i|my|me|mine|we|our|us|ich|mein\w*|mir|mich|wir|unser\w*|je|mon|ma|mes|nous|notre|yo|mi|mis|nuestr\w+"
    r"|io|mio|mia|eu|meu|minha|ik|mijn|я|мой|моя|мне|меня)\b|我|私|僕|俺|나는|내가|저는|제가",
    re.IGNORECASE,
)


def speaks_of_oneself(question: str) -> bool:
    """Returns whether a question is about the person asking."""
    return _ONESELF.search(question) is not None


class _Coverages(dict[int, float]):
    """Coverage by set of concepts, computed on demand, which is some thousand times per query."""

    def __init__(
        self, concepts: Sequence[Concept], by_concept: Sequence[float], total: float
    ) -> None:
        super().__init__()
        self._by_concept = by_concept
        self._total = total
        numbers = {one.alternatives[0]: at for at, one in enumerate(concepts) if not one.instead_of}
        self._instead_of = {
            at: numbers[one.instead_of] for at, one in enumerate(concepts) if one.instead_of
        }

    def __missing__(self, concepts: int) -> float:
        weaker: dict[int, float] = {}
        found = []
        for number in _numbers(concepts):
            asked = self._instead_of.get(number)
            if asked is None:
                found.append(self._by_concept[number])
            elif not concepts >> asked & 1:
                most = COMPOUND_SHARE * self._by_concept[asked]
                weaker[asked] = min(most, weaker.get(asked, 0.0) + self._by_concept[number])
        share = self[concepts] = math.fsum((*found, *weaker.values())) / self._total
        return share


def _numbers(concepts: int) -> Iterator[int]:
    """Yields the numbers of the concepts in a set: a line has a few of a long prompt's hundred."""
    while concepts:
        lowest = concepts & -concepts
        yield lowest.bit_length() - 1
        concepts ^= lowest


def _frequency(concept: Concept, document_frequency: Mapping[str, int]) -> int:
    counts = [document_frequency.get(term, 0) for term in concept.alternatives]
    return sum(counts) if concept.time else max(counts)


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))
