"""The sizes of jobs: as few jobs as can contain a backlog, and smaller ones where the vendor accepts less."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from backends.builtin.embedding import backfill
from backends.builtin.syncing.freshness import Freshness
from backends.interface import SyncRequest

pytestmark = pytest.mark.anyio


@pytest.mark.every_vendor
async def test_what_the_vendor_refuses_as_too_large_goes_into_smaller_jobs(
    vendor, batches, backlog, in_jobs, embedding_home, embedded, until, batch_report
):
    batches.most_enqueued = 60
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        await until(lambda: not batches.files)
        batch = await batch_report(backend)
    assert report["coverage"]["embedded"] == backlog
    paid = Counter([*vendor.embedded(), *batches.texts()])
    assert (len(paid), set(paid.values())) == (backlog, {1})
    assert (batch["enabled"], batch["failures"]) == (True, 0)
    assert 20 <= batch["capacity"] <= batches.most_enqueued
    assert len(batches.texts()) > in_jobs // 2


async def test_what_was_learned_holds_for_the_next_backlog(
    batches, backlog, embedding_home, embedded, job_in, look
):
    batches.most_enqueued = 120
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        await job_in(backend, "closed")
    with look(embedding_home.index) as db:
        db.execute("DELETE FROM embeddings")
    refused = len(batches.refused)
    async with embedding_home.open() as backend:
        await embedded(backend)
        await job_in(backend, "closed")
    assert (refused, len(batches.refused)) == (1, 1)


async def test_a_vendor_that_takes_not_even_a_small_job_gets_ordinary_requests(
    vendor, batches, backlog, embedding_home, embedded, batch_report
):
    batches.most_enqueued = 0
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        batch = await batch_report(backend)
    assert report["coverage"]["embedded"] == len(vendor.embedded()) == backlog
    assert batch["failures"] > 0


@pytest.fixture
def syncing(monkeypatch):
    """A sync that continues until this event is set; the notes are in the index meanwhile."""
    ended = threading.Event()
    monkeypatch.setattr(Freshness, "is_syncing", lambda _self: not ended.is_set())
    return ended


async def test_no_job_is_made_while_a_sync_goes_on(
    vendor,
    batches,
    backlog,
    in_jobs,
    embedding_home,
    indexed_alone,
    syncing,
    until,
    job_in,
    monkeypatch,
):
    monkeypatch.setattr(backfill, "QUIET_BEFORE_JOBS_S", 1.0)
    for number in range(160):
        embedding_home.write(f"memory/more-{number:04}.md", f"The kettle number {number}.\n")
    await indexed_alone(embedding_home)
    async with embedding_home.open() as backend:
        # Each time a job could be made, the newest texts are embedded first.
        await until(lambda: len(vendor.embedded()) >= 2 * (backlog - in_jobs))
        assert not batches.uploads
        syncing.set()
        await job_in(backend, "closed")
    assert len(batches.jobs) == 1


async def test_growth_that_does_not_end_is_not_waited_for(
    batches, backlog, embedding_home, syncing, job_in, monkeypatch
):
    monkeypatch.setattr(backfill, "LONGEST_GROWTH_S", 0.0)
    async with embedding_home.open() as backend:
        await job_in(backend, "closed")
    assert not syncing.is_set()
    assert len(batches.jobs) == 1
