"""What the warm server is asked in each search mode, and what its answer says.

An answer that cannot be used is an error, never an empty list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from backends.interface import Mode
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.http import post_query
from backends.qmd.models import SearchMode
from backends.qmd.questions import SubQuery, lexical, semantic
from backends.qmd.server import WarmServer

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
