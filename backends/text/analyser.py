"""The analyser: text in, index terms out; the same rules for what is stored and what is asked.

Owns the splitting into words, identifiers and unspaced runs, and which terms each of them gives:

* a word: its stem; a word with diacritics also the stem of its plain spelling;
* an identifier, path, version or name with joints: the whole without joints, and every part;
* scripts without word spaces: overlapping bigrams, and the last character alone, so that every
  character begins some term and can be found as a prefix;
* a pictograph: itself.

Terms consist of letters, digits and `_`, so that a plain FTS5 tokenizer splits them at spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from backends.text.folding import fold, normalise
from backends.text.languages import DEFAULT_LATIN, guess_latin_language
from backends.text.scripts import EMOJI, MARKS, UNSPACED
from backends.text.stemming import script_language, stem

ANALYSER_VERSION: Final = 1
"""Goes up with every change of the terms that a text gives: stored indexes are then rebuilt."""

_MAX_TERM = 64
_MAX_CACHED_WORDS = 50_000
"""Some 7 MiB. With twice as many nothing is indexed faster, with 20,000 it takes a twelfth longer."""

_LETTER = f"(?:[^\\W{UNSPACED}]|[{MARKS}])"
_JOINT = "[-._/:@#+&=,'’]"
_ASCII_TOKEN = re.compile(f"[A-Za-z0-9_]+(?:{_JOINT}[A-Za-z0-9_]+)*")

_JOINT_LEVELS: Final = (re.compile("[/:@#&=,]"), re.compile("[.]"), re.compile("[-_+]"))
"""Loosest joint first: `notes/2026-01-02.md` is a path of a file name of a date."""
_APOSTROPHE = re.compile("['’]")
_ELISION = re.compile("^(?:[cdjlmnst]|qu|all|dell|nell|sull|un)['’](?=..)", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_NOT_WORD = re.compile(f"(?:{_JOINT}|_)+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL = re.compile("[a-z][A-Z]|[A-Z]{2}[a-z]")


# To compile the large classes takes 10 ms, which a start among ASCII texts need not wait for.
@cache
def _any_token() -> re.Pattern[str]:
    return re.compile(f"{_LETTER}+(?:{_JOINT}{_LETTER}+)*|[{UNSPACED}]+|[{EMOJI}]")


@cache
def _unspaced_start() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}]")


class Analyser:
    """Gives the terms of texts in one (Latin-script) language. Cheap to make; caches words."""

    def __init__(self, language: str = DEFAULT_LATIN) -> None:
        self.language = language
        self._cache: dict[str, str] = {}

    def terms(self, text: str) -> str:
        """The terms of `text`, separated by single spaces, in order, with repetitions."""
        text = normalise(text)
        pattern = _ASCII_TOKEN if text.isascii() else _any_token()
        cache = self._cache
        found = []
        for token in pattern.findall(text):
            terms = cache.get(token)
            if terms is None:
                terms = self._remember(token)
            if terms:
                found.append(terms)
        return " ".join(found)

    def concepts(self, token: str) -> tuple[tuple[str, ...], ...]:
        """What one token of normalised text says: concepts, each with its alternative terms.

        A plain word is one concept; an identifier is the whole and each of its parts. The number and
        order of the concepts do not depend on the language, only their terms do.
        """
        if is_unspaced(token):
            return tuple((bigram,) for bigram in _bigrams(fold(token)))
        if token.isalnum() and not _CAMEL.search(token):
            stems = self._stems(token)
            return (stems,) if stems[0] else ()  # only marks that folding drops
        return tuple(self._word_concepts(token))

    def _remember(self, token: str) -> str:
        if len(self._cache) >= _MAX_CACHED_WORDS:
            self._cache.clear()
        if is_unspaced(token):
            run = fold(token)
            joined = " ".join((*_bigrams(run), run[-1]) if len(run) > 1 else run)
        else:
            concepts = dict.fromkeys(self.concepts(token))
            joined = " ".join(term for alternatives in concepts for term in alternatives)
        if len(token) <= _MAX_TERM:
            self._cache[token] = joined
        return joined

    def _word_concepts(self, token: str, level: int = 0) -> Iterator[tuple[str, ...]]:
        if level == len(_JOINT_LEVELS):
            yield from self._part_concepts(token)
            return
        parts = [part for part in _JOINT_LEVELS[level].split(token) if part]
        if len(parts) > 1:
            whole = _whole(token)
            if 0 < len(whole) <= _MAX_TERM:
                yield (whole,)
        for part in parts:
            yield from self._word_concepts(part, level + 1)

    def _part_concepts(self, part: str) -> Iterator[tuple[str, ...]]:
        if "'" in part or "’" in part:
            part = _without_apostrophes(part)
        if fold(part):
            yield self._stems(part)
        if _CAMEL.search(part):
            for hump in _HUMP.findall(part):
                if len(hump) > 1:
                    yield self._stems(hump)

    def _stems(self, word: str) -> tuple[str, ...]:
        """The stem; for a word with diacritics also the stem of its spelling without them."""
        if word[0].isdigit() or len(word) > _MAX_TERM:
            return (fold(word)[:_MAX_TERM],)
        lowered, plain = word.casefold(), fold(word)
        language = script_language(word) or self.language
        stemmed = fold(stem(lowered, language)) or plain
        if plain == lowered:
            return (stemmed,)
        return tuple(dict.fromkeys((stemmed, stem(plain, language) or plain)))


def tokens(text: str) -> list[str]:
    """The tokens (words with their joints, unspaced runs, pictographs) of normalised text."""
    return (_ASCII_TOKEN if text.isascii() else _any_token()).findall(text)


def is_unspaced(token: str) -> bool:
    """Whether a token is a run of a script that is written without word spaces."""
    return not token.isascii() and _unspaced_start().match(token) is not None


def detect_language(text: str) -> str:
    """The language to analyse `text` in."""
    return guess_latin_language(normalise(text))


def _whole(token: str) -> str:
    """A jointed token as one term.

    `sqlite-vec` and `sqlite_vec` agree, `1,500` and `1500` do; `1.23` and `12.3` do not.
    """
    words = list(filter(None, map(fold, _NOT_WORD.split(token))))
    is_number = all(word.isdigit() for word in words) and not _THOUSANDS.fullmatch(token)
    return ("_" if is_number else "").join(words)


def _without_apostrophes(part: str) -> str:
    """`Anna's` gives `Anna`, `l'homme` gives `homme`, `don't` gives `dont`."""
    head, _, tail = part.replace("’", "'").rpartition("'")
    if tail in {"s", "S"} and head:
        return head.replace("'", "")
    return _APOSTROPHE.sub("", _ELISION.sub("", part))


def _bigrams(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]
