"""Asking QMD: the warm server, or one process a question.

Owns which way is taken, what is asked in each search mode, and that an unusable answer is an error and
never an empty list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

import anyio

from backends.interface import Mode
from backends.qmd.errors import Cause, QmdUnavailableError
from backends.qmd.http import post_query
from backends.qmd.models import SearchMode
from backends.qmd.questions import SubQuery, lexical, semantic
from backends.qmd.results import Row, fuse, rows_of_answer, rows_of_output
from backends.qmd.server import WarmServer
from backends.qmd.sidecar import Sidecar

CANDIDATES: Final = 12
"""Documents asked for, whatever the limit: so that asking for fewer keeps the order."""
RERANKED: Final = 12
MAX_PROCESSES: Final = 4
TYPED_SINCE: Final = (2, 1, 0)
"""Since when the sub-queries of one question are one command, which needs no expansion model."""
COLLECTIONS_SINCE: Final = (2, 8, 0)
"""Since when several `-c` are searched one by one; before, what they left out could hide hits."""


class Question(NamedTuple):
    """What QMD is asked. `searches` is never empty."""

    searches: tuple[SubQuery, ...]
    rerank: bool
    mode: Mode


class Asker(Protocol):
    """A way to ask; `ask` raises QmdUnavailableError."""

    way: Literal["warm", "cli"]

    async def ask(
        self, question: Question, collections: Sequence[str], *, timeout_s: float
    ) -> list[Row]: ...


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


class WarmAsker:
    """Asks the supervised server."""

    way: Literal["warm", "cli"] = "warm"

    def __init__(self, server: WarmServer) -> None:
        self._server = server

    async def ask(
        self, question: Question, collections: Sequence[str], *, timeout_s: float
    ) -> list[Row]:
        port = self._server.port
        if port is None:
            reason = self._server.last_error or "QMD's server is starting."
            raise QmdUnavailableError("not_ready", reason)
        self._server.note_question(with_models=question.mode != "keyword")
        body: dict[str, Any] = {
            "searches": [one.as_json() for one in question.searches],
            "collections": list(collections),
            "limit": CANDIDATES,
            "candidateLimit": RERANKED if question.rerank else CANDIDATES,
            "rerank": question.rerank,
        }
        rows = None
        try:
            rows = rows_of_answer(await post_query(port, body, timeout_s=timeout_s))
        finally:
            if rows is None:  # also when the deadline of the caller ended the waiting
                self._server.suspect()
        if rows is None:
            raise QmdUnavailableError("bad_answer", "QMD's server gave no results and no error.")
        return rows


class CommandAsker:
    """Starts QMD for every question."""

    way: Literal["warm", "cli"] = "cli"

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    async def ask(
        self, question: Question, collections: Sequence[str], *, timeout_s: float
    ) -> list[Row]:
        version = self._sidecar.program.version
        if version < TYPED_SINCE:
            return await self._ask_one_by_one(question, timeout_s)
        arguments: tuple[str, ...] = ("query",) if question.rerank else ("query", "--no-rerank")
        if version >= COLLECTIONS_SINCE:
            arguments += tuple(word for name in collections for word in ("-c", name))
        typed = "\n".join(f"{one.kind}: {one.text}" for one in question.searches)
        return await self._rows(arguments, typed, timeout_s)

    async def _ask_one_by_one(self, question: Question, timeout_s: float) -> list[Row]:
        """For versions that take one lexical query a process: a few of them, joined by rank."""
        with anyio.fail_after(timeout_s):
            return fuse(
                [
                    await self._rows(("search",), one.text, timeout_s)
                    for one in question.searches[:MAX_PROCESSES]
                ]
            )

    async def _rows(self, arguments: tuple[str, ...], text: str, timeout_s: float) -> list[Row]:
        arguments += ("--json", "-n", str(CANDIDATES), "--", text)
        finished = await self._sidecar.run(*arguments, timeout_s=timeout_s)
        rows = rows_of_output(finished.stdout)
        if rows is not None:
            return rows
        cause: Cause = "crashed" if finished.cause == "crashed" else "bad_answer"
        raise QmdUnavailableError(cause, f"QMD gave no results: {finished.complaint}.")
