"""A disk that hangs while it is listed blocks nobody for long."""

from __future__ import annotations

import os
import threading
import time

import anyio
import pytest
from anyio import to_thread

from backends.builtin.store.sqlite.connections import PATIENCE_S
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing import freshness
from backends.builtin.syncing.freshness import SURVEY_PATIENCE_S, Freshness
from backends.builtin.syncing.indexing import Indexer
from backends.builtin.syncing.preparing import Preparer
from backends.builtin.syncing.surveying import Surveyor
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from backends.interface import IndexUnavailableError, SyncRequest
from fakes.freshness import stale_of
from fakes.indexing import indexer_of

pytestmark = pytest.mark.anyio


async def test_a_search_finds_what_was_changed_appended_or_replaced(home, paths_of):
    note = home.write("memory/a.md", "first\n")
    async with home.open() as backend:
        assert await paths_of(backend, "first") == ["memory/a.md"]
        note.write_text("secnd\n", encoding="utf-8")  # as many bytes
        assert await paths_of(backend, "secnd") == ["memory/a.md"]
        assert await paths_of(backend, "first") == []
        with note.open("a", encoding="utf-8") as file:
            file.write("third\n")
        assert await paths_of(backend, "third") == ["memory/a.md"]
        other = home.write("memory/b.tmp", "fourth\n")
        other.rename(note)
        assert await paths_of(backend, "fourth") == ["memory/a.md"]
        stamps = note.stat()
        note.write_text("fifth!\n", encoding="utf-8")
        os.utime(note, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
        assert await paths_of(backend, "fifth") == ["memory/a.md"]


async def test_rapid_changes_with_one_stamp_end_in_the_last_content(home, paths_of):
    note = home.workspace / "memory/a.md"
    home.write("memory/a.md", "word-000\n")
    async with home.open() as backend:
        for number in range(200):
            note.write_text(f"word-{number:03}\n", encoding="utf-8")
            if number % 20 == 19:
                assert await paths_of(backend, f"word-{number:03}", max_results=1) == [
                    "memory/a.md"
                ]


class HangingDisk(Surveyor):
    """A disk that does not answer until it is released, as a network mount may."""

    released = threading.Event()

    def scan(self):
        self.released.wait(PATIENCE_S * 20)
        return super().scan()


@pytest.fixture
def hanging(home, monkeypatch):
    monkeypatch.setattr(freshness, "SURVEY_PATIENCE_S", SURVEY_PATIENCE_S)
    HangingDisk.released.clear()
    database = SqliteStore(home.index)
    roots = MemoryRoots(home.workspace)
    yield Freshness(indexer_of(database, roots, Preparer(ChunkLimits()), surveyor=HangingDisk))
    HangingDisk.released.set()
    database.close()


class HangingRead(Indexer):
    """A disk that lists its files at once, and whose file contents have to be waited for."""

    released = threading.Event()

    def apply(self, task, **options):
        self.released.wait(PATIENCE_S * 20)
        return super().apply(task, **options)


async def test_what_a_search_left_behind_is_told_when_it_is_written(home, monkeypatch):
    monkeypatch.setattr(freshness, "SLICE_PATIENCE_S", 0.05)
    HangingRead.released.clear()
    database, written = SqliteStore(home.index), []
    roots = MemoryRoots(home.workspace)
    indexer = indexer_of(database, roots, Preparer(ChunkLimits()), indexer=HangingRead)
    fresh = Freshness(indexer, on_written=lambda: written.append("chunks"))
    home.write("memory/a.md", "one\n")
    stale = await fresh.sweep(0.05)
    assert stale is not None and "did not answer" in stale.reason
    assert written == []
    HangingRead.released.set()
    with anyio.fail_after(PATIENCE_S * 20):
        while await fresh.sweep(1.0) is not None:
            await anyio.sleep(0.01)
    assert written == ["chunks"]
    database.close()


class SlowGroup(Indexer):
    """An indexer whose groups of files take until they are released."""

    begun, released = threading.Event(), threading.Event()

    def apply_together(self, group, **options):
        self.begun.set()
        self.released.wait(PATIENCE_S * 20)
        return super().apply_together(group, **options)


async def test_a_sync_waits_for_the_file_that_a_cancelled_one_left_behind(home, monkeypatch):
    monkeypatch.setattr(freshness, "SLICE_PATIENCE_S", 0.01)
    database = SqliteStore(home.index)
    roots = MemoryRoots(home.workspace)
    fresh = Freshness(indexer_of(database, roots, Preparer(ChunkLimits()), indexer=SlowGroup))
    home.write("memory/a.md", "one\n")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fresh.sync, SyncRequest(), None)
        await to_thread.run_sync(SlowGroup.begun.wait, PATIENCE_S * 20)
        tasks.cancel_scope.cancel()
    release = threading.Timer(0.2, SlowGroup.released.set)
    release.start()
    report = await fresh.sync(SyncRequest(), None)
    assert report.error is None
    assert SlowGroup.released.is_set()
    release.join()
    database.close()


async def test_a_note_whose_indexing_goes_on_slowly_is_waited_for(home, monkeypatch):
    monkeypatch.setattr(freshness, "FILE_PATIENCE_S", 1.0)
    database, pauses = SqliteStore(home.index), iter([0.25] * 8)
    preparer = Preparer(ChunkLimits(), give_way=lambda: time.sleep(next(pauses, 0)))
    fresh = Freshness(indexer_of(database, MemoryRoots(home.workspace), preparer))
    home.write("memory/a.md", "- the valve\n" * 5_000)
    assert (await fresh.sync(SyncRequest(), None)).error is None
    assert next(pauses, None) is None
    database.close()


@pytest.mark.promises_seconds
async def test_a_search_waits_for_a_hanging_disk_only_so_long_and_says_so(hanging):
    started = time.monotonic()
    stale = await hanging.sweep(0.1)
    assert stale is not None and "did not answer" in stale.reason
    assert time.monotonic() - started < SURVEY_PATIENCE_S[0] + 1


async def test_a_search_whose_look_does_not_end_during_the_first_sync_blames_no_disk(
    hanging, monkeypatch
):
    monkeypatch.setattr(freshness, "SURVEY_PATIENCE_S", (0.05, 0.05))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hanging.sync, SyncRequest(), None)
        await anyio.wait_all_tasks_blocked()
        stale = await hanging.sweep(0.05)
        assert stale == hanging.unsynced()
        assert stale is not None and "first sync" in stale.reason
        HangingDisk.released.set()
    HangingDisk.released.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hanging.sync, SyncRequest(), None)
        await anyio.wait_all_tasks_blocked()
        later = await hanging.sweep(0.05)
        assert later is not None and "holds very many files" in later.reason
        HangingDisk.released.set()


async def test_further_searches_leave_a_disk_that_hangs_alone_until_it_answers(hanging):
    await hanging.sweep(0.1)
    threads = threading.active_count()
    for _ in range(5):
        assert await hanging.sweep(0.01) is not None
    assert threading.active_count() <= threads
    HangingDisk.released.set()
    with anyio.fail_after(PATIENCE_S * 20):
        while await hanging.sweep(0.1) is not None:
            await anyio.sleep(0.01)


async def test_a_sync_of_a_hanging_disk_can_be_given_up(hanging):
    with anyio.fail_after(PATIENCE_S * 20), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hanging.sync, SyncRequest(), None)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


async def test_a_sync_of_a_hanging_disk_ends_with_an_error(hanging, monkeypatch):
    monkeypatch.setattr("backends.builtin.syncing.freshness.LISTING_PATIENCE_S", 0.05)
    with pytest.raises(IndexUnavailableError, match="could not be listed"):
        await hanging.sync(SyncRequest(), None)


async def test_a_change_is_indexed_even_when_listing_the_disk_took_the_whole_budget(
    home, budget, paths_of
):
    home.configure(**budget(5))
    for number in range(3000):
        home.write(f"memory/{number}.md", "x\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        with anyio.fail_after(PATIENCE_S * 10):
            while await stale_of(backend) is not None:  # until no file is doubtful any more
                await anyio.sleep(0.05)
        home.write("memory/new.md", "boiler\n")
        assert await paths_of(backend, "boiler") == ["memory/new.md"]
