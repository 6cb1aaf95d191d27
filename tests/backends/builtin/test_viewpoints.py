"""Several hosts with files of their own, or with one mount, on one index."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from backends.builtin.store.opening import connect
from backends.builtin.syncing import surveying
from backends.interface import SearchRequest, SyncRequest
from fakes.freshness import stale_of

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]
NAMES = [f"memory/2024-{number}.md" for number in range(12)]


def look_from(home, shared, name) -> None:
    """Opens the index of the home `shared`."""
    search = home.settings.search
    store = replace(shared.store, view=name)
    home.settings = replace(home.settings, search=replace(search, store=store))


@pytest.fixture
def host(home, new_home) -> Callable[..., Any]:
    """Another host on the same index, by default with a copy of the first one's files."""

    def start(name: str, *, copied: bool = True) -> Any:
        other = new_home(name)
        if copied:
            shutil.copytree(home.workspace, other.workspace, dirs_exist_ok=True)
        look_from(other, home, name)
        return other

    return start


@pytest.fixture
def first(home):
    """The host that came first, with its notes."""
    for number, name in enumerate(NAMES):
        home.write(name, f"the boiler of house number{number}\n")
    look_from(home, home, "first")
    return home


@pytest.fixture
async def indexed(first, settled):
    async with first.open() as backend:
        await settled(backend)
    return first


@pytest.fixture
def soon(monkeypatch):
    """Makes the minute pass at once."""
    return lambda: monkeypatch.setattr(surveying, "SECOND_LOOK_S", 0.0)


@pytest.fixture
def rows(home):
    def paths() -> set[str]:
        with closing(connect(home.settings)) as store, store.view() as view:
            return set(view.files.indexed())

    return paths


async def searched(home, paths_of, query):
    async with home.open() as backend:
        return await paths_of(backend, query)


async def test_copies_of_a_workspace_are_read_once_and_not_again_at_every_sync(
    indexed, host, settled, rows
):
    copy = host("copy")
    async with copy.open() as backend:
        report = await backend.sync(SyncRequest())
        assert (report.added, report.changed, report.chunks_written) == (0, 0, 0)
        assert report.bytes_read > 0
        await settled(backend)
    for _ in range(2):
        for one in (indexed, copy):
            report = await one.synced()
            assert (report.bytes_read, report.unchanged) == (0, len(NAMES))
    assert rows() == set(NAMES)


@pytest.mark.parametrize("is_there", [True, False])
async def test_an_empty_mount_removes_nothing_and_says_so(
    indexed, host, rows, paths_of, soon, is_there
):
    empty = host("empty", copied=False)
    if not is_there:
        empty.workspace.rmdir()
    soon()
    async with empty.open() as backend:
        for _ in range(2):
            report = await backend.sync(SyncRequest())
            assert report.removed == 0 and not report.complete
            assert await paths_of(backend, "number3") == [NAMES[3]]
            stale = await stale_of(backend)
            assert stale is not None and stale.files == len(NAMES)
            assert "12 of the index were seen by other hosts only" in stale.reason
        status = await backend.status()
        assert any("has no notes" in one for one in status.weaknesses)
        assert status.details.viewpoints.here == "empty"
        assert status.details.viewpoints.others == ("first",)
        assert status.details.viewpoints.only_elsewhere == len(NAMES)
    assert rows() == set(NAMES)
    async with indexed.open() as backend:
        assert await stale_of(backend) is None


async def test_even_by_force_a_host_removes_only_what_it_saw(indexed, host, rows):
    other = host("other")
    (other.workspace / NAMES[0]).unlink()
    async with other.open() as backend:
        assert (await backend.sync(SyncRequest(force=True))).removed == 0
        (other.workspace / NAMES[1]).unlink()
        assert (await backend.sync(SyncRequest(force=True))).removed == 1
    assert rows() == {*NAMES} - {NAMES[1]}


async def test_what_another_host_wrote_is_found_before_it_is_on_this_disk(
    indexed, host, paths_of, quiet
):
    other = host("other")
    await other.synced()
    other.write("memory/new.md", "the pump of the cellar\n")
    await other.synced()
    assert await searched(indexed, paths_of, "pump") == ["memory/new.md"]
    indexed.configure(**quiet)
    look_from(indexed, indexed, "first")
    assert await searched(indexed, paths_of, "pump") == ["memory/new.md"]


async def test_a_deletion_on_a_host_that_saw_the_file_counts_for_all_who_have_it_no_more(
    indexed, host, rows, paths_of, settled
):
    other = host("other")
    async with other.open() as backend:
        await settled(backend)
        (other.workspace / NAMES[3]).unlink()
        assert await paths_of(backend, "number3") == []
    assert NAMES[3] not in rows()
    assert await searched(indexed, paths_of, "number3") == [NAMES[3]]  # it is on this disk
    assert await searched(other, paths_of, "number3") == [NAMES[3]]
    (indexed.workspace / NAMES[3]).unlink()
    assert await searched(indexed, paths_of, "number3") == []
    assert await searched(other, paths_of, "number3") == []


async def test_a_file_that_only_one_host_saw_goes_when_that_host_deletes_it(
    indexed, host, rows, paths_of
):
    other = host("other")
    await other.synced()
    note = other.write("memory/new.md", "the pump of the cellar\n")
    await other.synced()
    await indexed.synced()
    assert "memory/new.md" in rows()
    note.unlink()
    await indexed.synced()
    assert "memory/new.md" in rows()
    await other.synced()
    assert "memory/new.md" not in rows()


async def test_many_files_gone_at_once_wait_for_the_second_look_of_the_same_host(
    indexed, host, rows, settled, soon
):
    other = host("other")
    async with other.open() as backend:
        await settled(backend)
    for name in NAMES[2:]:
        (other.workspace / name).unlink()
    report = await other.synced()
    assert report.removed == 0 and "10 of 12 files" in (report.error or "")
    soon()
    assert (await indexed.synced()).removed == 0  # it misses nothing
    assert rows() == set(NAMES)
    assert (await other.synced()).removed == 10
    assert rows() == set(NAMES[:2])


async def test_an_old_copy_does_not_undo_what_another_host_changed(
    indexed, host, paths_of, settled
):
    other = host("other")
    async with other.open() as backend:
        await settled(backend)
    other.write(NAMES[3], "the pump of house number3\n")
    assert await searched(other, paths_of, "pump") == [NAMES[3]]
    async with indexed.open() as backend:
        report = await backend.sync(SyncRequest(verify=True))
        assert (report.changed, report.bytes_read > 0) == (0, True)
        assert await paths_of(backend, "pump") == [NAMES[3]]
        shutil.copy(other.workspace / NAMES[3], indexed.workspace / NAMES[3])
        assert (await backend.sync(SyncRequest())).chunks_written == 0
        indexed.write(NAMES[3], "the valve of house number3\n")
        assert await paths_of(backend, "valve") == [NAMES[3]]
    assert await searched(other, paths_of, "pump") == []


async def test_a_host_with_another_name_on_the_same_disk_reads_nothing_again(
    indexed, rows, paths_of
):
    look_from(indexed, indexed, "renamed")
    (indexed.workspace / NAMES[3]).unlink()
    async with indexed.open() as backend:
        report = await backend.sync(SyncRequest())
        assert (report.bytes_read, report.added, report.removed) == (0, 0, 1)
    assert rows() == {*NAMES} - {NAMES[3]}


async def test_what_a_forgotten_host_alone_had_goes_only_where_there_are_other_files(
    indexed, host, rows, look
):
    with look(indexed.index) as db:
        db.execute("PRAGMA foreign_keys = ON; DELETE FROM viewpoints")
    empty = host("empty", copied=False)
    report = await empty.synced()
    assert report.removed == 0 and not report.complete
    assert rows() == set(NAMES)
    other = host("other")
    (other.workspace / NAMES[3]).unlink()
    assert (await other.synced()).removed == 1
    assert rows() == {*NAMES} - {NAMES[3]}


async def test_a_workspace_that_is_away_is_away_for_its_own_host_only(
    indexed, host, rows, settled, soon
):
    other = host("other")
    async with other.open() as backend:
        await settled(backend)
    other.workspace.rename(other.root / "moved")
    soon()
    for _ in range(2):
        report = await other.synced()
        assert report.removed == 0 and "is missing" in (report.error or "")
        assert (await indexed.synced()).complete
    assert rows() == set(NAMES)


async def test_a_search_that_does_not_look_at_the_disk_leaves_out_what_this_host_deleted(
    indexed, paths_of, quiet
):
    indexed.configure(**quiet)
    look_from(indexed, indexed, "first")
    (indexed.workspace / NAMES[3]).unlink()
    assert await searched(indexed, paths_of, "number3") == []


async def test_stamps_to_the_nanosecond_make_a_copy_no_twin(indexed, host):
    copy = host("copy")
    for name in NAMES:
        stamps = (indexed.workspace / name).stat()
        os.utime(copy.workspace / name, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert (await copy.synced()).bytes_read > 0


async def test_one_host_alone_says_nothing_of_viewpoints(home):
    home.write("MEMORY.md", "the boiler\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert not (await backend.status()).details.viewpoints
        answer = await backend.search(SearchRequest(query="boiler"))
        assert answer.stale is None
