"""A job outlives its process: killed at any point and started again, nothing is submitted twice."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from backends.interface import SyncRequest

pytestmark = pytest.mark.anyio

_PROCESS = """
import sys, anyio
from pathlib import Path
from backends.builtin.backend import open_builtin
from fakes.batches import make_small
from backends.interface import SyncRequest
from config.settings import BatchSettings
from fakes.settings import make_settings, remote
from msgspec.structs import replace

async def main(root, provider, url, key):
    access = replace(remote(url, key), batch=BatchSettings(poll_interval_ms=10))
    settings = make_settings(Path(root), search={"provider": provider, "remote": access})
    async with open_builtin(settings) as backend:
        await backend.sync(SyncRequest())
        await anyio.sleep_forever()

make_small()
anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def killed_when(python, environment, embedding_home, vendor, until):
    """Lets a process work on the backlog, and kills it as soon as a condition holds."""

    async def run(condition):
        arguments = [str(embedding_home.root), vendor.vendor, vendor.base_url, vendor.key]
        command = [*python, _PROCESS, *arguments]
        with subprocess.Popen(command, env=environment) as process:
            try:
                await until(condition)
            finally:
                process.kill()

    return run


@pytest.mark.parametrize("point", ["files", "upload", "create", "look", "read", "delete"])
async def test_a_process_killed_while_it_waits_for_an_answer_costs_nothing(
    point, vendor, batches, backlog, in_jobs, embedding_home, killed_when, embedded, job_in
):
    batches.stalls = point
    await killed_when(lambda: batches.stalled)
    batches.stalls = None
    async with embedding_home.open() as backend:
        report = await embedded(backend)
        job = await job_in(backend, "closed")
    assert report["coverage"]["embedded"] == backlog
    assert (batches.uploads, len(batches.jobs)) == (1, 1)
    assert (job["outcome"], job["stored"], job["refused"]) == ("completed", in_jobs, 0)
    assert not Counter(batches.texts()) & Counter(vendor.embedded())
    assert batches.files == {}


async def test_what_a_killed_process_read_of_the_results_is_kept(
    vendor, batches, backlog, in_jobs, embedding_home, killed_when, look, embedded, job_in
):
    def is_half_read():
        if not batches.jobs:
            return False
        with look(embedding_home.index) as db:
            return db.execute("SELECT stored FROM batch_jobs").get

    await killed_when(is_half_read)
    async with embedding_home.open() as backend:
        await embedded(backend)
        job = await job_in(backend, "closed")
    assert (len(batches.jobs), job["stored"]) == (1, in_jobs)


async def test_the_record_of_failures_outlives_the_process(
    batches, backlog, embedding_home, embedded, job_in, batch_report
):
    batches.outcome = "failed"
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        await job_in(backend, "closed")
        before = await batch_report(backend)
    async with embedding_home.open() as backend:
        await embedded(backend)
        after = await batch_report(backend)
    assert (after["enabled"], after["failures"]) == (before["enabled"], before["failures"])
    assert after["jobs"][0]["outcome"] == "failed"
