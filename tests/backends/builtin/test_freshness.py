"""A search sees what was written before it, and reports what it could not look at in time."""

from __future__ import annotations

import os
import threading
from typing import Any

import anyio
import apsw
import pytest

from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing.freshness import Freshness, Task
from backends.builtin.syncing.indexing import Group, Indexer
from backends.builtin.syncing.planning import FileOutcome
from backends.builtin.syncing.preparing import Preparer
from backends.builtin.syncing.surveying import Survey, Surveyor
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from backends.interface import SearchRequest, SyncRequest
from config.settings import ChunkingSettings
from fakes.freshness import large_note, stale_of
from fakes.indexing import indexer_of

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


async def test_a_search_finds_what_was_written_just_before_it(home, paths_of):
    async with home.open() as backend:
        for number in range(20):
            home.write(f"memory/{number}.md", f"the unique{number} boiler\n")
            assert await paths_of(backend, f"unique{number}") == [f"memory/{number}.md"]
            assert await stale_of(backend) is None


async def test_a_deleted_file_is_not_found_any_more(home, paths_of):
    note = home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        assert await paths_of(backend, "boiler")
        note.unlink()
        assert await paths_of(backend, "boiler") == []


async def test_a_search_that_does_not_look_at_the_disk_says_when_it_never_was_level(
    home, quiet, paths_of
):
    home.write("memory/a.md", "boiler\n")
    home.configure(**quiet)
    async with home.open() as backend:
        assert await paths_of(backend, "boiler") == []
        stale = await stale_of(backend)
        assert stale is not None and "has not ended" in stale.reason
        await backend.sync(SyncRequest())
        assert await stale_of(backend) is None
        home.write("memory/b.md", "pump\n")
        assert await paths_of(backend, "boiler") == ["memory/a.md"]
        assert await paths_of(backend, "pump") == []


async def test_without_any_budget_everything_that_differs_is_named_as_stale(home, budget):
    home.configure(**budget(0))
    gone = home.write("memory/gone.md", "gone\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        gone.unlink()
        for number in range(7):
            home.write(f"memory/{number}.md", "boiler\n")
        stale = await stale_of(backend)
        assert stale is not None
        assert (stale.files, stale.reason) == (8, "more changed than one search may index")
        await backend.sync(SyncRequest())


async def test_what_does_not_fit_into_the_budget_is_counted_and_left_to_the_next_sync(
    home, budget, paths_of
):
    home.configure(**budget(40))
    for number in range(60):
        home.write(f"memory/{number}.md", large_note(f"boiler{number}", 40))
    async with home.open() as backend:
        answer = await backend.search(SearchRequest(query="boiler"))
        indexed = (await backend.status()).sources[0].indexed
        assert answer.stale is not None
        assert 0 < answer.stale.files == 60 - indexed < 60
        await backend.sync(SyncRequest())
        assert await stale_of(backend) is None
        assert len(await paths_of(backend, "boiler0 boiler59")) == 2


async def test_a_file_too_large_for_the_budget_does_not_hold_a_search_up(home, budget, paths_of):
    home.configure(**budget(50))
    home.write("memory/large.md", large_note("pump", 400))
    home.write("memory/small.md", "boiler\n")
    async with home.open() as backend:
        assert await paths_of(backend, "boiler") == ["memory/small.md"]
        stale = await stale_of(backend)
        assert stale is not None and stale.files == 1
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "pump") == ["memory/large.md"]


async def test_the_newest_notes_come_first_when_the_budget_is_short(home, budget, paths_of):
    home.configure(**budget(30))
    for number in range(40):
        note = home.write(f"memory/{number:02}.md", large_note(f"boiler{number:02}", 50))
        os.utime(note, ns=(10**18 + number, 10**18 + number))
    async with home.open() as backend:
        answer = await backend.search(SearchRequest(query="boiler39 boiler00", min_score=0))
        assert answer.stale is not None
        assert [hit.path for hit in answer.hits][:1] == ["memory/39.md"]


class CountedSurveyor(Surveyor):
    """A surveyor that counts its looks at the disk."""

    looks = 0

    def survey(self, **options: Any) -> Survey:
        self.looks += 1
        return super().survey(**options)


async def test_many_searches_at_once_share_few_looks_at_the_disk(home):
    for number in range(300):
        home.write(f"memory/{number}.md", f"boiler {number}\n")
    database = SqliteStore(home.index)
    indexer = indexer_of(
        database,
        MemoryRoots(home.workspace),
        Preparer(ChunkLimits()),
        surveyor=CountedSurveyor,
    )
    freshness = Freshness(indexer)
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(freshness.sweep, 10.0)
    assert indexer.surveyor.looks <= 2
    assert await freshness.sweep(10.0) is None
    assert indexer.surveyor.looks <= 3
    database.close()


async def test_every_search_sees_what_was_written_before_it_began(home, paths_of):
    async with home.open() as backend:

        async def write_and_search(number: int) -> None:
            await anyio.sleep(number % 7 / 500)
            home.write(f"memory/{number}.md", f"the unique{number} boiler\n")
            assert await paths_of(backend, f"unique{number}") == [f"memory/{number}.md"]

        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(write_and_search, number)


@pytest.mark.parametrize("on_search", [True, False])
async def test_a_file_that_is_gone_is_never_returned_whatever_the_index_holds(
    home, budget, quiet, hits_of, on_search
):
    home.configure(**(budget(0) if on_search else quiet))
    gone = home.write("memory/gone.md", "boiler\n")
    home.write("memory/there.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        gone.unlink()
        assert [hit.path for hit in await hits_of(backend, "boiler")] == ["memory/there.md"]


async def test_other_chunks_are_left_to_a_sync_and_no_search_waits_for_them(home, paths_of):
    for number in range(5):
        home.write(f"memory/{number}.md", large_note(f"boiler{number}", 8))

    await home.synced()
    home.configure(chunking=ChunkingSettings(tokens=150, overlap=0))
    async with home.open() as backend:
        before = (await backend.status()).sources[0].chunks
        stale = await stale_of(backend)
        assert stale is not None and stale.files == 5 and "other settings" in stale.reason
        home.write("memory/new.md", "pump\n")
        assert await paths_of(backend, "pump") == ["memory/new.md"]
        assert (await backend.status()).sources[0].chunks == before + 1
        await backend.sync(SyncRequest())
        assert await stale_of(backend) is None
        assert (await backend.status()).sources[0].chunks > before + 5


class HaltedIndexer(Indexer):
    """An indexer whose syncs wait before their first file; it records what searches index for themselves."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.is_reached, self.may_go_on = threading.Event(), threading.Event()
        self.applied: list[str] = []

    def apply_together(self, group: Group, **options: Any) -> list[FileOutcome]:
        self.is_reached.set()
        assert self.may_go_on.wait(60)
        return super().apply_together(group, **options)

    def apply(self, task: Task, **options: Any) -> FileOutcome:
        self.applied.append(task.path)
        return super().apply(task, **options)


def halted(home):
    """Forty notes, and a sync that waits before it indexes any of them."""
    for number in range(40):
        home.write(f"memory/{number}.md", large_note(f"boiler{number}", 20))
    database = SqliteStore(home.index)
    preparer = Preparer(ChunkLimits())
    indexer = indexer_of(database, MemoryRoots(home.workspace), preparer, indexer=HaltedIndexer)
    freshness = Freshness(indexer)
    return database, indexer, freshness


async def test_what_a_search_left_to_a_sync_at_work_holds_no_later_one_up(home):
    database, indexer, freshness = halted(home)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(freshness.sync, SyncRequest(), None)
        await anyio.to_thread.run_sync(indexer.is_reached.wait, 60)
        first = await freshness.sweep(0.05)
        assert first is not None and 0 < first.files == 40 - len(indexer.applied)
        read_again = set(indexer.applied)  # they were just written, so their stamps may deceive
        assert read_again
        indexer.applied.clear()
        home.write("memory/new.md", "pump\n")
        second = await freshness.sweep(20.0)
        assert set(indexer.applied) - read_again == {"memory/new.md"}
        assert second is not None and second.files == first.files
        assert second.reason == "a sync is indexing them"
        indexer.may_go_on.set()
    assert await freshness.sweep(0.0) is None
    database.close()


async def test_a_search_that_looked_while_a_sync_worked_and_answers_after_it_is_not_stale(
    home, monkeypatch
):
    database, indexer, freshness = halted(home)
    survey, ended = indexer.surveyor.survey, threading.Event()

    def slow(**how: Any) -> Survey:
        found = survey(**how)
        if how.get("last") is not None:
            indexer.may_go_on.set()
            assert ended.wait(60)
        return found

    monkeypatch.setattr("backends.builtin.syncing.freshness.SURVEY_PATIENCE_S", (60.0, 60.0))
    async with anyio.create_task_group() as tasks:

        async def sync() -> None:
            await freshness.sync(SyncRequest(), None)
            ended.set()

        tasks.start_soon(sync)
        await anyio.to_thread.run_sync(indexer.is_reached.wait, 60)
        with anyio.fail_after(60):
            while freshness._at_work is None or freshness._at_work.survey is None:
                await freshness.sweep(0.05)
        monkeypatch.setattr(indexer.surveyor, "survey", slow)
        assert await freshness.sweep(0.001) is None  # time for one file
    database.close()


async def test_searches_beside_a_sync_that_has_all_to_do_compare_once(home):
    database, indexer, freshness = halted(home)
    statements: list[str] = []

    async def stale() -> int:
        statements.clear()
        with database.reading() as connection:
            connection.trace_v2(
                apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"])
            )
        found = await freshness.sweep(0.0)
        return 0 if found is None else found.files

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(freshness.sync, SyncRequest(), None)
        await anyio.to_thread.run_sync(indexer.is_reached.wait, 60)
        assert await stale() == 40
        assert any("FROM stamps" in one for one in statements)
        assert await stale() == 40
        assert not any("FROM stamps" in one for one in statements)
        home.write("memory/new.md", "pump\n")
        assert await stale() == 41
        assert any("FROM stamps" in one for one in statements)
        indexer.may_go_on.set()
    assert await stale() == 1
    database.close()
