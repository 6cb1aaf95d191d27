"""A sync at work: searches and syncs beside it, faults, damage and its end."""

from __future__ import annotations

import time
import zlib

import anyio
import pytest

from backends.builtin.store.sqlite.connections import PATIENCE_S
from backends.interface import IndexUnavailableError, SyncRequest
from config.runtime.tasks import LONGEST_PAUSE_S, SearchPriority
from fakes.freshness import large_note, stale_of

pytestmark = [pytest.mark.anyio, pytest.mark.every_store, pytest.mark.and_pooled]


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
            assert report.bytes_read > 60 * 5_000
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
            with anyio.fail_after(120):
                during = 0
                while during < 2:  # of one sync
                    before = len(answered)
                    await backend.sync(SyncRequest(force=True))
                    during = len(answered) - before
            tasks.cancel_scope.cancel()
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


@pytest.mark.promises_seconds
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


@pytest.mark.parametrize("damage", ["not deflated", ""], ids=["foreign", "not UTF-8"])
async def test_words_of_a_chunk_that_cannot_be_read_are_damage_too(home, look, paths_of, damage):
    deflate = zlib.compressobj(wbits=-12)
    words = damage.encode() or deflate.compress(b"\xff\xfe") + deflate.flush()
    home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        with look(home.index) as other:
            other.execute("UPDATE chunks SET words = ?", (words,))
        assert await paths_of(backend, "boiler") == ["memory/a.md"]
        assert any("damaged" in issue for issue in (await backend.status()).issues)


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


async def test_the_index_is_closed_also_when_its_user_is_cancelled(home, index_file):
    home.write("memory/a.md", "boiler\n")
    with anyio.CancelScope() as scope:
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            scope.cancel()
            await anyio.sleep_forever()
    assert [file.name for file in index_file.parent.glob("main.sqlite*")] == ["main.sqlite"]


def pauses(priority: SearchPriority, *worked_s: float) -> list[float]:
    """Returns the pauses of an indexing thread after each of these durations of work."""
    found: list[float] = []
    with priority.yielding("indexing"):
        for seconds in worked_s:
            ends = time.perf_counter() + seconds
            while time.perf_counter() < ends:
                pass
            started = time.perf_counter()
            priority.give_way()
            found.append(time.perf_counter() - started)
    return found


@pytest.mark.promises_seconds
def test_nobody_searching_means_no_pause():
    priority = SearchPriority()
    with priority.searching():
        pass
    assert max(pauses(priority, 0.01, 0.01)) < LONGEST_PAUSE_S


@pytest.mark.promises_seconds
def test_during_a_search_the_pause_is_as_long_as_the_work_before_it_up_to_a_bound():
    priority = SearchPriority()
    with priority.searching(), priority.searching():
        first, second = pauses(priority, 0.0, 0.04)
        assert LONGEST_PAUSE_S <= first < 10  # it has never rested before
        assert second >= 0.04


@pytest.mark.promises_seconds
def test_what_a_search_indexes_for_itself_gives_way_to_nobody():
    priority = SearchPriority()
    with priority.searching():
        started = time.perf_counter()
        priority.give_way()
        assert time.perf_counter() - started < LONGEST_PAUSE_S
