"""An index is copied into another store without embedding a text again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from backends.builtin.backend import open_builtin, open_store
from backends.builtin.copying import copy_index
from backends.builtin.embedding.batch_jobs import new_job
from backends.interface import IndexUnavailableError, SyncRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def moved(embedding_home):
    """The same agent with its index elsewhere."""
    search = embedding_home.settings.search
    path = embedding_home.root / "elsewhere" / "main.sqlite"
    store = replace(search.store, path=path, former_path=None)
    return replace(embedding_home.settings, search=replace(search, store=store))


@pytest.fixture
def copied(embedding_home, moved):
    async def copy(**callbacks):
        async with open_store(embedding_home.settings) as old, open_store(moved) as new:
            return await copy_index(moved, old, new, **callbacks)

    return copy


@pytest.fixture
async def filled(embedding_home, vendor, long_note, embedded):
    """An index with vectors, of which the vendor remembers nothing."""
    for number in range(4):
        embedding_home.write(f"memory/{number}.md", long_note(number, number + 10))
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    vendor.requests.clear()


async def test_a_copy_answers_alike_and_nothing_is_embedded_again(
    embedding_home, moved, copied, filled, vendor, hits_of, embedded
):
    seen = []
    report = await copied(on_vectors=seen.append)
    assert (report.files, report.lacking, report.remarks) == (4, 0, ())
    assert report.vectors == seen[-1].done == seen[-1].total > 4
    async with open_builtin(moved) as backend:
        coverage = (await embedded(backend))["coverage"]
        assert coverage["embedded"] == coverage["stored"] == report.vectors
        after = await hits_of(backend, "boiler of part 12")
    async with embedding_home.open() as backend:
        assert after == await hits_of(backend, "boiler of part 12")
    assert set(vendor.embedded()) == {"boiler of part 12"}


async def test_an_interrupted_copy_goes_on_where_it_was(moved, copied, filled, monkeypatch):
    monkeypatch.setattr("backends.builtin.copying._VECTORS_A_STEP", 3)

    def give_up(progress):
        if progress.done >= 6:
            raise IndexUnavailableError("The database went away.")

    with pytest.raises(IndexUnavailableError, match="went away"):
        await copied(on_vectors=give_up)
    rest = await copied()
    assert (rest.sync.changed, rest.sync.added, rest.lacking) == (0, 0, 0)
    assert rest.vectors > 0
    async with open_store(moved) as store:
        with store.view() as view:
            (mark,) = view.embeddings.fingerprints()
            assert view.embeddings.coverage(mark).embedded == rest.vectors + 6
    assert (await copied()).vectors == 0


async def test_batch_jobs_under_way_come_along_once_with_what_waits_for_them(
    embedding_home, moved, copied, filled
):
    embedding_home.write("memory/new.md", "The cellar is dry.\n")
    async with open_store(embedding_home.settings) as store:
        async with open_builtin(embedding_home.settings, background=False, store=store) as backend:
            await backend.sync(SyncRequest())
        with store.writer() as writer:
            (mark,) = writer.embeddings.fingerprints()
            waiting = [text_hash for text_hash, _ in writer.embeddings.backlog(mark)]
            new_job(writer, mark.digest(), waiting)
            label = writer.jobs.recent()[0].label
    first, second = await copied(), await copied()
    assert (first.jobs, first.lacking, second.jobs) == (1, 0, 0)
    async with open_store(moved) as store:
        with store.view() as view:
            (job,) = view.jobs.recent()
            assert (job.label, view.jobs.waiting_hashes(job)) == (label, set(waiting))


async def test_files_that_are_not_on_this_disk_are_told(embedding_home, copied, filled):
    (embedding_home.workspace / "memory/3.md").unlink()
    report = await copied()
    assert report.files == 3
    assert "1 more files: they are not on this host's disk" in report.remarks[0]
