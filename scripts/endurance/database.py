"""The rows of an agent whose index is in PostgreSQL, compared with those of a fresh index.

The counterpart of `oracle`, which reads files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.builtin.searching import Searcher
from backends.builtin.store.postgres.store import PostgresStore
from backends.interface import SearchRequest, SyncRequest
from benchmarks.cluster import AGENT_TABLES
from config.settings import Settings, SyncSettings
from endurance.oracle import Content, is_parallel, make_queries
from fakes import postgres

VIEW: Final = "first"
STATEMENT_MS: Final = 2_000
_SCHEMA: Final = "memory_gateway"
_MAX_SHOWN: Final = 3
_EMBEDDED: Final = """
    SELECT c.text, x.start, x."end", e.vector::text
    FROM {0}.excerpts AS x JOIN {0}.chunks AS c USING (agent_id, chunk_id)
    JOIN {0}.embeddings AS e USING (agent_id, text_hash) WHERE x.agent_id = {1}
"""


class Database:
    """The rows of one agent, on a server of their own."""

    def __init__(self, server: postgres.Server) -> None:
        self.server = server
        # What was acknowledged must be there after a crash.
        server.sql("ALTER SYSTEM SET synchronous_commit = on")
        server.sql("SELECT pg_reload_conf()")
        self.name = server.migrated()
        self._numbers = count(1)
        self.forget()

    def forget(self) -> None:
        """Changes to a tenant that the server does not know, which has no index yet."""
        self.tenant = f"tenant{next(self._numbers)}"

    def configuration(self, view: str = VIEW) -> dict[str, Any]:
        """Returns the block `store` of an agent, for one host."""
        url = self.server.url(self.name, role=postgres.SERVING)
        return {
            "driver": "postgres",
            "url": url,
            "tenant": self.tenant,
            "view": view,
            "statementTimeoutMs": STATEMENT_MS,
        }

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns rows as the superuser, to whom no policy applies; `{0}` is the schema, `{1}` the agent."""
        found = self.server.sql(
            f"SELECT agent_id FROM {_SCHEMA}.agents WHERE tenant = '{self.tenant}'",
            database=self.name,
        )
        agent = found[0][0] if found else 0
        return self.server.sql(statement.format(_SCHEMA, agent), database=self.name)

    def read(self) -> Content:
        files = self.rows("SELECT path, content_hash FROM {0}.files WHERE agent_id = {1}")
        return Content(dict(files), frozenset(text for text, _ in self._embedded()))

    def _embedded(self) -> Iterator[tuple[str, Sequence[float]]]:
        for text, start, end, vector in self.rows(_EMBEDDED):
            yield text.decode()[start:end], json.loads(vector)

    def problems(self, settings: Settings) -> Sequence[str]:
        """Returns the problems that `store check` finds."""
        with closing(self._store(settings)) as store:
            return store.check().problems if store.exists else ()

    def _store(self, settings: Settings) -> PostgresStore:
        return PostgresStore(settings.search.store, settings.agent_id, viewpoint=VIEW)

    async def faults(
        self, settings: Settings, expected: Callable[[str], Sequence[float]] | None
    ) -> list[str]:
        """Returns everything that is wrong with an index after a complete sync."""
        mine = self.tenant
        self.forget()
        fresh = _without_vectors(settings, self.tenant)
        try:
            async with open_builtin(fresh) as backend:
                await backend.sync(SyncRequest())
            theirs = await to_thread.run_sync(self._content)
        finally:
            self.tenant = mine
        return await to_thread.run_sync(
            lambda: list(self._faults(settings, fresh, theirs, expected))
        )

    def _faults(
        self,
        settings: Settings,
        fresh: Settings,
        theirs: dict[str, Counter[tuple[Any, ...]]],
        expected: Callable[[str], Sequence[float]] | None,
    ) -> Iterator[str]:
        yield from self.problems(settings)
        for title, ours in self._content().items():
            missing, surplus = theirs[title] - ours, ours - theirs[title]
            if missing or surplus:
                shown = [list(one)[:_MAX_SHOWN] for one in (missing, surplus)]
                yield f"{title} differ, missing: {shown[0]}, surplus: {shown[1]}"[:800]
                return
        if expected:
            for text, vector in self._embedded():
                if not is_parallel(vector, expected(text)):
                    yield f"the vector of another text at {text[:60]!r}"
        with closing(self._store(fresh)) as store, store.view() as view:
            languages = view.keywords.corpus().languages
        queries = make_queries(((term, n) for term, n in theirs["counts of words"]), languages)
        for query, one, other in zip(
            queries, *(self._answers(of, queries) for of in (settings, fresh)), strict=True
        ):
            if one != other:
                yield f"other answer to {query!r}: {one[:1]} instead of {other[:1]}"
                return

    def _content(self) -> dict[str, Counter[tuple[Any, ...]]]:
        return {
            title: Counter(self.rows(query))
            for title, query in AGENT_TABLES.items()
            if title != "vectors"
        }

    def _answers(self, settings: Settings, queries: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        searcher = Searcher(replace(settings.search, provider="none"))
        answers = []
        with closing(self._store(settings)) as store:
            for query in queries:
                request = SearchRequest(query=query, max_results=30, min_score=0.0)
                with store.view() as view:
                    hits = searcher.search(view, request).hits
                answers.append(
                    [
                        (hit.path, hit.start_line, hit.end_line, hit.score, hit.snippet)
                        for hit in hits
                    ]
                )
        return answers


def _without_vectors(settings: Settings, tenant: str) -> Settings:
    store = replace(settings.search.store, tenant=tenant)
    search = replace(settings.search, provider="none", store=store, sync=SyncSettings())
    return replace(settings, search=search, backend="builtin")


def lay_on_small_disk(database: Database, disk: Path) -> None:
    """Moves the tables to a directory that is a file system of its own; the server's log stays."""
    server, name = database.server, database.name
    server.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
    for kind in ("TABLE", "INDEX"):
        server.sql(f"ALTER {kind} ALL IN TABLESPACE pg_default SET TABLESPACE small", database=name)
