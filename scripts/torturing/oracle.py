"""The consistency oracle: an index must equal what a fresh index of the same files gives.

Compares chunks, terms and the scored answers to fifty queries, and has every part of the index pass
its own checks. Works on copies and helps nothing to recover. It judges any index that is level:

    PYTHONPATH=scripts python -m torturing.oracle CONFIG WORKSPACE STATE_DIR
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import anyio
import apsw
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.builtin.searching.search import Searcher
from backends.builtin.storage.connections import connect_reader
from backends.interface import SearchRequest, SyncRequest
from benchmarks.index_files import copied
from config.loading.load import LoadRequest, load_settings
from config.settings import Settings, StoreSettings, SyncSettings
from torturing.integrity import integrity_faults

QUERIES: Final = 50
_MAX_SHOWN: Final = 3
_VOCABULARY: Final = "CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, chunk_terms, instance)"
_PLACE: Final = "JOIN chunks AS c ON c.id = v.doc JOIN files AS f ON f.id = c.file_id"
_CONTENT: Final = {
    "files": "SELECT source, path, content_hash, pipeline, note_date, chunk_count FROM files",
    "chunks": "SELECT f.path, c.start, start_line, end_line, identity, headings, text, terms"
    " FROM chunks AS c JOIN files AS f ON f.id = c.file_id",
    "excerpts": 'SELECT f.path, c.start, x.start, x."end", x.line, x.text_hash'
    " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
    " JOIN files AS f ON f.id = x.file_id AND f.id = c.file_id",
    "terms": f"SELECT f.path, c.start, v.term, v.col, v.offset FROM temp.v AS v {_PLACE}",
}


class Truth:
    """What an index of these files must hold. `settings` are those of the agent."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def faults(
        self, index: Path, *, expected: Callable[[str], Sequence[float]] | None = None
    ) -> list[str]:
        """Everything that is wrong with a level index; empty when nothing is.

        `expected` gives the vector that belongs to a text, in any length.
        """
        with copied(index) as copy:
            found = list(integrity_faults(copy, expected=expected))
            if found:
                return found
            with tempfile.TemporaryDirectory(prefix="torture-fresh-") as directory:
                fresh = Path(directory) / "fresh.sqlite"
                await self._make(fresh)
                return [*_differences(copy, fresh), *self._other_answers(copy, fresh)]

    async def _make(self, index: Path) -> None:
        async with open_builtin(keyword_settings(self._settings, index)) as backend:
            await backend.sync(SyncRequest())

    def _other_answers(self, index: Path, fresh: Path) -> Iterator[str]:
        queries = make_queries(fresh)
        ours, theirs = (self._answers(path, queries) for path in (index, fresh))
        for query, one, other in zip(queries, ours, theirs, strict=True):
            if one != other:
                yield f"other answer to {query!r}: {one[:1]} instead of {other[:1]}"
                return

    def _answers(self, index: Path, queries: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        searcher = Searcher(keyword_settings(self._settings, index).search)
        with closing(connect_reader(index)) as connection:
            return [
                [
                    (hit.path, hit.start_line, hit.end_line, hit.score, hit.snippet)
                    for hit in searcher.search(
                        connection, SearchRequest(query=query, max_results=30, min_score=0.0)
                    ).hits
                ]
                for query in queries
            ]


def keyword_settings(settings: Settings, index: Path) -> Settings:
    """The same agent with another index file and without embeddings."""
    store = StoreSettings(path=index)
    search = replace(settings.search, provider="none", store=store, sync=SyncSettings())
    return replace(settings, search=search, backend="builtin")


def make_queries(index: Path) -> list[str]:
    """Fifty of one to four words that are in the index, rare and common ones, always the same."""
    with closing(apsw.Connection(str(index))) as db:
        db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, chunk_terms, row)")
        words = [term for (term,) in db.execute("SELECT term FROM temp.v ORDER BY doc, term")]
    if not words:
        return []
    step = max(1, len(words) // QUERIES)
    return [
        " ".join(
            words[(number * step + part * 7 * step) % len(words)] for part in range(1 + number % 4)
        )
        for number in range(QUERIES)
    ]


def content(index: Path) -> dict[str, list[Any]]:
    """All that searches read, without what depends on the order of events."""
    with closing(apsw.Connection(str(index))) as db:
        db.execute(_VOCABULARY)
        return {name: sorted(db.execute(query)) for name, query in _CONTENT.items()}


def _differences(index: Path, fresh: Path) -> Iterator[str]:
    ours, theirs = content(index), content(fresh)
    for name in _CONTENT:
        here, there = Counter(ours[name]), Counter(theirs[name])
        if here != there:
            missing, surplus = there - here, here - there
            shown = [list(rows)[:_MAX_SHOWN] for rows in (missing, surplus)]
            yield f"{name} differ, missing: {shown[0]}, surplus: {shown[1]}"
            return


def read_settings(config: Path, workspace: Path, state_dir: Path) -> Settings:
    """Those that a gateway with these arguments has."""
    return load_settings(
        LoadRequest(
            environment={},
            cwd=state_dir,
            config_path=str(config),
            workspace=str(workspace),
            state_dir=str(state_dir),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("state_dir", type=Path)
    options = parser.parse_args()
    settings = read_settings(options.config, options.workspace, options.state_dir)
    found = anyio.run(Truth(settings).faults, settings.search.store.path)
    print("\n".join(fault[:2000] for fault in found) or "The index equals a fresh one.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
