"""`status` counts disk and index in one look, and names every problem."""

from __future__ import annotations

import os

import anyio
import pytest

from backends.builtin.index_status import MEASURED_CHUNKS, many_chunks
from backends.interface import SearchRequest, SyncRequest
from config.settings import ExtraPath

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


async def test_an_empty_memory_is_level(home, index_file):
    async with home.open() as backend:
        status = await backend.status()
    (source,) = status.sources
    assert (source.source, source.on_disk, source.indexed, source.pending, source.chunks) == (
        "memory", 0, 0, 0, 0,
    )  # fmt: skip
    assert not status.dirty
    assert status.syncing is None
    assert status.recent_syncs == ()
    assert status.database_path == str(index_file)
    assert status.database_bytes > 0
    assert status.workspace == str(home.workspace)


async def test_what_differs_is_pending_until_it_is_indexed(home, settled):
    kept = home.write("memory/kept.md", "kept\n")
    gone = home.write("memory/gone.md", "gone\n")
    async with home.open() as backend:
        before = await backend.status()
        assert (before.sources[0].on_disk, before.sources[0].pending, before.dirty) == (2, 2, True)
        await settled(backend)
        level = await backend.status()
        assert (level.sources[0].indexed, level.sources[0].pending, level.dirty) == (2, 0, False)
        kept.write_text("kept and changed\n", encoding="utf-8")
        home.write("memory/new.md", "new\n")
        changed = await backend.status()
        assert (changed.sources[0].on_disk, changed.sources[0].pending) == (3, 2)
        await settled(backend)
        gone.unlink()
        removed = await backend.status()
        assert (removed.sources[0].on_disk, removed.sources[0].indexed) == (2, 3)
        assert (removed.sources[0].pending, removed.dirty) == (0, True)


async def test_a_note_that_was_just_indexed_is_not_called_pending(home):
    """It is read once more, since its stamp is so fresh."""
    async with home.open() as backend:
        for number in range(5):
            home.write(f"memory/{number}.md", "boiler\n")
            await backend.sync(SyncRequest())
            status = await backend.status()
            assert (status.sources[0].pending, status.dirty) == (0, False)


async def test_counts_are_those_of_the_index_file(home, look):
    for number in range(5):
        home.write(f"memory/{number}.md", "- a line about the boiler\n" * 300)
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        source = (await backend.status()).sources[0]
    with look(home.index) as db:
        assert source.chunks == db.execute("SELECT count(*) FROM chunks").get > 5
        assert source.indexed == db.execute("SELECT count(*) FROM files").get == 5


async def test_what_is_skipped_is_counted_and_named_with_its_reason(home):
    home.write("memory/a.md", "boiler\n")
    (home.workspace / "memory/link.md").symlink_to(home.workspace / "memory/a.md")
    os.mkfifo(home.workspace / "memory/pipe.md")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        status = await backend.status()
    assert {skipped.path for skipped in status.skipped} == {"memory/link.md", "memory/pipe.md"}
    assert all(skipped.reason for skipped in status.skipped)
    assert status.sources[0].skipped == 2
    assert not status.dirty


async def test_an_unreadable_file_is_skipped_and_not_pending_until_it_can_be_read(
    public_home, unprivileged
):
    with unprivileged():
        note = public_home.write("memory/a.md", "boiler\n")
        public_home.write("memory/b.md", "pump\n")
        note.chmod(0)
        async with public_home.open() as backend:
            await backend.sync(SyncRequest())
            blocked = await backend.status()
            assert [skipped.path for skipped in blocked.skipped] == ["memory/a.md"]
            assert "Permission denied" in blocked.skipped[0].reason
            source = blocked.sources[0]
            assert (source.on_disk, source.indexed, source.pending, source.skipped) == (2, 1, 0, 1)
            assert not blocked.dirty
            note.chmod(0o644)
            await backend.search(SearchRequest(query="boiler"))
            mended = await backend.status()
            assert mended.skipped == ()
            source = mended.sources[0]
            assert (source.indexed, source.pending, source.skipped) == (2, 0, 0)


async def test_an_unreadable_directory_is_named_and_its_files_stay(public_home, unprivileged):
    with unprivileged():
        directory = public_home.write("memory/sub/a.md", "boiler\n").parent
        async with public_home.open() as backend:
            await backend.sync(SyncRequest())
            directory.chmod(0)
            await backend.sync(SyncRequest())
            status = await backend.status()
        directory.chmod(0o755)
    assert [skipped.path for skipped in status.skipped] == ["memory/sub"]
    assert (status.sources[0].skipped, status.sources[0].indexed) == (1, 1)
    assert not status.dirty


async def test_missing_extra_paths_and_a_taken_place_are_issues(home, tmp_path, index_file):
    index_file.write_text("not an index", encoding="utf-8")
    missing = tmp_path / "absent"
    home.configure(extra_paths=(ExtraPath(path=missing, raw="absent"),))
    async with home.open() as backend:
        status = await backend.status()
    assert any(str(missing) in issue for issue in status.issues)
    assert any("left alone" in issue for issue in status.issues)
    assert status.database_path.endswith("main.memory-gateway.sqlite")


async def test_only_the_last_syncs_are_remembered_newest_first(home):
    async with home.open() as backend:
        for number in range(14):
            await backend.sync(SyncRequest(reason=f"reason {number}"))
        reasons = [report.reason for report in (await backend.status()).recent_syncs]
    assert reasons == [f"reason {number}" for number in range(13, 3, -1)]


async def test_a_running_sync_is_told_with_how_far_it_is(home):
    for number in range(200):
        home.write(f"memory/{number}.md", "- a line about the boiler\n" * 200)
    async with home.open() as backend:
        seen = []

        async def watch() -> None:
            while True:
                seen.append((await backend.status()).syncing)
                await anyio.sleep(0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            with anyio.fail_after(60):
                while not any(seen):
                    await backend.sync(SyncRequest(force=True))
            tasks.cancel_scope.cancel()
    running = [state for state in seen if state is not None]
    assert running
    assert all(0 <= state.done <= state.total == 200 for state in running)


async def test_every_count_is_of_one_moment_while_a_sync_runs(home, tmp_path):
    for number in range(150):
        home.write(f"memory/{number}.md", f"- boiler {number}\n")
    async with home.open() as backend:
        states = []

        async def watch() -> None:
            while True:
                states.append((await backend.status()).sources[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            for _ in range(3):
                await backend.sync(SyncRequest(force=True))
            tasks.cancel_scope.cancel()
    assert states
    assert all(one.indexed + one.pending == one.on_disk == 150 for one in states)
    assert all(one.chunks == one.indexed for one in states)


async def test_details_name_engine_languages_and_journal(home, index_file):
    home.write(
        "memory/a.md", "Gestern haben wir mit dem Lieferanten gesprochen und er war nicht da.\n"
    )
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        details = (await backend.status()).details
    assert details.keyword.languages == ("german",)
    assert details.journal == "wal"


def test_an_index_beyond_all_measurements_says_so():
    assert many_chunks(MEASURED_CHUNKS) == ()
    (remark,) = many_chunks(MEASURED_CHUNKS + 1)
    assert remark.startswith("The index holds 1,000,001 chunks, more than the 1,000,000")
