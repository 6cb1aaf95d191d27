"""The batch jobs of each vendor, and what is said of those that have none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from backends.builtin.batch.claiming import KEPT_BACK
from backends.interface import SyncRequest
from fakes.vendors import FakeVendor

pytestmark = pytest.mark.anyio


@pytest.fixture
def at(embedding_home, backlog):
    """Moves the agent with its backlog to another vendor."""

    def move(host):
        batch = embedding_home.settings.search.remote.batch
        embedding_home.embed_with(host)
        search = embedding_home.settings.search
        remote = replace(search.remote, batch=batch)
        search = replace(search, remote=remote)
        embedding_home.settings = replace(embedding_home.settings, search=search)

    return move


async def test_voyage_embeds_a_large_backlog_by_a_job(
    embedding_home, at, backlog, in_jobs, embedded, job_in
):
    with FakeVendor("voyage") as host:
        batches = host.with_batches(refuses=lambda text: text.endswith("77."))
        at(host)
        async with embedding_home.open() as backend:
            await backend.sync(SyncRequest())
            report = await embedded(backend)
            job = await job_in(backend, "closed")
    refused = sum(map(batches.refuses, batches.texts()))
    assert report["coverage"]["embedded"] + report["coverage"]["failed"] == backlog
    assert (job["stored"], job["refused"]) == (in_jobs - refused, refused)
    assert (batches.uploads, len(batches.jobs), batches.files) == (1, 1, {})
    assert len(host.embedded()) in (KEPT_BACK, KEPT_BACK + refused)


@pytest.mark.parametrize("answer", ["upload", "create"])
async def test_an_answer_of_voyage_that_got_lost_causes_no_second_job(
    answer, embedding_home, at, backlog, embedded
):
    with FakeVendor("voyage") as host:
        batches = host.with_batches(loses=[answer])
        at(host)
        async with embedding_home.open() as backend:
            await backend.sync(SyncRequest())
            report = await embedded(backend)
    assert report["coverage"]["embedded"] == backlog
    assert (batches.uploads, len(batches.jobs)) == (1, 1)


async def test_a_job_of_voyage_that_takes_too_long_is_cancelled(
    embedding_home, at, backlog, embedded, batch_with, job_in
):
    with FakeVendor("voyage") as host:
        batches = host.with_batches(held=True, share=0.2)
        at(host)
        batch_with(timeout_minutes=0)
        async with embedding_home.open() as backend:
            await backend.sync(SyncRequest())
            report = await embedded(backend)
            job = await job_in(backend, "closed")
    assert report["coverage"]["embedded"] == backlog
    assert (job["outcome"], len(batches.jobs)) == ("cancelled", 1)


async def test_gemini_gets_ordinary_requests_and_status_says_why(
    embedding_home, at, backlog, embedded, batch_report
):
    with FakeVendor("gemini") as host:
        at(host)
        async with embedding_home.open() as backend:
            await backend.sync(SyncRequest())
            report = await embedded(backend)
            batch = await batch_report(backend)
    assert report["coverage"]["embedded"] == len(host.embedded()) == backlog
    assert not batch["enabled"]
    assert "Gemini" in batch["reason"]
