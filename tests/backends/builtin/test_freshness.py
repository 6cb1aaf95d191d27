"""A search sees what was written before it; what it could not look at in time, it says."""

from __future__ import annotations

import os
import threading
import time

import anyio
import pytest

from backends.builtin.notes.preparing import Preparer
from backends.builtin.storage.connections import PATIENCE_S
from backends.builtin.storage.database import Database
from backends.builtin.syncing.freshness import SURVEY_PATIENCE_S, Freshness
from backends.builtin.syncing.indexing import Indexer
from backends.chunking import ChunkLimits
from backends.errors import IndexUnavailableError
from backends.files.roots import MemoryRoots
from backends.interface import SearchRequest, SyncRequest

pytestmark = pytest.mark.anyio


async def stale_of(backend, query="boiler"):
    return (await backend.search(SearchRequest(query=query))).stale


def large_note(words: str, kilobytes: int) -> str:
    return f"{words} {'filling words without meaning ' * 34}\n" * kilobytes


async def test_a_search_finds_what_was_written_just_before_it(home, paths_of):
    async with home.open() as backend:
        for number in range(20):
            home.write(f"memory/{number}.md", f"the unique{number} boiler\n")
            assert await paths_of(backend, f"unique{number}") == [f"memory/{number}.md"]
            assert await stale_of(backend) is None


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


async def test_many_searches_at_once_share_few_looks_at_the_disk(home):
    for number in range(300):
        home.write(f"memory/{number}.md", f"boiler {number}\n")
    database = Database(home.index)
    indexer = Indexer(database, MemoryRoots(home.workspace), Preparer(ChunkLimits()))
    freshness = Freshness(indexer)
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(freshness.sweep, 10.0)
    assert freshness._sweeps_started <= 2
    assert await freshness.sweep(10.0) is None
    assert freshness._sweeps_started <= 3
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


async def test_a_sync_that_is_asked_for_during_another_sees_what_came_since(home, paths_of, quiet):
    home.configure(**quiet)
    for number in range(60):
        home.write(f"memory/{number}.md", large_note("filling", 5))
    async with home.open() as backend:
        started = anyio.Event()

        async def first() -> None:
            await backend.sync(SyncRequest(), progress=lambda _state: started.set())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await started.wait()
            home.write("memory/late.md", "boiler\n")
            report = await backend.sync(SyncRequest(force=True))
            assert report.scanned == 61
            assert report.unchanged == 0
        assert await paths_of(backend, "boiler") == ["memory/late.md"]
        assert len((await backend.status()).recent_syncs) == 2


async def test_a_cancelled_sync_ends_at_a_file_and_the_next_one_does_the_rest(home, check):
    for number in range(200):
        home.write(f"memory/{number}.md", large_note(f"boiler{number}", 10))
    async with home.open() as backend:
        with anyio.CancelScope() as scope:
            await backend.sync(SyncRequest(), progress=lambda _state: scope.cancel())
        assert scope.cancelled_caught
        status = await backend.status()
        assert 0 < status.sources[0].indexed < 200
        assert status.dirty
        assert status.syncing is None
        (ended,) = status.recent_syncs
        assert not ended.complete
        assert ended.added == status.sources[0].indexed
        rest = await backend.sync(SyncRequest())
        assert rest.added == 200 - status.sources[0].indexed
        assert rest.complete
    check(home.index)


async def test_searches_are_answered_while_a_sync_runs(home, paths_of, budget):
    home.configure(**budget(100))
    home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        for number in range(150):
            home.write(f"memory/{number}.md", large_note("filling", 10))
        answered = []

        async def ask() -> None:
            while True:
                answered.append(await paths_of(backend, "boiler"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await backend.sync(SyncRequest())
            tasks.cancel_scope.cancel()
        assert len(answered) >= 2
        assert all(answer == ["memory/a.md"] for answer in answered)


async def test_a_failing_sync_is_remembered_with_its_error_and_searches_go_on(
    home, look, paths_of, budget
):
    home.configure(**budget(20))
    home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        with look(home.index) as other:
            other.execute("BEGIN IMMEDIATE")
            home.write("memory/b.md", "pump\n")
            with pytest.raises(IndexUnavailableError):
                await backend.sync(SyncRequest(reason="interval"))
            assert await paths_of(backend, "boiler") == ["memory/a.md"]
            stale = await stale_of(backend)
            assert stale is not None and stale.files == 1
            assert "could not be indexed" in stale.reason
            failed = (await backend.status()).recent_syncs[0]
            assert (failed.reason, failed.complete) == ("interval", False)
            assert failed.error is not None and "locked" in failed.error
            other.execute("ROLLBACK")
        assert await paths_of(backend, "pump") == ["memory/b.md"]
        assert (await backend.sync(SyncRequest())).error is None


async def test_a_locked_index_holds_searches_up_only_for_their_budget(home, look, budget):
    home.configure(**budget(20))
    home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        home.write("memory/b.md", "pump\n")
        stales = []

        async def ask() -> None:
            stales.append(await stale_of(backend))

        with look(home.index) as other:
            other.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(PATIENCE_S):  # what one impatient search would take
                async with anyio.create_task_group() as tasks:
                    for _ in range(20):
                        tasks.start_soon(ask)
            other.execute("ROLLBACK")
        assert all(stale is not None and stale.files == 1 for stale in stales)


async def test_an_index_that_is_damaged_at_work_is_rebuilt_by_the_search_that_meets_it(
    home, paths_of, spoil
):
    for number in range(20):
        home.write(f"memory/{number}.md", f"boiler {number}\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        spoil(home.index)
        assert len(await paths_of(backend, "boiler")) == 20
        status = await backend.status()
        assert any("damaged" in issue for issue in status.issues)
        assert (await backend.sync(SyncRequest())).complete


@pytest.mark.parametrize("use", ["sync", "status"])
async def test_sync_and_status_mend_a_damaged_index_too(home, spoil, use, paths_of):
    home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        spoil(home.index)
        if use == "sync":
            assert (await backend.sync(SyncRequest())).added == 1
        else:
            assert (await backend.status()).dirty
        assert await paths_of(backend, "boiler") == ["memory/a.md"]


async def test_an_index_deleted_at_work_comes_back_by_itself(home, paths_of):
    home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        for file in home.index.parent.glob("main.sqlite*"):
            file.unlink()
        assert await paths_of(backend, "boiler") == ["memory/a.md"]


async def test_the_index_is_closed_also_when_its_user_is_cancelled(home):
    home.write("memory/a.md", "boiler\n")
    with anyio.CancelScope() as scope:
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            scope.cancel()
            await anyio.sleep_forever()
    assert [file.name for file in home.index.parent.glob("main.sqlite*")] == ["main.sqlite"]


class HangingDisk(Indexer):
    """A disk that does not answer before it is let go, as with a network mount."""

    released = threading.Event()

    def scan(self):
        self.released.wait(PATIENCE_S * 20)
        return super().scan()


@pytest.fixture
def hanging(home):
    HangingDisk.released.clear()
    database = Database(home.index)
    yield Freshness(HangingDisk(database, MemoryRoots(home.workspace), Preparer(ChunkLimits())))
    HangingDisk.released.set()
    database.close()


async def test_a_search_waits_for_a_hanging_disk_only_so_long_and_says_so(hanging):
    started = time.monotonic()
    stale = await hanging.sweep(0.1)
    assert stale is not None and "did not answer" in stale.reason
    assert time.monotonic() - started < SURVEY_PATIENCE_S[0] + 1


async def test_further_searches_leave_a_disk_that_hangs_alone_until_it_answers(hanging):
    await hanging.sweep(0.1)
    threads = threading.active_count()
    for _ in range(5):
        assert await hanging.sweep(0.01) is not None
    assert threading.active_count() <= threads
    HangingDisk.released.set()
    with anyio.fail_after(PATIENCE_S):
        while await hanging.sweep(0.1) is not None:
            await anyio.sleep(0.01)


async def test_a_sync_of_a_hanging_disk_can_be_given_up(hanging):
    with anyio.fail_after(PATIENCE_S), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hanging.sync, SyncRequest(), None)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


async def test_a_sync_of_a_hanging_disk_ends_with_an_error(hanging, monkeypatch):
    monkeypatch.setattr("backends.builtin.syncing.freshness.LISTING_PATIENCE_S", 0.05)
    with pytest.raises(IndexUnavailableError, match="could not be listed"):
        await hanging.sync(SyncRequest(), None)


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
