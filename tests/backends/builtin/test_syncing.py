"""Bringing the index up to date with the disk: what is written, kept, removed, skipped and reported."""

from __future__ import annotations

import os
import time

import pytest

from backends.files.reading import MAX_FILE_BYTES
from backends.interface import SyncProgress, SyncRequest
from config.settings import ChunkingSettings, ExtraPath

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


def chunk_ids(look, home) -> dict[int, str]:
    with look(home.index) as db:
        return dict(db.execute("SELECT id, text FROM chunks"))


async def test_new_changed_and_removed_files_are_counted_and_published(home, check, look):
    home.write("MEMORY.md", "# Memory\n\n- The boiler.\n")
    kept = home.write("memory/kept.md", "kept\n")
    gone = home.write("memory/gone.md", "gone\n")
    async with home.open() as backend:
        first = await backend.sync(SyncRequest(reason="boot"))
        assert (first.reason, first.scanned, first.added, first.complete) == ("boot", 3, 3, True)
        assert first.chunks_written == 3
        home.write("memory/new.md", "new\n")
        kept.write_text("kept and changed\n", encoding="utf-8")
        gone.unlink()
        second = await backend.sync(SyncRequest())
        assert (second.added, second.changed, second.removed) == (1, 1, 1)
        assert second.scanned == 3
    check(home.index)
    with look(home.index) as db:
        paths = [path for (path,) in db.execute("SELECT path FROM files ORDER BY path")]
    assert paths == ["MEMORY.md", "memory/kept.md", "memory/new.md"]


async def test_unchanged_files_are_not_read_again_not_even_by_another_process(home, settled):
    for number in range(30):
        home.write(f"memory/{number}.md", f"note {number}\n")
    async with home.open() as backend:
        await settled(backend)
    report = await home.synced()
    assert (report.bytes_read, report.unchanged, report.changed) == (0, 30, 0)


@pytest.mark.parametrize("stamps", [(10**9, 10**9), (4 * 10**18, 4 * 10**18)])
async def test_a_touched_file_is_read_once_and_then_left_alone(
    home, settled, look, stamps, long_note
):
    """This also holds for a stamp in the past or in the future."""
    note = home.write("memory/a.md", long_note(1, 2))
    async with home.open() as backend:
        await settled(backend)
        before = chunk_ids(look, home)
        os.utime(note, ns=stamps)
        report = await backend.sync(SyncRequest())
        assert (report.unchanged, report.changed, report.chunks_written) == (1, 0, 0)
        assert report.bytes_read > 0
        await settled(backend)
        assert chunk_ids(look, home) == before


async def test_an_edit_keeps_the_rows_of_the_chunks_it_does_not_touch(home, check, look, long_note):
    note = home.write("memory/a.md", long_note(1, 2, 3, 4))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        before = chunk_ids(look, home)
        note.write_text(long_note(1, 2, 5, 4), encoding="utf-8")
        report = await backend.sync(SyncRequest())
    after = chunk_ids(look, home)
    kept = set(before.items()) & set(after.items())
    assert len(kept) >= len(before) / 2
    assert report.chunks_written == len(after) - len(kept)
    check(home.index)


async def test_text_that_moves_down_keeps_its_rows_with_new_lines(home, check, look, long_note):
    note = home.write("memory/a.md", long_note(1, 2, 3))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        before = chunk_ids(look, home)
        note.write_text(long_note(0, 1, 2, 3), encoding="utf-8")
        await backend.sync(SyncRequest())
    kept = set(before.items()) & set(chunk_ids(look, home).items())
    assert kept
    text = note.read_text(encoding="utf-8")
    with look(home.index) as db:
        for start, line, stored in db.execute("SELECT start, start_line, text FROM chunks"):
            assert text[start:].startswith(stored)
            assert text.count("\n", 0, start) == line - 1
    check(home.index)


async def test_equal_chunks_of_one_file_are_each_kept_at_their_place(home, check, look):
    same = "\n\n".join("# Day\n\n" + "- The same line.\n" * 40 for _ in range(6))
    note = home.write("memory/a.md", same)

    def places() -> set[tuple[int, int]]:
        with look(home.index) as db:
            return set(db.execute("SELECT id, start FROM chunks"))

    async with home.open() as backend:
        await backend.sync(SyncRequest())
        before = places()
        note.write_text(same + "\n- and one more\n", encoding="utf-8")
        await backend.sync(SyncRequest())
        assert len(before & places()) >= len(before) - 1
        note.write_text("# Day\n", encoding="utf-8")
        await backend.sync(SyncRequest())
    check(home.index)


async def test_a_file_that_becomes_blank_stays_known_without_chunks(home, check, paths_of):
    note = home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        note.write_text("\n\n", encoding="utf-8")
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler") == []
        assert (await backend.status()).sources[0].indexed == 1
    check(home.index)


async def test_moving_a_file_moves_its_rows(home, check, paths_of, long_note):
    note = home.write("memory/a.md", long_note(1))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        note.rename(note.with_name("b.md"))
        report = await backend.sync(SyncRequest())
        assert (report.added, report.removed) == (1, 1)
        assert await paths_of(backend, "boiler") == ["memory/b.md"]
    check(home.index)


async def test_forced_every_file_is_indexed_again_and_no_row_changes_for_nothing(
    home, look, long_note
):
    home.write("memory/a.md", long_note(1, 2))
    edited = home.write("memory/b.md", long_note(3))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        before = chunk_ids(look, home)
        report = await backend.sync(SyncRequest(force=True))
        assert (report.changed, report.unchanged, report.chunks_written) == (0, 2, 0)
        assert report.bytes_read > 0
        assert chunk_ids(look, home) == before
        edited.write_text(long_note(3, 4))
        report = await backend.sync(SyncRequest(force=True))
        assert (report.changed, report.unchanged) == (1, 1)


async def test_other_chunk_limits_make_other_chunks_at_the_next_sync(home, check, look, long_note):
    home.write("memory/a.md", long_note(1, 2, 3))
    await home.synced()
    before = len(chunk_ids(look, home))
    home.configure(chunking=ChunkingSettings(tokens=100, overlap=0))
    report = await home.synced()
    assert (report.changed, report.added) == (1, 0)
    assert len(chunk_ids(look, home)) > 2 * before
    check(home.index)


async def test_extra_paths_come_and_go_with_the_configuration(home, tmp_path, paths_of, check):
    outside = tmp_path / "vault" / "note.md"
    outside.parent.mkdir()
    outside.write_text("the secret of the vault\n", encoding="utf-8")
    home.configure(extra_paths=(ExtraPath(path=outside.parent, raw="vault"),))
    async with home.open() as backend:
        assert await paths_of(backend, "vault secret") == ["../../vault/note.md"]
    home.configure()
    async with home.open() as backend:
        assert await paths_of(backend, "vault secret") == []
    check(home.index)


async def test_bad_files_are_skipped_with_a_reason_or_mended_and_the_rest_is_indexed(home, check):
    home.write("memory/good.md", "good boiler\n")
    home.write("memory/invalid.md", b"caf\xe9 boiler\n")
    home.write("memory/nul.md", b"boiler\0membrane\n")
    home.write("memory/bom-crlf.md", b"\xef\xbb\xbf# Title\r\nboiler\r\n")
    home.write("memory/empty.md", b"")
    home.write("memory/one-line.md", "boiler words " * 20_000)
    with home.write("memory/large.md", b"").open("r+b") as large:
        large.truncate(MAX_FILE_BYTES + 1)
    (home.workspace / "memory/link.md").symlink_to(home.workspace / "memory/good.md")
    os.mkfifo(home.workspace / "memory/pipe.md")
    (home.workspace / "memory/directory.md").mkdir()
    report = await home.synced()
    reasons = {skipped.path: skipped.reason for skipped in report.skipped}
    assert set(reasons) == {"memory/large.md", "memory/link.md", "memory/pipe.md"}
    assert "too large" in reasons["memory/large.md"]
    assert "link" in reasons["memory/link.md"]
    assert report.added == 6
    assert report.complete
    check(home.index)


async def test_a_file_that_becomes_too_large_leaves_the_index(home, paths_of, check):
    note = home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        with note.open("r+b") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler") == []
    check(home.index)


async def test_progress_is_told_while_a_sync_runs_and_ends_with_everything(home):
    sizes = [len(home.write(f"memory/{n}.md", f"note {n}\n" * 50).read_bytes()) for n in range(40)]
    states: list[SyncProgress] = []
    async with home.open() as backend:
        await backend.sync(SyncRequest(), progress=states.append)
        assert (await backend.status()).syncing is None
    assert states
    assert states[-1].done == states[-1].total == 40
    assert states[-1].bytes_done == states[-1].bytes_total == sum(sizes)
    assert [state.done for state in states] == sorted(state.done for state in states)


async def test_a_change_that_left_all_stamps_as_they_were_is_found_by_verifying(
    home, look, paths_of, quiet, settled
):
    home.configure(**quiet)
    note = home.write("memory/a.md", "boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        note.write_text("pump!!\n", encoding="utf-8")
        stamps = note.stat()
        with look(home.index) as other:
            other.execute(  # as on a file system that does not update its stamps
                "UPDATE stamps SET size = ?, mtime_ns = ?, ctime_ns = ?, read_at_ns = ?",
                (stamps.st_size, stamps.st_mtime_ns, stamps.st_ctime_ns, time.time_ns() + 10**10),
            )
        assert (await backend.sync(SyncRequest())).changed == 0
        assert await paths_of(backend, "pump") == []
        assert (await backend.sync(SyncRequest(verify=True))).changed == 1
        assert await paths_of(backend, "pump") == ["memory/a.md"]
