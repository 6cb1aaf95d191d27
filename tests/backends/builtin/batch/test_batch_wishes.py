"""A person's request to cancel a job stays in force, whatever happens to the job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from backends.builtin.embedding import batch_jobs
from backends.builtin.embedding.batch_jobs import Verdicts
from backends.builtin.store.port import BY_REQUEST
from backends.builtin.store.sqlite.store import SqliteStore
from config.settings import BatchSettings
from fakes.settings import make_settings, remote
from providers.batch import find_batch
from providers.choosing import choose
from providers.provider_interface import (
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTransientError,
)

UNAVAILABLE = ProviderTransientError("HTTP 503", status=503)
TEXTS = [bytes([number]) * 16 for number in range(200)]


class Jobs:
    """One job in a real index, and the decisions about it."""

    def __init__(self, store, verdicts, digest):
        self.store = store
        self.verdicts = verdicts
        self.digest = digest
        with store.writer() as writer:
            batch_jobs.new_job(writer, digest, TEXTS)

    def read(self):
        with self.store.view() as view:
            (job,) = view.jobs.recent()
        return job

    def save(self, job):
        with self.store.writer() as writer:
            writer.jobs.save(job)

    def cancel(self):
        with self.store.writer() as writer:
            assert writer.jobs.ask_to_cancel(self.read().id)

    def switch(self):
        with self.store.view() as view:
            return batch_jobs.switch_of(view, self.digest)

    def is_cancelled(self):
        job, batch = self.read(), self.switch()
        return (job.outcome, job.reason, batch.reason, batch.failures, batch.off_until_ms > 0) == (
            "cancelled", BY_REQUEST, BY_REQUEST, 0, True
        )  # fmt: skip


@pytest.fixture
def jobs(tmp_path):
    search = {"provider": "openai", "remote": remote("http://127.0.0.1:9/v1", "key")}
    settings = make_settings(tmp_path, search=search)
    access = find_batch(settings, choose(settings))
    store = SqliteStore(settings.search.store.path)
    yield Jobs(store, Verdicts(store, access, BatchSettings()), access.fingerprint.digest())
    store.close()


def test_a_job_that_is_cancelled_after_a_setback_ends_by_request_and_not_for_that(jobs):
    jobs.save(replace(jobs.read(), state="submitted"))
    jobs.verdicts.stumbled(jobs.read(), UNAVAILABLE)
    assert jobs.read().reason == "HTTP 503"
    jobs.cancel()
    assert jobs.read().reason == BY_REQUEST
    jobs.verdicts.stumbled(jobs.read(), UNAVAILABLE)  # as after the request to the vendor
    assert jobs.read().reason == BY_REQUEST
    jobs.verdicts.end(replace(jobs.read(), outcome="cancelled"))
    assert jobs.is_cancelled()


def test_a_wish_that_comes_while_a_step_is_taken_is_kept_with_its_reason(jobs):
    before = replace(jobs.read(), state="uploaded")
    jobs.cancel()
    jobs.save(replace(before, reason="HTTP 503"))
    after = jobs.read()
    assert (after.state, after.cancelling, after.reason) == ("uploaded", True, BY_REQUEST)


def test_a_job_that_nobody_wants_is_not_divided_when_it_is_too_large(jobs):
    before = replace(jobs.read(), state="uploaded")
    jobs.save(before)
    jobs.cancel()
    for attempt in range(5):
        jobs.verdicts.stumbled(replace(before, attempts=attempt), ProviderRateLimitError("Slow."))
    assert jobs.is_cancelled()


def test_a_job_that_nobody_wants_and_the_vendor_refuses_is_cancelled(jobs):
    before = replace(jobs.read(), state="uploaded")
    jobs.save(before)
    jobs.cancel()
    jobs.verdicts.stumbled(before, ProviderRejectedError("No."))
    assert jobs.is_cancelled()


@pytest.mark.parametrize("knows_of_it", [True, False])
def test_a_job_that_was_done_before_it_could_be_cancelled_is_a_success(jobs, knows_of_it):
    before = replace(jobs.read(), state="submitted")
    jobs.save(before)
    jobs.cancel()
    done = replace(jobs.read() if knows_of_it else before, state="ended", outcome="completed")
    jobs.save(done)
    jobs.verdicts.end(done)
    job = jobs.read()
    assert (job.outcome, job.reason, jobs.switch().off_until_ms) == ("completed", None, 0)


def test_a_job_that_nobody_wants_and_that_expires_is_cancelled(jobs):
    jobs.save(replace(jobs.read(), state="submitted"))
    jobs.cancel()
    jobs.verdicts.end(replace(jobs.read(), outcome="expired"))
    assert jobs.is_cancelled()


def test_a_wish_that_comes_when_the_job_is_being_given_up_for_its_time_counts(jobs):
    before = replace(jobs.read(), state="submitted", cancelling=True, reason="It took too long.")
    jobs.save(before)
    jobs.cancel()
    jobs.save(before)
    jobs.verdicts.end(replace(before, outcome="cancelled"))
    assert jobs.is_cancelled()


def test_a_waiting_job_that_nobody_wants_is_not_divided_with_another(jobs):
    with jobs.store.writer() as writer:
        batch_jobs.new_job(writer, jobs.digest, [bytes([number]) * 15 for number in range(200)])
        waiting, begun = writer.jobs.recent()
        assert writer.jobs.ask_to_cancel(waiting.id)
        assert batch_jobs.divide(writer, replace(begun, state="uploaded"), "Too large.")
        states = {job.id: job.state for job in writer.jobs.recent()}
    assert states[waiting.id] == "prepared"
