"""Asking QMD and understanding its answer, whatever noise stands around it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

from backends.interface import Mode
from backends.qmd.home import SearchMode
from backends.qmd.process import QmdUnavailableError
from backends.qmd.server import WarmServer, post_query
from backends.ranking.query import MAX_QUERY_CHARS, content_words
from backends.text.analyser import detect_language, is_unspaced, normalise

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


CANDIDATES: Final = 12
"""Documents asked for, whatever the limit: so that asking for fewer keeps the order."""
RERANKED: Final = 12
_SCHEME: Final = "qmd://"


class Question(NamedTuple):
    """What QMD is asked. `searches` is never empty."""

    searches: tuple[SubQuery, ...]
    rerank: bool
    mode: Mode

    def as_json(self, collections: Sequence[str]) -> dict[str, Any]:
        """The body of a request to the server."""
        return {
            "searches": [one.as_json() for one in self.searches],
            "collections": list(collections),
            "limit": CANDIDATES,
            "candidateLimit": RERANKED if self.rerank else CANDIDATES,
            "rerank": self.rerank,
        }


class Row(NamedTuple):
    """One document that QMD proposes; `path` is relative to the collection."""

    collection: str
    path: str
    score: float
    """As QMD said it; 0 is a score like any other."""
    line: int | None


def question_for(text: str, mode: SearchMode) -> Question | None:
    """What to ask in a search mode whose models are there; None when there is nothing to ask."""
    words, meaning = lexical(text), semantic(text)
    searches: tuple[SubQuery, ...] = words
    result: Mode = "keyword"
    if mode == "vsearch":
        searches, result = ((meaning,) if meaning else ()), "vector"
    elif mode == "query":
        searches, result = (*words, *((meaning,) if meaning else ())), "rerank"
    return Question(searches, mode == "query", result) if searches else None


async def ask(
    server: WarmServer, question: Question, collections: Sequence[str], *, timeout_s: float
) -> list[Row]:
    """The documents that QMD proposes, the best first. Raises QmdUnavailableError."""
    port = server.port
    if port is None:
        raise QmdUnavailableError("not_ready", server.last_error or "QMD's server is starting.")
    server.note_question(with_models=question.mode != "keyword")
    rows = None
    try:
        answer = await post_query(port, question.as_json(collections), timeout_s=timeout_s)
        rows = rows_of_answer(answer)
    finally:
        if rows is None:  # also when the deadline of the caller ended the waiting
            server.suspect()
    if rows is None:
        raise QmdUnavailableError("bad_answer", "QMD's server gave no results and no error.")
    return rows


def rows_of_answer(answer: Any) -> list[Row] | None:
    """The rows in an answer of the server; None when it is not one."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        return None
    return [row for item in results if (row := _row(item)) is not None]


def _row(item: Any) -> Row | None:
    """None for what does not say at least which file it means."""
    address = item.get("file") if isinstance(item, dict) else None
    if not isinstance(address, str):
        return None
    text = unquote(address.removeprefix(_SCHEME).lstrip("/"), errors="replace")
    collection, _, path = text.partition("/")
    line = item.get("line")
    if not collection or not path:
        return None
    is_line = isinstance(line, int) and line > 0
    return Row(collection, path, _score(item.get("score")), line if is_line else None)


def _score(value: Any) -> float:
    """Between 0 and 1; 0 for what is no number. JSON's whole numbers may be too large for a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(1.0, max(0.0, value))) if is_number and abs(value) < math.inf else 0.0
