"""A large backlog gets its vectors from a batch job; notes saved meanwhile do not wait for it.

The work of jobs with their store is tested over each store (here, and their records in `store/test_port`); their work
with a vendor, and restarts, over a file alone: 1,150 notes have to be indexed first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import anyio
import pytest

from backends.builtin.embedding.batch_jobs import THRESHOLD
from backends.interface import SearchRequest, SyncRequest
from config.runtime.tasks import SearchPriority

pytestmark = pytest.mark.anyio


@pytest.mark.every_vendor
@pytest.mark.every_store
async def test_a_large_backlog_is_embedded_by_one_job_of_many_files(
    embedding_home, vendor, batches, backlog, in_jobs, embedded, job_in
):
    async with embedding_home.open() as backend:
        report = await embedded(backend)
        job = await job_in(backend, "closed")
    assert report["coverage"]["embedded"] == backlog
    assert (len(batches.jobs), len(batches.texts())) == (1, in_jobs)
    assert (job["outcome"], job["stored"], job["refused"]) == ("completed", in_jobs, 0)
    ordinary = vendor.embedded()
    assert len(ordinary) == backlog - in_jobs
    assert set(Counter([*ordinary, *batches.texts()]).values()) == {1}


@pytest.mark.every_vendor
@pytest.mark.every_store
async def test_every_text_gets_the_vector_of_its_own_words(
    embedding_home, batches, backlog, embedded
):
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        for number in (0, 117, 202):
            answer = await backend.search(SearchRequest(query=f"boiler {number}", max_results=1))
            assert answer.hits[0].path == f"memory/{number:04}.md"
            assert answer.mode == "hybrid"


@pytest.mark.every_vendor
async def test_the_files_of_a_job_are_deleted_at_the_vendor(
    embedding_home, batches, backlog, job_in
):
    batches.refuses = lambda text: text.startswith("The boiler number 10.")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "closed")
    assert (batches.uploads, batches.files) == (1, {})


@pytest.mark.every_vendor
async def test_no_key_is_in_what_is_uploaded(embedding_home, vendor, batches, backlog, job_in):
    batches.held = True
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "in_progress")
    uploaded = b"".join(content for _, content in batches.files.values())
    assert b"The boiler number" in uploaded
    assert vendor.key.encode() not in uploaded
    shown = [
        (one.path, one.body, job.marks) for one in vendor.requests for job in batches.jobs.values()
    ]
    assert vendor.key not in repr(shown)


@pytest.mark.every_store
async def test_a_note_saved_while_a_job_goes_on_is_embedded_at_once(
    embedding_home, vendor, batches, backlog, job_in, until
):
    batches.held = True
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "in_progress")
        embedding_home.write("memory/now.md", "A kingfisher sat on the weir.\n")
        await backend.sync(SyncRequest())
        await until(lambda: "A kingfisher sat on the weir." in vendor.embedded())
        answer = await backend.search(SearchRequest(query="kingfisher weir"))
        assert answer.hits[0].path == "memory/now.md"
    assert len(batches.jobs) == 1


async def test_vectors_that_are_stored_let_searches_go_first(
    embedding_home, batches, backlog, job_in, monkeypatch
):
    kinds: set[str] = set()
    polite = SearchPriority.polite

    def noting(priority: SearchPriority, kind: str, work: Callable[[], None]) -> Callable[[], None]:
        kinds.add(kind)
        return polite(priority, kind, work)

    monkeypatch.setattr(SearchPriority, "polite", noting)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "closed")
    assert {"results", "embeddings"} <= kinds


async def test_the_newest_notes_of_a_backlog_do_not_wait_for_its_job(
    embedding_home, vendor, batches, backlog, until
):
    batches.held = True
    embedding_home.write("memory/now.md", "A kingfisher sat on the weir.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await until(lambda: "A kingfisher sat on the weir." in vendor.embedded())
    assert "A kingfisher sat on the weir." not in batches.texts()


async def test_keyword_search_works_while_a_job_goes_on(embedding_home, batches, backlog, job_in):
    batches.held = True
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "in_progress")
        assert (await backend.search(SearchRequest(query="boiler 117"))).hits


async def test_a_backlog_below_the_threshold_gets_ordinary_requests(
    real_size, embedding_home, batches, batch_with, embedded
):
    batch_with()
    for number in range(THRESHOLD - 1):
        embedding_home.write(f"memory/{number:04}.md", f"The boiler number {number}.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    assert not batches.jobs


async def test_with_batch_switched_off_nothing_is_uploaded(
    embedding_home, batches, backlog, batch_with, batch_report, embedded
):
    batch_with(enabled=False)
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        report = await batch_report(backend)
    assert not batches.uploads
    assert not report["enabled"]
    assert "remote.batch.enabled" in report["reason"]


@pytest.mark.every_store
async def test_status_shows_a_job_that_goes_on(
    embedding_home, batches, backlog, in_jobs, batch_report, job_in
):
    batches.held = True
    async with embedding_home.open() as backend:
        job = await job_in(backend, "in_progress")
        report = await batch_report(backend)
    assert report["waiting"] == in_jobs
    assert (job["state"], job["items"], job["outcome"]) == ("submitted", in_jobs, None)
    assert job["nextPollS"] is not None


async def test_an_edited_note_of_a_job_leaves_no_stale_text_behind(
    embedding_home, batches, backlog, job_in, embedded
):
    batches.held = True
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "in_progress")
        embedding_home.write("memory/0003.md", "Something else.\n")
        await backend.sync(SyncRequest())
        batches.held = False
        report = await embedded(backend)
        await job_in(backend, "closed")
    assert report["coverage"]["embedded"] == report["coverage"]["total"]


async def test_the_vectors_of_the_model_before_stay_until_the_job_is_done(
    embedding_home, vendor, batches, backlog, batch_with, embedded, job_in, vectors_in, until
):
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        await job_in(backend, "closed")
    former, latter = vendor.models
    embedding_home.embed_with(vendor, model=latter)
    batch_with()
    batches.held = True
    async with embedding_home.open() as backend:
        await job_in(backend, "in_progress")
        await until(lambda: vectors_in(embedding_home.index).get(latter))
        assert vectors_in(embedding_home.index)[former] == backlog
        batches.held = False
        await embedded(backend)
        with anyio.fail_after(60):
            while former in vectors_in(embedding_home.index):
                await anyio.sleep(0.01)
