"""From what a user types to what QMD is asked.

Owns the lexical sub-queries: QMD joins all words of one with AND, so that a natural question finds
nothing; asked word by word it ranks what holds many of them first. Pure. Whatever the user typed is
data: none of QMD's query syntax survives.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, NamedTuple

from backends.ranking.query import MAX_QUERY_CHARS, content_words
from backends.text.analyser import detect_language, is_unspaced
from backends.text.folding import normalise

Kind = Literal["lex", "vec"]

MAX_TERMS: Final = 16
"""Each costs QMD one search a collection; the longest words tell most."""
MAX_SEMANTIC_CHARS: Final = 2000
_SYNTAX = re.compile(r"[\"“”'’`^*(){}\[\]<>~|\\]")
_NOT_LINE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_PREFIX = re.compile(r"^\s*(?:lex|vec|hyde|intent|expand)\s*:", re.IGNORECASE)
_TRIMMED: Final = "-./:@#+&=,_"


class SubQuery(NamedTuple):
    kind: Kind
    text: str

    def as_json(self) -> dict[str, Any]:
        return {"type": self.kind, "query": self.text}


def lexical(text: str) -> tuple[SubQuery, ...]:
    """All telling words together, then each alone; empty when there is no word."""
    words = telling_words(text)
    together = (" ".join(words),) if 1 < len(words) <= MAX_TERMS else ()
    alone = sorted(words, key=len, reverse=True)[:MAX_TERMS]
    return tuple(SubQuery("lex", query) for query in (*together, *alone))


def semantic(text: str) -> SubQuery | None:
    """The question for an embedding model; None when there is nothing to embed."""
    line = one_line(text)[:MAX_SEMANTIC_CHARS]
    # A leading minus before a word is a negation, which QMD refuses in semantic queries.
    line = re.sub(r"(^|\s)-+(?=[\w\"])", r"\1", line)
    return SubQuery("vec", line) if line else None


def one_line(text: str) -> str:
    """The text without line breaks, control characters and any prefix that QMD would obey."""
    line = " ".join(_NOT_LINE.sub(" ", text[:MAX_QUERY_CHARS]).split())
    while (stripped := _PREFIX.sub("", line).strip()) != line:
        line = stripped
    return line


def telling_words(text: str) -> list[str]:
    """The words of a question without its stop words, as QMD's tokenizer can find them."""
    text = normalise(text[:MAX_QUERY_CHARS])
    words = content_words(text, detect_language(text))
    pieces = [piece for word in words for piece in _pieces(word)]
    return list(dict.fromkeys(pieces))


def _pieces(word: str) -> list[str]:
    """QMD's index knows single characters of unspaced scripts; pairs of them tell more."""
    if is_unspaced(word):
        return [word[i : i + 2] for i in range(max(1, len(word) - 1))]
    possessive = re.sub(r"['’]s$", "", word)
    cleaned = _SYNTAX.sub(" ", possessive).split()
    return [trimmed for part in cleaned if (trimmed := part.strip(_TRIMMED))]
