"""A place of notes that vanishes removes nothing from the index."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from backends.builtin.store.sqlite import connections
from backends.builtin.syncing import surveying
from backends.interface import FileUnreadableError, ReadRequest, SearchRequest, SyncRequest
from config.settings import CacheSettings, ExtraPath
from fakes.freshness import stale_of

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


@pytest.fixture
def notes(home):
    home.write("MEMORY.md", "the pump in the garden\n")
    for number in range(12):
        home.write(f"memory/2024-{number}.md", f"the boiler of house number{number}\n")


@pytest.fixture
def rows(look):
    def count(home) -> int:
        with look(home.index) as db:
            return db.execute("SELECT count(*) FROM files").get

    return count


@pytest.fixture
def soon(monkeypatch):
    """Makes the minute pass at once."""

    def pass_minute() -> None:
        monkeypatch.setattr(surveying, "SECOND_LOOK_S", 0.0)

    return pass_minute


async def test_a_workspace_that_is_away_is_a_weakness_before_anything_looked_at_its_files(
    home, notes
):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await backend.weaknesses() == ()
    moved = home.root / "moved"
    home.workspace.rename(moved)
    async with home.open() as backend:
        (weakness,) = await backend.weaknesses()
        assert "is missing" in weakness
        moved.rename(home.workspace)
        assert await backend.weaknesses() == ()


async def test_a_workspace_that_was_renamed_is_answered_from_the_index_until_it_is_back(
    home, notes, rows, paths_of, soon
):
    moved = home.root / "moved"
    async with home.open() as backend:
        assert await paths_of(backend, "number3") == ["memory/2024-3.md"]
        home.workspace.rename(moved)
        soon()
        for _ in range(3):
            answer = await backend.search(SearchRequest(query="number3"))
            assert [hit.path for hit in answer.hits] == ["memory/2024-3.md"]
            assert answer.stale is not None and answer.stale.files == 13
            assert f"the workspace {home.workspace} is missing" in answer.stale.reason
            report = await backend.sync(SyncRequest())
            assert not report.complete and "is missing" in (report.error or "")
        assert rows(home) == 13
        assert any("is missing" in one for one in await backend.weaknesses())
        status = await backend.status()
        assert any("is missing" in one for one in status.weaknesses)
        assert status.dirty and status.sources[0].pending == 13
        with pytest.raises(FileUnreadableError, match="is missing"):
            await backend.read(ReadRequest(path="memory/2024-3.md"))
        moved.rename(home.workspace)
        assert await stale_of(backend) is None
        assert await backend.weaknesses() == ()
        assert (await backend.sync(SyncRequest())).added == 0


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (lambda place: place.symlink_to(place), "is missing"),
        (lambda place: place.write_text("no folder", encoding="utf-8"), "is not a directory"),
    ],
    ids=["a link to itself", "a file"],
)
async def test_what_cannot_be_a_workspace_takes_nothing_out_of_the_index(
    home, notes, rows, soon, put, told
):
    moved = home.root / "moved"
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        home.workspace.rename(moved)
        put(home.workspace)
        soon()
        for _ in range(2):
            answer = await backend.search(SearchRequest(query="number3"))
            assert [hit.path for hit in answer.hits] == ["memory/2024-3.md"]
            assert answer.stale is not None
            assert f"the workspace {home.workspace} {told}" in answer.stale.reason
            assert told in ((await backend.sync(SyncRequest())).error or "")
        assert rows(home) == 13
        home.workspace.unlink()
        moved.rename(home.workspace)
        assert await stale_of(backend) is None


async def test_a_workspace_that_is_away_is_told_once_though_it_has_several_places(home, notes):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        home.workspace.rename(home.root / "moved")
        report = await backend.sync(SyncRequest())
        stale = (await backend.search(SearchRequest(query="number3"))).stale
        assert stale is not None
        for told in (report.error or "", stale.reason, " ".join(await backend.weaknesses())):
            assert told.count("is missing") == 1 and "more)" not in told
        assert len((await backend.status()).weaknesses) == 1


async def test_the_brake_survives_a_restart(home, notes, rows, paths_of):
    await home.synced()
    home.workspace.rename(home.root / "moved")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "number3") == ["memory/2024-3.md"]
        assert await stale_of(backend) is not None
    assert rows(home) == 13


async def test_an_empty_directory_on_another_device_is_no_deletion(
    home, notes, rows, paths_of, look, soon
):
    await home.synced()
    with look(home.index) as db:  # as if it had been another file system at that time
        db.execute("UPDATE meta SET value = replace(value, ':', ':9') WHERE key = 'devices'")
    shutil.rmtree(home.workspace)
    home.workspace.mkdir()
    soon()
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "number3") == ["memory/2024-3.md"]
        stale = await stale_of(backend)
        assert stale is not None and "is not the file system" in stale.reason
        with pytest.raises(FileUnreadableError, match="is not the file system"):
            await backend.read(ReadRequest(path="memory/2024-3.md"))
        assert rows(home) == 13
        assert (await backend.sync(SyncRequest(force=True))).removed == 13
        assert await stale_of(backend) is None


@pytest.fixture
def mounted(home) -> Iterator[None]:
    """Makes the workspace a file system of its own."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", home.workspace],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip(f"mounting is not permitted: {made.stderr.decode().strip()}")
    yield
    subprocess.run(["umount", "-l", home.workspace], check=False, capture_output=True)


async def test_an_unmounted_workspace_is_answered_from_the_index(
    mounted, home, notes, rows, paths_of, soon
):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        subprocess.run(["umount", "-l", home.workspace], check=True)
        assert list(home.workspace.iterdir()) == []
        soon()
        for _ in range(2):
            assert await paths_of(backend, "number3") == ["memory/2024-3.md"]
            stale = await stale_of(backend)
            assert stale is not None and "is not the file system that was indexed" in stale.reason
            assert not (await backend.sync(SyncRequest())).complete
        assert rows(home) == 13


async def test_another_device_with_the_same_files_is_taken_for_the_same_place(
    home, notes, look, paths_of
):
    await home.synced()
    with look(home.index) as db:
        db.execute("UPDATE meta SET value = replace(value, ':', ':9') WHERE key = 'devices'")
    async with home.open() as backend:
        assert (await backend.sync(SyncRequest())).complete
        (home.workspace / "memory/2024-3.md").unlink()
        assert await paths_of(backend, "number3") == []
        assert await stale_of(backend) is None


async def test_more_than_half_of_many_files_are_let_go_at_the_second_look(
    home, notes, rows, paths_of, soon
):
    async with home.open() as backend:
        assert await paths_of(backend, "number3") == ["memory/2024-3.md"]
        for number in range(7):
            (home.workspace / f"memory/2024-{number}.md").unlink()
        answer = await backend.search(SearchRequest(query="number3"))
        assert "memory/2024-3.md" not in [hit.path for hit in answer.hits]  # it does not exist
        assert answer.stale is not None and answer.stale.files == 7
        assert "7 of 12 files" in answer.stale.reason
        status = await backend.status()
        assert status.dirty and status.sources[0].pending == 7
        assert rows(home) == 13
        soon()
        assert await stale_of(backend) is None
        assert rows(home) == 6


async def test_fewer_files_go_at_once(home, notes, rows):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        for number in range(6):
            (home.workspace / f"memory/2024-{number}.md").unlink()
        assert await stale_of(backend) is None
    assert rows(home) == 7


async def test_force_takes_out_what_is_gone_at_once(home, notes, rows):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        shutil.rmtree(home.workspace / "memory")
        assert (await backend.sync(SyncRequest())).removed == 0
        assert (await backend.sync(SyncRequest(force=True))).removed == 12
    assert rows(home) == 1


async def test_an_extra_path_that_vanishes_holds_no_other_place(home, rows, paths_of, soon):
    extra = home.root / "extra"
    extra.mkdir()
    (extra / "a.md").write_text("the cistern\n")
    home.write("MEMORY.md", "the pump\n")
    home.write("memory/a.md", "the boiler\n")
    home.configure(extra_paths=(ExtraPath(raw=str(extra), path=extra),))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        extra.rename(home.root / "elsewhere")
        (home.workspace / "memory/a.md").unlink()
        soon()
        assert await paths_of(backend, "boiler") == []
        assert await paths_of(backend, "cistern") == ["../extra/a.md"]
        stale = await stale_of(backend)
        assert stale is not None and f"the extra path {extra} is missing" in stale.reason
        assert stale.files == 1
    assert rows(home) == 2
    home.configure()  # no longer a place of notes: no accident
    async with home.open() as backend:
        assert await stale_of(backend) is None
    assert rows(home) == 1


@pytest.mark.parametrize("back", [False, True])
async def test_the_second_look_may_be_that_of_another_process(
    home, notes, rows, a_minute_later, back
):
    await home.synced()
    (home.workspace / "memory").rename(home.root / "aside")
    for _ in range(2):  # the minute is not over
        report = await home.synced()
        assert not report.complete
        assert "or by force" in (report.error or "")
    a_minute_later(home.index)
    if back:  # notes that came back meanwhile were not deleted, nor are they by the next accident
        (home.root / "aside").rename(home.workspace / "memory")
        assert (await home.synced()).complete
        (home.workspace / "memory").rename(home.root / "aside")
        assert not (await home.synced()).complete
    else:
        assert (await home.synced()).removed == 12
    assert rows(home) == (13 if back else 1)


async def test_a_minute_is_not_over_because_the_clock_was_put_back(home, notes, rows, look):
    await home.synced()
    shutil.rmtree(home.workspace / "memory")
    await home.synced()
    with look(home.index) as db:
        db.execute(
            "UPDATE meta SET value = json_object(?, unixepoch() + 1e6) WHERE key = 'missed'",
            (str(home.workspace / "memory"),),
        )
    assert not (await home.synced()).complete
    with look(home.index) as db:  # and it ends all the same
        (ahead,) = db.execute(
            "SELECT json_each.value - unixepoch() FROM meta, json_each(meta.value) WHERE meta.key = 'missed'"
        ).fetchone()
    assert ahead < 60
    assert rows(home) == 13


async def test_force_is_the_end_of_what_was_missed(home, notes, rows):
    await home.synced()
    shutil.rmtree(home.workspace)
    assert not (await home.synced()).complete
    async with home.open() as backend:
        await backend.sync(SyncRequest(force=True))
        assert await stale_of(backend) is None
    assert rows(home) == 0


async def test_an_index_that_is_lost_while_the_workspace_is_away_says_so(home, notes, index_file):
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        home.workspace.rename(home.root / "moved")
        index_file.unlink()
        answer = await backend.search(SearchRequest(query="number3"))
        assert answer.hits == ()
        assert answer.stale is not None and "is missing" in answer.stale.reason


def moved_to(home, workspace):
    home.workspace = workspace
    home.settings = replace(home.settings, workspace=workspace)


async def test_a_workspace_that_moves_with_its_notes_is_followed_at_once(home, notes, rows):
    await home.synced()
    home.workspace.rename(home.root / "moved")
    moved_to(home, home.root / "moved")
    report = await home.synced()
    assert report.complete
    assert (report.added, report.removed, report.chunks_written) == (0, 0, 0)
    (home.workspace / "memory/2024-3.md").unlink()  # it is the workspace of this index by now
    assert (await home.synced()).removed == 1


async def test_another_workspace_takes_an_index_over_at_a_second_look_only(
    home, notes, rows, paths_of, a_minute_later, look
):
    await home.synced()
    first, other = home.workspace, home.root / "other"
    moved_to(home, other)
    home.write("memory/own.md", "the ladder\n")
    report = await home.synced()
    assert not report.complete
    assert f"for the workspace {first}, and 12 of its files are not in {other}" in report.error
    assert "--state-dir" in report.error
    async with home.open() as backend:  # notes of the other one are no answer
        assert await paths_of(backend, "number3") == []
        assert await paths_of(backend, "ladder") == ["memory/own.md"]
        assert (await stale_of(backend)) is not None
    moved_to(home, first)  # a slip of the pen costs nothing
    report = await home.synced()
    assert (report.added, report.removed) == (0, 1)
    moved_to(home, other)
    assert not (await home.synced()).complete
    a_minute_later(home.index)
    assert (await home.synced()).removed == 13
    moved_to(home, first)
    assert not (await home.synced()).complete
    assert rows(home) == 14


async def test_another_workspace_takes_an_index_over_by_force(home, notes, rows):
    await home.synced()
    moved_to(home, home.root / "other")
    home.write("memory/own.md", "the ladder\n")
    async with home.open() as backend:
        report = await backend.sync(SyncRequest(force=True))
    assert (report.added, report.removed) == (1, 13)
    assert rows(home) == 1
    assert (await home.synced()).complete


async def test_two_names_of_one_workspace_are_one(home, notes, rows):
    await home.synced()
    (home.root / "link").symlink_to(home.workspace)
    (home.workspace / "memory/2024-3.md").unlink()
    moved_to(home, home.root / "link")
    assert (await home.synced()).removed == 1


async def test_an_extra_path_that_is_a_file_is_deleted_like_any_file(home, rows):
    home.write("MEMORY.md", "the pump\n")
    note = home.root / "list.md"
    note.write_text("the cistern\n", encoding="utf-8")
    home.configure(extra_paths=(ExtraPath(raw=str(note), path=note),))
    await home.synced()
    note.unlink()
    for removed in (1, 0):
        async with home.open() as backend:
            assert (await backend.sync(SyncRequest())).removed == removed
            assert await stale_of(backend) is None
    assert rows(home) == 1


async def test_what_came_back_starts_a_minute_of_its_own_at_the_next_accident(
    home, notes, rows, monkeypatch
):
    aside = home.root / "aside"
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        (home.workspace / "memory").rename(aside)
        assert await stale_of(backend) is not None
        missed = time.monotonic()
        aside.rename(home.workspace / "memory")
        assert await stale_of(backend) is None
        (home.workspace / "memory").rename(aside)
        monkeypatch.setattr(surveying, "SECOND_LOOK_S", time.monotonic() - missed)
        assert await stale_of(backend) is not None
    assert rows(home) == 13


def unmounted(home, root):
    subprocess.run(["umount", "-l", root], check=True)


def renamed(home, root):
    root.rename(home.root / "away")


def emptied(home, root):
    """Mounts an empty file system in its place, as if the disk of the place were away at the start."""
    root.rename(home.root / "away")
    root.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", root]
    subprocess.run(made, check=True)


def returned(home, root):
    """Restores everything as it was."""
    while os.path.ismount(root):
        subprocess.run(["umount", "-l", root], check=True)
    away, source = home.root / "away", home.root / "source"
    if away.exists():
        root.rmdir() if root.exists() else None
        away.rename(root)
    elif source.exists():
        subprocess.run(["mount", "--bind", source, root], check=True)


@pytest.mark.parametrize("is_log", [True, False], ids=["wal", "rollback"])
@pytest.mark.parametrize(
    "cache",
    [
        CacheSettings(enabled=False),
        CacheSettings(enabled=True, max_entries=1),
        CacheSettings(enabled=True, max_entries=50_000),
    ],
    ids=["no-cache", "small-cache", "large-cache"],
)
@pytest.mark.parametrize("vanish", [unmounted, renamed, emptied])
async def test_a_root_that_vanishes_costs_no_row_no_embedding_and_no_answer_without_a_word(
    embedding_home, vendor, embedded, rows, soon, monkeypatch, vanish, cache, is_log
):
    home = embedding_home
    tried = subprocess.run(
        ["mount", "--bind", home.workspace, home.workspace], check=False, capture_output=True
    )
    if tried.returncode:
        pytest.skip(f"mounting is not permitted: {tried.stderr.decode().strip()}")
    subprocess.run(["umount", "-l", home.workspace], check=True)
    if not is_log:
        monkeypatch.setattr(connections, "shared_type", lambda directory: "nfs")
    home.embed_with(vendor, cache=cache)
    if vanish is unmounted:
        (home.root / "source").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", home.root / "source"], check=True)
        subprocess.run(["mount", "--bind", home.root / "source", home.workspace], check=True)
    for number in range(12):
        home.write(f"memory/2024-{number}.md", f"the boiler of house number{number}\n")
    try:
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            await embedded(backend)
            paid = len(vendor.embedded())
            assert paid == 12
            soon()
            vanish(home, home.workspace)
            for number in range(12):
                answer = await backend.search(SearchRequest(query=f"number{number}"))
                assert answer.stale is not None and answer.stale.files == 12
                assert f"memory/2024-{number}.md" in [hit.path for hit in answer.hits]
                await backend.sync(SyncRequest())
        async with home.open() as backend:  # a restart meanwhile
            assert (await backend.search(SearchRequest(query="number3"))).stale is not None
            assert rows(home) == 12
            returned(home, home.workspace)
            report = await backend.sync(SyncRequest())
            assert (report.added, report.removed) == (0, 0)
            await embedded(backend)
            assert await stale_of(backend) is None
        assert rows(home) == 12
        assert [text for text in vendor.embedded() if "boiler of" in text][12:] == []
    finally:
        for place in (home.workspace, home.root / "source"):
            while os.path.ismount(place):
                subprocess.run(["umount", "-l", place], check=True)
