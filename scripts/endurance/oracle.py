"""The oracle: an index must equal what a fresh index of the same files gives, and each of its parts pass checks.

Compares chunks, terms and the scored answers to fifty queries. Works on copies and helps nothing to
recover. It checks any index that is level:

    PYTHONPATH=scripts python -m endurance.oracle CONFIG WORKSPACE STATE_DIR
"""

from __future__ import annotations

import argparse
import math
import shutil
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import apsw
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.builtin.searching import MIN_SCORED, Searcher
from backends.builtin.store.port import long_words
from backends.builtin.store.sqlite.connections import connect_reader
from backends.builtin.store.sqlite.store import SqliteView
from backends.interface import SearchRequest, SyncRequest
from backends.ranking.query import Query, QueryAnalyser
from config.loading import load_settings
from config.settings import Settings, StoreSettings, SyncSettings
from config.source.discover import LoadRequest


@contextmanager
def copied(index: Path) -> Iterator[Path]:
    """Yields a copy of the file and its log in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="index-copy-") as directory:
        for suffix in ("", "-wal", "-journal"):
            source = index.with_name(index.name + suffix)
            if source.exists():
                shutil.copy(source, directory)
        yield Path(directory) / index.name


def table_faults(db: apsw.Connection) -> Iterator[str]:
    """Yields what SQLite and FTS5 find, and files that are there in part. `db` must be a copy: it is written."""
    if (verdict := db.execute("PRAGMA integrity_check").get) != "ok":
        yield f"integrity check: {verdict}"
    if (orphan := db.execute("PRAGMA foreign_key_check").get) is not None:
        yield f"foreign keys: {orphan}"
    db.execute("INSERT INTO chunk_terms (chunk_terms, rank) VALUES ('integrity-check', 1)")
    chunks = set(db.execute("SELECT id FROM chunks"))
    if chunks != set(db.execute("SELECT id FROM chunk_terms_docsize")):
        yield "chunks and terms disagree"
    counted, summed = _totals(db), _summed(db)
    if counted != summed and any([*counted, *summed]):
        yield f"FTS5 counts {counted} chunks and words, and holds {summed}"
    db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, chunk_terms, row)")
    long = long_words(term for (term,) in db.execute("SELECT term FROM temp.terms"))
    if long != {word[::-1] for (word,) in db.execute("SELECT backwards FROM word_ends")}:
        yield "chunks and long words disagree"
    stored = dict(db.execute("SELECT id, chunk_count FROM files WHERE chunk_count > 0"))
    if stored != dict(db.execute("SELECT file_id, count(*) FROM chunks GROUP BY 1")):
        yield "a file is there in part"


def _totals(db: apsw.Connection) -> list[int]:
    """Returns the number of chunks, and of words in each column, as BM25 counts them."""
    return _varints(db.execute("SELECT block FROM chunk_terms_data WHERE id = 1").get or b"")


def _summed(db: apsw.Connection) -> list[int]:
    sizes = [_varints(size) for (size,) in db.execute("SELECT sz FROM chunk_terms_docsize")]
    columns = zip(*sizes, strict=True)
    return [len(sizes), *map(sum, columns)]


def _varints(data: bytes) -> list[int]:
    """Decodes numbers as FTS5 stores them, of up to eight bytes."""
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers


LENGTH_TOLERANCE: Final = 2e-3
COSINE_TOLERANCE: Final = 1e-5
"""A hundred times what single precision costs; texts of random models may be no farther apart than 1e-4."""
_NUMBER_BYTES: Final = 4
_COUNTS: Final = {
    "an excerpt lies outside of its chunk": "SELECT count(*) FROM excerpts AS x"
    ' JOIN chunks AS c ON c.id = x.chunk_id WHERE x."end" > length(c.text) AND instr(c.text, char(0)) = 0',
    "a text waits for a job that is closed or gone": "SELECT count(*) FROM batch_items AS b"
    " WHERE NOT EXISTS (SELECT 1 FROM batch_jobs AS j WHERE j.id = b.job_id AND j.state != 'closed')",
}
_VECTORS: Final = (
    "SELECT e.text_hash, f.dimensions, e.vector FROM embeddings AS e"
    " JOIN fingerprints AS f ON f.id = e.fingerprint_id"
)
_TEXTS: Final = (
    'SELECT x.text_hash, substr(c.text, x.start + 1, x."end" - x.start)'
    " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
)
_EMBEDDED: Final = (
    'SELECT substr(c.text, x.start + 1, x."end" - x.start)'
    " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
    " WHERE x.text_hash IN (SELECT text_hash FROM embeddings)"
)


class Content(NamedTuple):
    """The content of an index."""

    files: dict[str, bytes]
    """The content hash by path."""
    embedded: frozenset[str]
    """Texts whose vector is stored."""


def read_content(index: Path) -> Content:
    """Returns the content of an index: nothing if it does not exist or cannot be read."""
    if index.exists():
        with suppress(apsw.Error), copied(index) as copy, closing(apsw.Connection(str(copy))) as db:
            return Content(
                dict(db.execute("SELECT path, content_hash FROM files")),
                frozenset(text for (text,) in db.execute(_EMBEDDED)),
            )
    return Content({}, frozenset())


def texts(index: Path) -> set[str]:
    """Returns the texts that are to have a vector."""
    with copied(index) as copy, closing(apsw.Connection(str(copy))) as db:
        return {text for _, text in db.execute(_TEXTS)}


def searchable(index: Path) -> dict[str, list[Any]]:
    """Returns all that searches read, without what depends on the order of events."""
    with copied(index) as copy:
        return _content(copy)


def damage(index: Path) -> list[str]:
    """Returns what is wrong with an index as it is, up to date or not."""
    if not index.exists():
        return []
    with copied(index) as copy:
        return list(integrity_faults(copy))


def integrity_faults(
    index: Path, *, expected: Callable[[str], Sequence[float]] | None = None
) -> Iterator[str]:
    """Checks a copy. `expected` gives the vector that belongs to a text, in any length."""
    try:
        with closing(apsw.Connection(str(index))) as db:
            yield from _tables(db)
            yield from _vectors(db, expected)
    except apsw.Error as error:
        yield f"{type(error).__name__}: {error}"


def _tables(db: apsw.Connection) -> Iterator[str]:
    yield from table_faults(db)
    for fault, query in _COUNTS.items():
        if count := db.execute(query).get:
            yield f"{fault} ({count} times)"


def _vectors(
    db: apsw.Connection, expected: Callable[[str], Sequence[float]] | None
) -> Iterator[str]:
    embedded = dict(db.execute(_TEXTS)) if expected else {}
    for text_hash, dimensions, blob in db.execute(_VECTORS):
        if len(blob) != dimensions * _NUMBER_BYTES:
            yield f"a vector of {len(blob)} bytes among those of {dimensions} dimensions"
            continue
        vector = struct.unpack(f"<{dimensions}f", blob)
        if not abs(math.hypot(*vector) - 1) <= LENGTH_TOLERANCE:
            yield f"a vector of length {math.hypot(*vector)}"
        elif (text := embedded.get(text_hash)) and not is_parallel(vector, expected(text)):
            yield f"the vector of another text at {text[:60]!r}"


def is_parallel(vector: Sequence[float], other: Sequence[float]) -> bool:
    product = sum(a * b for a, b in zip(vector, other, strict=True))
    return product >= (1 - COSINE_TOLERANCE) * math.hypot(*vector) * math.hypot(*other)


_SESSIONS: Final = "sessions/"
QUERIES: Final = 50
_MAX_SHOWN: Final = 3
_VOCABULARY: Final = "CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, chunk_terms, instance)"
_PLACE: Final = "JOIN chunks AS c ON c.id = v.doc JOIN files AS f ON f.id = c.file_id"
_CONTENT: Final = {
    "files": "SELECT path, source, content_hash, pipeline, note_date, chunk_count FROM files",
    "chunks": "SELECT f.path, c.start, start_line, end_line, identity, text, words"
    " FROM chunks AS c JOIN files AS f ON f.id = c.file_id",
    "excerpts": 'SELECT f.path, c.start, x.start, x."end", x.line, x.text_hash'
    " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
    " JOIN files AS f ON f.id = x.file_id AND f.id = c.file_id",
    "terms": f"SELECT f.path, c.start, v.term, v.col, v.offset FROM temp.v AS v {_PLACE}",
    "languages": "SELECT f.path, l.language FROM file_languages AS l JOIN files AS f ON f.id = l.file_id",
    "facts": "SELECT f.path, n.title, n.aliases, n.tags, n.encoding"
    " FROM note_facts AS n JOIN files AS f ON f.id = n.file_id",
}


class Oracle:
    """Checks an index against its files. `settings` are those of the agent."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def faults(
        self, index: Path, *, expected: Callable[[str], Sequence[float]] | None = None
    ) -> list[str]:
        """Returns everything that is wrong with an index after a complete sync.

        `expected` gives the vector that belongs to a text, in any length.
        """
        with tempfile.TemporaryDirectory(prefix="fresh-index-") as directory, copied(index) as copy:
            fresh = Path(directory) / "fresh.sqlite"
            await self.make_fresh(fresh)
            return compare(copy, fresh, expected=expected) or list(self._other_answers(copy, fresh))

    async def make_fresh(self, index: Path) -> None:
        async with open_builtin(keyword_settings(self._settings, index)) as backend:
            await backend.sync(SyncRequest())

    def _other_answers(self, index: Path, fresh: Path) -> Iterator[str]:
        """Yields the first query that two indexes of the same content answer differently."""
        with closing(connect_reader(fresh)) as connection:
            languages = SqliteView(connection).keywords.corpus().languages
        queries = make_queries(_words(fresh), languages)
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
                        SqliteView(connection),
                        SearchRequest(query=query, max_results=30, min_score=0.0),
                    ).hits
                ]
                for query in queries
            ]


def keyword_settings(settings: Settings, index: Path) -> Settings:
    """Returns the settings of the same agent with another index file and without embeddings."""
    store = StoreSettings(path=index)
    search = replace(settings.search, provider="none", store=store, sync=SyncSettings())
    return replace(settings, search=search, backend="builtin")


def _words(index: Path) -> list[tuple[str, int]]:
    with closing(apsw.Connection(str(index))) as db:
        db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, chunk_terms, row)")
        return list(db.execute("SELECT term, doc FROM temp.v"))


@cache
def _analysing(languages: tuple[str, ...]) -> Callable[[str], Query]:
    """Returns a function that analyses words; run after run, most are the same."""
    return lru_cache(10_000)(QueryAnalyser(languages).analyse)


def make_queries(counts: Iterable[tuple[str, int]], languages: Iterable[str]) -> list[str]:
    """Returns fifty queries of one to four words, from the rarest to the most frequent, always the same.

    `counts` has each word with the number of its chunks, `languages` those of the index. Words whose chunks are not all
    scored are left out, since only the newest rows are scored, and every index has its own order of rows. So are words
    that have such a part (`0006md`), or such a stem in one of the languages.
    """
    known = dict(counts)
    analyse = _analysing(tuple(languages))

    def is_rare(word: str) -> bool:
        concepts = analyse(word).concepts
        terms = (word, *(term for concept in concepts for term in concept.alternatives))
        return len(concepts) == 1 and all(known.get(term, 0) <= MIN_SCORED for term in terms)

    words = [word for _, word in sorted((n, word) for word, n in known.items() if is_rare(word))]
    if not words:
        return []
    step = max(1, len(words) // QUERIES)
    return [
        " ".join(
            words[(number * step + part * 7 * step) % len(words)] for part in range(1 + number % 4)
        )
        for number in range(QUERIES)
    ]


def compare(
    index: Path,
    fresh: Path,
    *,
    grown: bool = False,
    expected: Callable[[str], Sequence[float]] | None = None,
) -> list[str]:
    """Returns what is wrong with an index, compared with a fresh one of the same files.

    Turns that are indexed at different times never share a chunk. If transcripts have `grown` while the gateway
    ran, their text has to be the same, not their chunks.
    """
    with copied(index) as copy:
        return list(integrity_faults(copy, expected=expected)) or list(
            _differences(copy, fresh, grown=grown)
        )


def _differences(index: Path, fresh: Path, *, grown: bool) -> Iterator[str]:
    ours, theirs = _content(index), _content(fresh)
    for name in _CONTENT:
        here, there = (Counter(_notes(one[name]) if grown else one[name]) for one in (ours, theirs))
        if here != there:
            missing, surplus = there - here, here - there
            shown = [list(rows)[:_MAX_SHOWN] for rows in (missing, surplus)]
            yield f"{name} differ, missing: {shown[0]}, surplus: {shown[1]}"
            return
    if grown and dict(_transcripts(ours["chunks"])) != dict(_transcripts(theirs["chunks"])):
        yield "the text of transcripts differs from that of a fresh index"


def _content(index: Path) -> dict[str, list[Any]]:
    with closing(apsw.Connection(str(index))) as db:
        db.execute(_VOCABULARY)
        return {name: sorted(db.execute(query)) for name, query in _CONTENT.items()}


def _notes(rows: list[Any]) -> list[Any]:
    return [row for row in rows if not row[0].startswith(_SESSIONS)]


def _transcripts(chunks: list[Any]) -> Iterator[tuple[str, str]]:
    """Yields the path of each transcript and the text of its chunks together."""
    of_sessions = [row for row in chunks if row[0].startswith(_SESSIONS)]
    for path, rows in groupby(of_sessions, key=lambda row: row[0]):
        whole = ""
        for row in rows:
            start, text = row[1], row[5]
            whole = whole[:start].ljust(start) + text
        yield str(path), whole


def read_settings(config: Path, workspace: Path, state_dir: Path) -> Settings:
    """Returns the settings of a gateway with these arguments."""
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
    found = anyio.run(Oracle(settings).faults, settings.search.store.path)
    print("\n".join(fault[:2000] for fault in found) or "The index equals a fresh one.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
