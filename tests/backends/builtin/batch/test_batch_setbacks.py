"""Whatever happens to a job, every text gets its vector, and only texts without one are sent again."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin.embedding.batch_jobs import BatchJobs, new_job
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SyncRequest
from config.runtime.tasks import SearchPriority
from config.settings import BatchSettings
from fakes.faults import rate_limited, status
from providers.batch import find_batch
from providers.choosing import choose

pytestmark = pytest.mark.anyio


@pytest.fixture
def indexed(embedding_home, embedded, job_in, batch_report):
    """Indexes the backlog until all texts have vectors; returns the coverage and the report on batch jobs."""

    async def run():
        async with embedding_home.open() as backend:
            await backend.sync(SyncRequest())
            report = await embedded(backend)
            await job_in(backend, "closed")
            return report["coverage"], await batch_report(backend)

    return run


async def test_refused_items_are_retried_singly_by_the_ordinary_path(
    vendor, batches, backlog, indexed, embedding_home, until, vectors_in
):
    batches.refuses = lambda text: text.endswith(("77.", "78."))
    coverage, report = await indexed()
    assert coverage["embedded"] + coverage["failed"] == backlog
    refused = sum(map(batches.refuses, batches.texts()))
    assert refused
    assert (report["jobs"][0]["refused"], report["failures"]) == (refused, 0)
    async with embedding_home.open():
        await until(lambda: sum(vectors_in(embedding_home.index).values()) == backlog)
    sent_again = set(batches.texts()) & set(vendor.embedded())
    assert all(map(batches.refuses, sent_again))
    assert len(batches.jobs) == 1


@pytest.mark.every_vendor
async def test_the_reason_of_a_refused_item_does_not_repeat_its_text(
    vendor, batches, backlog, embedding_home, job_in, look, monkeypatch
):
    monkeypatch.setattr("backends.builtin.store.sqlite.embeddings.FIRST_RETRY_MS", 3_600_000)
    batches.refuses = lambda text: text.endswith("77.")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "closed")
    with look(embedding_home.index) as db:
        reasons = {reason for (reason,) in db.execute("SELECT reason FROM embedding_failures")}
    said = "400, invalid_input" if vendor.vendor == "gemini" else "HTTP 400, invalid_input"
    assert reasons == {f"A batch job refused this text ({said})."}


def _without_every_tenth(_, lines):
    return [line for at, line in enumerate(lines) if at % 10]


def _with_strangers(batches, lines):
    strangers = [batches.result(key, [1.0] * 64) for key in ("ab" * 32, "no id")]
    return [*strangers, *lines, lines[0]]


def _with_garbage(_, lines):
    return [{"nothing": "of use"}, *lines[1:]]


def _with_broken_vectors(batches, lines):
    """Five vectors without length, one that is text, two that are missing, one that is too short."""
    broken = [[0.0] * 64] * 5 + ["text", None, None, [0.5] * 63]
    keys = [line.get("key") or line["custom_id"] for line in lines[: len(broken)]]
    return [*map(batches.result, keys, broken), *lines[len(broken) :]]


@pytest.mark.every_vendor
@pytest.mark.parametrize(
    ("spoil", "lacking"),
    [
        (_without_every_tenth, 21),
        (_with_strangers, 0),
        (_with_garbage, 1),
        (_with_broken_vectors, 9),
    ],
)
async def test_only_the_items_that_came_back_wrong_are_sent_again(
    spoil, lacking, batches, backlog, in_jobs, indexed
):
    batches.spoil = spoil
    coverage, report = await indexed()
    job = report["jobs"][0]
    assert (job["stored"], job["refused"]) == (in_jobs - lacking, lacking)
    assert coverage["embedded"] + coverage["failed"] == backlog
    assert len(batches.jobs) == 1


async def test_a_last_vector_of_another_length_takes_no_other_away(
    batches, backlog, in_jobs, indexed
):
    def shorten_last(host, lines):
        whole = lines[: len(lines) // 100 * 100]  # so that the last line is a slice of its own
        return [*whole, host.result(lines[-1]["custom_id"], [0.5] * 63)]

    batches.spoil = shorten_last
    coverage, report = await indexed()
    assert coverage["embedded"] + coverage["failed"] == backlog
    assert coverage["dimensions"] == 64
    assert len(batches.jobs) == 1
    assert report["jobs"][0]["stored"] == in_jobs // 100 * 100


@pytest.mark.every_vendor
async def test_an_expired_job_gives_what_it_has_and_the_rest_is_sent_in_the_ordinary_way(
    vendor, batches, backlog, in_jobs, indexed
):
    batches.outcome, batches.share = "expired", 0.5
    coverage, report = await indexed()
    given = 0 if vendor.vendor == "gemini" else in_jobs // 2  # Gemini keeps nothing of it
    assert coverage["embedded"] == backlog
    assert (report["jobs"][-1]["outcome"], report["jobs"][-1]["stored"]) == ("expired", given)
    assert len(vendor.embedded()) == backlog - sum(job["stored"] for job in report["jobs"])
    assert set(Counter(vendor.embedded()).values()) == {1}


@pytest.mark.every_vendor
async def test_two_failed_jobs_switch_batch_off_and_the_reason_is_told(
    vendor, batches, backlog, indexed
):
    batches.outcome = "failed"
    coverage, report = await indexed()
    assert coverage["embedded"] == backlog
    assert len(batches.jobs) == 2
    assert (report["enabled"], report["failures"]) == (False, 2)
    assert "A batch job ended as failed" in report["reason"]
    if vendor.vendor != "gemini":  # its library does not give the reason
        assert "internal_error" in report["reason"]
    assert 3500 < report["offForS"] <= 3600
    assert set(Counter(vendor.embedded()).values()) == {1}
    assert not batches.files


async def test_batch_is_tried_again_after_its_pause(
    batches, backlog, indexed, embedding_home, look, embedded, job_in
):
    batches.outcome = "failed"
    await indexed()
    batches.outcome = "completed"
    with look(embedding_home.index) as db:
        db.execute("UPDATE meta SET value = json_set(value, '$.off_until_ms', 1)"
                   " WHERE key = 'batch_switch'")  # fmt: skip
        db.execute("DELETE FROM embeddings")
    async with embedding_home.open() as backend:
        await embedded(backend)
        job = await job_in(backend, "closed")
    assert (len(batches.jobs), job["outcome"]) == (3, "completed")


@pytest.mark.every_vendor
async def test_a_host_without_batch_jobs_is_asked_once_and_sent_no_file(
    vendor, backlog, embedding_home, embedded, batch_report
):
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        batch = await batch_report(backend)
    assert report["coverage"]["embedded"] == backlog
    asked = [seen for seen in vendor.requests if "/files" in seen.path or "batches" in seen.path]
    assert [(seen.method, seen.answered) for seen in asked] == [("GET", 405)]
    assert (batch["enabled"], batch["offForS"] > 23 * 3600) == (False, True)


@pytest.mark.parametrize("fault", [rate_limited("0.05"), status(500), status(503)])
async def test_a_host_that_stumbles_is_asked_again(fault, vendor, batches, backlog, indexed):
    vendor.misbehave(fault, times=2)
    coverage, report = await indexed()
    assert coverage["embedded"] == backlog
    assert (len(batches.jobs), report["failures"]) == (1, 0)


@pytest.mark.every_vendor
@pytest.mark.parametrize("answer", ["upload", "create"])
async def test_an_answer_that_got_lost_causes_no_second_job(answer, batches, backlog, indexed):
    batches.loses = [answer]
    coverage, _ = await indexed()
    assert coverage["embedded"] == backlog
    assert (batches.uploads, len(batches.jobs)) == (1, 1)


@pytest.mark.every_vendor
async def test_a_job_that_takes_too_long_is_cancelled_and_its_results_are_used(
    vendor, batches, backlog, batch_with, embedding_home, embedded, job_in
):
    batch_with(timeout_minutes=0)
    batches.held, batches.share = True, 0.3
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        job = await job_in(backend, "closed")
    assert report["coverage"]["embedded"] == backlog
    assert (job["outcome"], job["stored"] > 0) == ("cancelled", vendor.vendor != "gemini")
    assert "not done within" in job["reason"]


async def test_without_waiting_a_job_may_take_as_long_as_the_vendor_allows(
    batches, backlog, batch_with, embedding_home, job_in, until, vendor
):
    batch_with(timeout_minutes=0, wait=False)
    batches.held = True
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "in_progress")
        polls = len(vendor.requests)
        await until(lambda: len(vendor.requests) > polls + 5)
        assert (await job_in(backend, "submitted"))["outcome"] is None


@pytest.mark.every_vendor
async def test_a_refused_key_ends_the_job_and_shows_nowhere(vendor, batches, backlog, indexed):
    batches.refusal = (401, f"Incorrect API key provided: {vendor.key}", {})
    coverage, report = await indexed()
    assert coverage["embedded"] == backlog
    assert "refused the credential" in report["reason"]
    assert vendor.key not in repr(report)


@pytest.mark.every_vendor
async def test_a_host_that_wants_fewer_new_jobs_is_asked_again(batches, backlog, indexed):
    batches.create_refusals = [(429, "Slow down", {})] * 2
    coverage, report = await indexed()
    assert coverage["embedded"] == backlog
    assert (batches.uploads, len(batches.jobs), report["failures"]) == (1, 1, 0)


@pytest.mark.every_vendor
async def test_a_host_that_takes_files_but_knows_no_jobs_is_left_alone_for_a_day(
    vendor, batches, backlog, indexed
):
    batches.create_refusals = [(404, "Not found", {})]
    coverage, report = await indexed()
    assert coverage["embedded"] == len(vendor.embedded()) == backlog
    assert (batches.uploads, batches.files, report["enabled"]) == (1, {}, False)
    assert report["offForS"] > 23 * 3600
    assert "HTTP 404" in report["reason"]


async def test_where_no_temporary_file_can_be_made_texts_get_ordinary_requests(
    vendor, batches, backlog, indexed, monkeypatch, tmp_path
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    coverage, report = await indexed()
    assert coverage["embedded"] == len(vendor.embedded()) == backlog
    assert (batches.uploads, report["enabled"]) == (0, False)
    assert "temporary file: No such file or directory" in report["reason"]


async def test_a_fault_of_ours_is_no_reason_to_wait_for_ever(
    vendor, batches, backlog, indexed, monkeypatch
):
    monkeypatch.setattr("backends.builtin.store.sqlite.embeddings.SqliteJobs.texts", None)
    coverage, report = await indexed()
    assert coverage["embedded"] == len(vendor.embedded()) == backlog
    assert "Internal fault (TypeError)" in report["reason"]


async def test_jobs_that_are_due_together_share_one_host(vendor, batches, embedding_home, until):
    settings, opened = embedding_home.settings, []
    access = find_batch(settings, choose(settings))

    def open_counted():
        opened.append(access.open())
        return opened[-1]

    store = SqliteStore(embedding_home.index)
    with store.writer() as writer:
        for number in range(2):
            new_job(writer, access.fingerprint.digest(), [bytes([number]) * 16])
        for job in writer.jobs.recent():
            writer.jobs.save(replace(job, state="submitted", remote_id=f"batches/{job.id}"))
    jobs = BatchJobs(
        store,
        replace(access, open=open_counted),
        BatchSettings(poll_interval_ms=10),
        priority=SearchPriority(),
        on_stored=lambda: None,
        on_released=lambda: None,
    )

    def states():
        with store.view() as view:
            return {job.state for job in view.jobs.recent()}

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run)
        await until(lambda: states() == {"closed"})
        tasks.cancel_scope.cancel()
    store.close()
    assert len(opened) == 1
