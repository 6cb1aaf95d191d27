"""A host with batch jobs, a backlog large enough for them, and what became of it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import apsw
import msgspec
import pytest
from anyio.to_thread import run_sync
from msgspec.structs import replace

from backends.builtin.backend import BuiltinBackend
from backends.builtin.embedding import backfill
from backends.builtin.embedding.backfill import LEARNED_KEY
from backends.builtin.embedding.batch_jobs import KEPT_BACK, THRESHOLD, job_reports
from backends.builtin.embedding.batch_jobs import REMEMBERED as OF_BATCH_JOBS
from backends.builtin.store.opening import host_name
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.store.sqlite.store import SqliteView
from backends.interface import JobReport
from config.settings import BatchSettings, StoreSettings
from fakes.batches import SMALL, FakeBatches
from fakes.vendors import FakeVendor

MODELS = {
    "openai": ("text-embedding-3-small", "text-embedding-3-large"),
    "gemini": ("gemini-embedding-001", "gemini-embedding-exp"),
    "voyage": ("voyage-4-large", "voyage-4"),
}
"""The default one comes first."""
COUNT = (THRESHOLD + KEPT_BACK + 50) // 5
"""Enough for a second job after a first one that gave nothing."""
PATIENCE_S = 120
_PAUSE_S = 0.03
QUICK = BatchSettings(poll_interval_ms=10)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests marked `every_vendor`, those of a vendor's own requests and answers, once for each vendor."""
    if metafunc.definition.get_closest_marker("every_vendor") is not None:
        metafunc.parametrize("vendor", list(MODELS), indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps one vendor for PostgreSQL: the differences between vendors do not reach the store."""
    items[:] = [one for one in items if not _is_once_more(getattr(one, "callspec", None))]


def _is_once_more(call: Any) -> bool:
    return (
        call is not None
        and call.params.get("keeping") == "postgres"
        and call.params.get("vendor", "openai") != "openai"
    )


@pytest.fixture
def patience_s() -> float:
    """The bound of every wait, including those in fixtures that all tests of this backend share."""
    return PATIENCE_S


@pytest.fixture
def pause_s() -> float:
    """The seconds between two reads of a status, each of which compares hundreds of files with the index."""
    return _PAUSE_S


@pytest.fixture
def real_size() -> None:
    """Leaves the sizes of a large backlog as they are in production."""


@pytest.fixture(autouse=True)
def hasty(request, monkeypatch) -> None:
    """Shortens the quiet time before jobs, and reduces the size of a large backlog."""
    monkeypatch.setattr(backfill, "QUIET_BEFORE_JOBS_S", 0.2)
    if "real_size" not in request.fixturenames:
        for name, value in SMALL.items():
            monkeypatch.setattr(name, value)


@pytest.fixture
def vendor(request) -> Iterator[FakeVendor]:
    """A loopback host that speaks one vendor's wire format and knows two models."""
    name = getattr(request, "param", "openai")
    with FakeVendor(name, models=MODELS[name]) as host:
        yield host


@pytest.fixture
def batches(vendor) -> Iterator[FakeBatches]:
    return vendor.with_batches()


@pytest.fixture
def batch_with(embedding_home) -> Callable[..., None]:
    """Configures `remote.batch`."""

    def configure(**fields: Any) -> None:
        search = embedding_home.settings.search
        remote = replace(search.remote, batch=replace(QUICK, **fields))
        settings = replace(embedding_home.settings, search=replace(search, remote=remote))
        embedding_home.settings = settings

    return configure


class KeptNotes:
    """The notes of the backlog and their index, made once and lent to one test after another.

    The directory is moved, never copied: the index knows a file by its inode and its times. In PostgreSQL the index is
    a tenant, which every test leaves as it was.
    """

    def __init__(self, directory: Path) -> None:
        self._notes, self._index = directory / "memory", directory / "index"
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._store: StoreSettings | None = None

    def lend(self, home: Any) -> bool:
        """False when there are none, or a test has changed them."""
        if not self._notes.exists():
            return False
        self._notes.rename(home.workspace / "memory")
        if self._store is not None:
            home.store = self._store
            search = replace(home.settings.search, store=self._store)
            home.settings = replace(home.settings, search=search)
        else:
            shutil.copyfile(self._index, home.index)
        return True

    def remember(self, home: Any) -> None:
        """Called when all of the backlog is indexed and nobody has the index open."""
        if home.store.driver == "postgres":
            self._store = home.store
        else:
            shutil.copyfile(home.index, self._index)
        self._stamps = _stamps(home.workspace / "memory")

    def take_back(self, home: Any) -> None:
        notes = home.workspace / "memory"
        stamps = _stamps(notes)
        new = stamps.keys() - self._stamps.keys()
        for name in new:
            (notes / name).unlink()
            del stamps[name]
        if stamps != self._stamps:
            return
        if self._store is not None:
            forget_embeddings(self._store, new)
        notes.rename(self._notes)


def forget_embeddings(settings: StoreSettings, new: Iterable[str]) -> None:
    """Makes the index as if nothing was ever embedded and there were no `new` notes."""
    here = host_name()
    with (
        closing(PostgresStore(settings, "main", viewpoint=here)) as store,
        store.writer() as writer,
    ):
        for name in new:
            writer.files.remove("memory", f"memory/{name}")
        for table in (
            "batch_items",
            "batch_jobs",
            "embedding_failures",
            "embeddings",
            "fingerprints",
        ):
            writer._transaction.write(f"DELETE FROM {table} WHERE agent_id = %(agent)s")
        for key in (LEARNED_KEY, *OF_BATCH_JOBS):
            row = {"key": key}
            writer._transaction.write(
                "DELETE FROM meta WHERE agent_id = %(agent)s AND key = %(key)s", row
            )


def _stamps(directory: Path) -> dict[str, tuple[int, ...]]:
    found = {one.name: one.stat() for one in directory.iterdir()}
    return {
        name: (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
        for name, one in found.items()
    }


@pytest.fixture(scope="session")
def all_kept_notes(tmp_path_factory) -> dict[str, KeptNotes]:
    return {
        driver: KeptNotes(tmp_path_factory.mktemp("backlog")) for driver in ("sqlite", "postgres")
    }


@pytest.fixture
def kept_notes(all_kept_notes, home) -> KeptNotes:
    return all_kept_notes[home.store.driver]


@pytest.fixture
async def backlog(embedding_home, batch_with, indexed_alone, kept_notes) -> AsyncIterator[int]:
    """The number of different texts in all notes, which are indexed but have no vectors.

    They are indexed before anything is embedded, so that no job depends on the length of a sync.
    """
    batch_with()
    if not kept_notes.lend(embedding_home):
        for number in range(COUNT):
            embedding_home.write(f"memory/{number:04}.md", f"The boiler number {number}.\n")
        await indexed_alone(embedding_home)
        kept_notes.remember(embedding_home)
    yield COUNT
    kept_notes.take_back(embedding_home)


@pytest.fixture
def in_jobs(backlog) -> int:
    """The number of texts that go into jobs."""
    return backlog - KEPT_BACK // 5


@pytest.fixture
def batch_report() -> Callable[..., Any]:
    async def read(backend: BuiltinBackend) -> dict[str, Any]:
        report = (await backend.status()).details.vector.batch
        return msgspec.to_builtins(report) if report else {"jobs": ()}  # as on the wire

    return read


@pytest.fixture
def job_in(embedding_home) -> Callable[..., Any]:
    """Waits until the newest job is in one of these states; returns what `batch list` says of it.

    It does not list them by hand: that is for another process, since closing a file takes the locks of
    this one away.
    """

    async def wait(_backend: BuiltinBackend, *states: str) -> dict[str, Any]:
        with anyio.fail_after(PATIENCE_S):
            while True:
                jobs = await run_sync(_read_jobs, embedding_home)
                if jobs and (jobs[0].state in states or _bare(jobs[0].remote_state) in states):
                    job: dict[str, Any] = msgspec.to_builtins(jobs[0])
                    return job
                await anyio.sleep(_PAUSE_S)

    return wait


def _read_jobs(home) -> tuple[JobReport, ...]:
    if home.store.driver == "postgres":
        with (
            closing(PostgresStore(home.store, "main", viewpoint="")) as store,
            store.view() as view,
        ):
            return job_reports(view)
    with closing(apsw.Connection(str(home.index))) as connection:
        connection.set_busy_timeout(PATIENCE_S * 1000)
        return job_reports(SqliteView(connection))


def _bare(remote_state: str | None) -> str:
    """The vendor's state in the same spelling for all vendors: `in_progress`."""
    word = (remote_state or "").rpartition("_STATE_")[2].lower()
    return {"running": "in_progress"}.get(word, word)
