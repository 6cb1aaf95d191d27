"""A real workspace with a real index, and an independent look into that index."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    asynccontextmanager,
    closing,
    contextmanager,
)
from pathlib import Path
from typing import Any

import anyio
import apsw
import msgspec
import pytest
from msgspec.structs import replace

from backends.builtin.backend import BuiltinBackend, open_builtin
from backends.builtin.store.port import long_words
from backends.builtin.store.postgres.store import PostgresStore
from backends.interface import Hit, SearchRequest, SyncReport, SyncRequest
from config.settings import QuerySettings, StoreSettings, SyncSettings
from fakes.patience import be_patient
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def patient_searches(monkeypatch) -> None:
    be_patient(monkeypatch)


_OF_FILES = {"a_minute_later", "content", "index_file", "look", "spoil", "vectors_in"}
"""Fixtures for tests of an index file: where one is used, there is no other store."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    used = set(metafunc.fixturenames)
    is_asked = metafunc.definition.get_closest_marker("every_store") is not None
    if is_asked and "keeping" in used and not used & _OF_FILES:
        more = ["pooled"] if metafunc.definition.get_closest_marker("and_pooled") else []
        stores = ["sqlite", "postgres", *more]
        metafunc.parametrize("keeping", stores, indirect=True, scope="module")


Keeping = Callable[[Path], StoreSettings]


@pytest.fixture(scope="module")
def keeping(request: pytest.FixtureRequest) -> Keeping:
    """The settings of a new index: a file and, for modules marked `every_store`, PostgreSQL too.

    Modules marked `and_pooled` run once more through pgbouncer. Tests of SQLite's file run with it alone: its
    identity, moves, damage, scrubbing, upkeep and locks, the engines that search vectors in this process, network
    mounts, and processes that are killed (the fault matrix does that over PostgreSQL).
    """
    kind = getattr(request, "param", "sqlite")
    if kind == "sqlite":
        return lambda path: StoreSettings(path=path)
    server = request.getfixturevalue("pooled_server" if kind == "pooled" else "postgres_server")
    return lambda path: server.settings(path=path)


class Home:
    """One agent: its workspace, its settings, its index."""

    def __init__(
        self, root: Path, keeping: Keeping = lambda path: StoreSettings(path=path)
    ) -> None:
        self.root = root
        self.store = keeping(root / "main.sqlite")
        self.workspace = root / "workspace"
        self.workspace.mkdir(parents=True)
        self.configure()
        self.index = self.settings.search.store.path

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def configure(self, **search: Any) -> None:
        """Sets other `MemorySearchSettings` than the defaults; no embeddings unless requested.

        Searches wait long, so that a busy machine does not decide what they find.
        """
        ours = {"provider": "none", "sync": SyncSettings(search_budget_ms=20_000)}
        settings = make_settings(self.root, search=ours | search)
        self.settings = replace(settings, search=replace(settings.search, store=self.store))

    def embed_with(self, host: FakeVendor, **search: Any) -> None:
        """Configures a host that embeds, with its own key. Queries wait long, too."""
        ours = {
            "provider": host.vendor,
            "remote": remote(host.base_url, host.key),
            "query": QuerySettings(embedding_timeout_ms=60_000),
        }
        self.configure(**ours | search)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[BuiltinBackend]:
        async with open_builtin(self.settings) as backend:
            yield backend

    async def synced(self) -> SyncReport:
        """Brings the index up to date and closes it."""
        async with self.open() as backend:
            return await backend.sync(SyncRequest())


@pytest.fixture
def home(tmp_path: Path, keeping: Keeping) -> Home:
    return Home(tmp_path / "home", keeping)


@pytest.fixture
def index_file(home: Home) -> Path:
    return home.index


@pytest.fixture(scope="module")
def lasting_home(
    tmp_path_factory: pytest.TempPathFactory, keeping: Keeping
) -> Callable[[str], Home]:
    """Makes agents that stay unchanged for all tests of a module."""
    return lambda name: Home(tmp_path_factory.mktemp(name) / "home", keeping)


@pytest.fixture
def new_home(tmp_path: Path, keeping: Keeping) -> Callable[[str], Home]:
    return lambda name: Home(tmp_path / name, keeping)


@pytest.fixture
def quiet() -> dict[str, SyncSettings]:
    """Settings of an agent whose searches do not look at the disk."""
    return {"sync": SyncSettings(on_search=False)}


@pytest.fixture
def budget() -> Callable[[int], dict[str, SyncSettings]]:
    """Settings of an agent whose searches may index for so many milliseconds."""
    return lambda ms: {"sync": SyncSettings(search_budget_ms=ms)}


@pytest.fixture
def query_settings() -> Callable[..., dict[str, QuerySettings]]:
    return lambda **fields: {"query": QuerySettings(**fields)}


@pytest.fixture
def hits_of() -> Callable[..., Any]:
    """The hits of a query, down to the least score."""

    async def search(backend: BuiltinBackend, query: str, **fields: Any) -> tuple[Hit, ...]:
        fields = {"max_results": 100, "min_score": 0.0} | fields
        return (await backend.search(SearchRequest(query=query, **fields))).hits

    return search


@pytest.fixture
def paths_of(hits_of) -> Callable[..., Any]:
    """The paths of the hits of a query, best first, each once."""

    async def search(backend: BuiltinBackend, query: str, **fields: Any) -> list[str]:
        return list(dict.fromkeys(hit.path for hit in await hits_of(backend, query, **fields)))

    return search


@pytest.fixture
def long_note() -> Callable[..., str]:
    """A note of several chunks, made of numbered parts."""

    def write(*parts: int) -> str:
        lines = ["# Note"]
        for part in parts:
            visits = [f"- The boiler of part {part} was serviced, visit {n}." for n in range(25)]
            lines += ["", f"## Part {part}", "", *visits]
        return "\n".join(lines) + "\n"

    return write


@pytest.fixture
def settled() -> Callable[..., Any]:
    """Syncs until nothing has to be read any more, as the clock of the files allows."""

    async def sync(backend: BuiltinBackend) -> None:
        with anyio.fail_after(PATIENCE_S):
            while (await backend.sync(SyncRequest())).bytes_read:
                await anyio.sleep(0.01)

    return sync


@contextmanager
def _looking(path: Path) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.set_busy_timeout(PATIENCE_S * 1000)
        yield connection


@pytest.fixture
def look() -> Callable[[Path], Any]:
    """A connection of our own to an index file."""
    return _looking


@pytest.fixture
def spoil() -> Callable[[Path], None]:
    """Destroys every page but the first of an index in use, and makes its users read them."""

    def destroy(path: Path) -> None:
        with _looking(path) as db:
            db.execute(
                "INSERT OR REPLACE INTO meta VALUES ('spoiled', 'yes')"
            )  # empties all caches
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(b"\xa5" * (size - 8192))

    return destroy


@pytest.fixture
def check(home: Home) -> Callable[[Path], None]:
    """Fails unless an index is sound and all of its tables agree with each other."""

    def check_index(path: Path) -> None:
        if home.store.driver == "postgres":
            settings = home.settings.search.store
            with closing(PostgresStore(settings, "main", viewpoint="")) as store:
                assert store.check().problems == ()
            return
        with _looking(path) as db:
            assert db.execute("PRAGMA integrity_check").get == "ok"
            assert db.execute("PRAGMA foreign_key_check").get is None
            db.execute("INSERT INTO chunk_terms (chunk_terms, rank) VALUES ('integrity-check', 1)")
            chunks = set(db.execute("SELECT id FROM chunks"))
            assert chunks == set(db.execute("SELECT id FROM chunk_terms_docsize"))
            db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, chunk_terms, row)")
            indexed = long_words(term for (term,) in db.execute("SELECT term FROM temp.v"))
            assert indexed == {
                word[::-1] for (word,) in db.execute("SELECT backwards FROM word_ends")
            }
            counted = "SELECT file_id, count(*) FROM chunks GROUP BY 1 ORDER BY 1"
            stored = "SELECT id, chunk_count FROM files WHERE chunk_count > 0 ORDER BY 1"
            assert list(db.execute(counted)) == list(db.execute(stored))

    return check_index


@pytest.fixture
def content() -> Callable[[Path], dict[str, list[Any]]]:
    """The whole content of an index file about the notes, without what depends on the order of events."""

    def read(path: Path) -> dict[str, list[Any]]:
        with _looking(path) as db:
            db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab (main, chunk_terms, instance)")
            place = "JOIN chunks AS c ON c.id = v.doc JOIN files AS f ON f.id = c.file_id"
            queries = {
                "files": "SELECT source, path, content_hash, pipeline, note_date, chunk_count FROM files",
                "chunks": "SELECT f.path, c.start, start_line, end_line, identity,"
                " text, words FROM chunks AS c JOIN files AS f ON f.id = c.file_id",
                "excerpts": 'SELECT f.path, c.start, x.start, x."end", x.line, x.text_hash'
                " FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
                " JOIN files AS f ON f.id = x.file_id AND f.id = c.file_id",
                "terms": f"SELECT f.path, c.start, v.term, v.col, v.offset FROM temp.v AS v {place}",
                "ends": "SELECT backwards FROM word_ends",
            }
            return {name: sorted(db.execute(query)) for name, query in queries.items()}

    return read


@pytest.fixture
def public_home() -> Iterator[Home]:
    """A home that any user may write to, unlike pytest's own temporary directories."""
    base = Path(tempfile.mkdtemp())
    home = Home(base / "home")
    for directory in (base, home.root, home.workspace):
        directory.chmod(0o777)
    yield home
    shutil.rmtree(base)


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    """A loopback host that speaks OpenAI's wire format and knows two models."""
    models = ("text-embedding-3-small", "text-embedding-3-large")
    with FakeVendor("openai", models=models) as host:
        yield host


@pytest.fixture
def embedding_home(home: Home, vendor: FakeVendor) -> Home:
    """An agent whose texts are embedded by `vendor`."""
    home.embed_with(vendor)
    return home


@pytest.fixture
def indexed_alone() -> Callable[..., Any]:
    """Brings an index up to date without embedding anything."""

    async def index(home: Any) -> None:
        settings = home.settings
        home.settings = replace(settings, search=replace(settings.search, provider="none"))
        await home.synced()
        home.settings = settings

    return index


@pytest.fixture
def a_minute_later(look) -> Callable[[Path], None]:
    """Moves the times since which an index file misses places a minute back; nobody has it open."""

    def pass_minute(index: Path) -> None:
        with look(index) as db:
            missed = json.loads(db.execute("SELECT value FROM meta WHERE key = 'missed'").get)
            earlier = json.dumps({place: since - 61 for place, since in missed.items()})
            db.execute("UPDATE meta SET value = ? WHERE key = 'missed'", (earlier,))

    return pass_minute


@pytest.fixture
def pause_s() -> float:
    """The seconds between two reads of a status, which cost more than the wait."""
    return 0.03


@pytest.fixture
def embedded(patience_s, pause_s) -> Callable[..., Any]:
    """Waits until every text has its vector or its refusal; returns the report of the backfill."""

    async def wait(backend: BuiltinBackend) -> dict[str, Any]:
        with anyio.fail_after(patience_s):
            while True:
                report = (await backend.status()).details.vector.backfill
                if report and not report.running and report.last_error is None:
                    coverage = report.coverage
                    if coverage.embedded + coverage.failed >= coverage.total:
                        return msgspec.to_builtins(report)  # as on the wire
                await anyio.sleep(pause_s)

    return wait


@pytest.fixture
def vectors_in(look) -> Callable[[Path], dict[str, int]]:
    """Returns the number of vectors of each model in an index file."""

    def count(path: Path) -> dict[str, int]:
        with look(path) as db:
            return dict(
                db.execute(
                    "SELECT description ->> 'model', (SELECT count(*) FROM embeddings AS e"
                    " WHERE e.fingerprint_id = f.id) FROM fingerprints AS f"
                )
            )

    return count
