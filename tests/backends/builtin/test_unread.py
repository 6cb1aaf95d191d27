"""Files that cannot be read at this moment are reported, and found as soon as they can be read."""

from __future__ import annotations

import pytest

from backends.interface import SearchRequest, SyncRequest
from fakes.descriptors import descriptors_left
from fakes.freshness import stale_of

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

DEEP = "/".join("abcdefghijklmnop")
"""A path that keeps that many directories open at once while the last of them is listed."""


@pytest.fixture
def notes(home):
    home.write("MEMORY.md", "pump\n")
    home.write(f"memory/{DEEP}/far.md", "boiler\n")


async def test_a_search_says_which_directory_it_could_not_list(home, notes, paths_of):
    async with home.open() as backend:
        assert await paths_of(backend, "nothing at all") == []
        home.write(f"memory/{DEEP}/new.md", "the unique7 boiler\n")
        with descriptors_left(8):
            stale = await stale_of(backend, "unique7")
        assert stale is not None and stale.files == 0
        assert stale.reason.startswith("'memory/a/b")
        assert stale.reason.endswith(" cannot be listed: Too many open files")
        assert await stale_of(backend, "unique7") is None
        assert await paths_of(backend, "unique7") == [f"memory/{DEEP}/new.md"]


async def test_a_search_says_which_file_it_could_not_read(home, notes, paths_of):
    async with home.open() as backend:
        assert await paths_of(backend, "pump") == ["MEMORY.md"]
        home.write("MEMORY.md", "valve\n")
        with descriptors_left(1):
            stale = await stale_of(backend, "valve")
        assert stale is not None and stale.files == 1
        assert stale.reason == "'memory' cannot be listed: Too many open files (and 1 more)"
        assert await paths_of(backend, "valve") == ["MEMORY.md"]


async def test_a_search_that_does_not_look_at_the_disk_tells_what_the_last_sync_could_not_read(
    home, notes, quiet, paths_of
):
    home.configure(**quiet)
    async with home.open() as backend:
        await paths_of(backend, "boiler")
        with descriptors_left(8):
            await backend.sync(SyncRequest())
        stale = await stale_of(backend)
        assert stale is not None and "cannot be listed" in stale.reason
        await backend.sync(SyncRequest())
        assert await stale_of(backend) is None
        assert await paths_of(backend, "boiler") == [f"memory/{DEEP}/far.md"]


async def test_what_needs_somebodys_doing_is_a_matter_of_empty_answers_alone(
    public_home, unprivileged
):
    """A directory or a file that this user may not read is named in `status`, and in answers that found nothing."""
    public_home.write("memory/closed/a.md", "boiler\n")
    note = public_home.write("memory/note.md", "pump\n")
    async with public_home.open() as backend:
        assert await stale_of(backend, "pump") is None
        closed = public_home.workspace / "memory/closed"
        closed.chmod(0)
        with unprivileged():
            assert await stale_of(backend, "pump") is None
            of_directory = await backend.search(SearchRequest(query="zeppelin"))
            status = await backend.status()
        closed.chmod(0o755)
        note.chmod(0)
        with unprivileged():
            assert await stale_of(backend, "boiler") is None
            of_file = await backend.search(SearchRequest(query="zeppelin"))
        note.chmod(0o644)
        level = await backend.search(SearchRequest(query="zeppelin"))
    assert [one.path for one in status.skipped] == ["memory/closed"]
    assert of_directory.outcome == of_file.outcome == "partial"
    assert of_directory.stale.reason.startswith("'memory/closed' cannot be listed: Permission")
    assert (of_file.stale.files, "memory/note.md" in of_file.stale.reason) == (1, True)
    assert (level.outcome, level.stale) == ("empty", None)
