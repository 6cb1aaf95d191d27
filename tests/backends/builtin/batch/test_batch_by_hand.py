"""A person looks at the jobs from another process and cancels one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from anyio.to_thread import run_sync

from backends.builtin.embedding.batch_jobs import cancel_job, list_jobs
from backends.interface import SyncRequest

pytestmark = pytest.mark.anyio

_BY_HAND = """
import sys
from pathlib import Path
from backends.builtin.embedding.batch_jobs import cancel_job
from backends.builtin.store.sqlite import connections, store
from fakes.settings import make_settings
for module in (connections, store):
    module.PATIENCE_S = 60.0  # a disk that takes its time is nobody's fault
print(cancel_job(make_settings(Path(sys.argv[1])), 1))
"""


async def test_a_job_cancelled_from_another_process_ends_and_makes_no_other_for_a_while(
    python, environment, vendor, batches, backlog, embedding_home, embedded, job_in, batch_report
):
    batches.held, batches.share = True, 0.1
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await job_in(backend, "in_progress")
        command = [*python, _BY_HAND, str(embedding_home.root)]
        done = await run_sync(
            lambda: subprocess.run(
                command, env=environment, capture_output=True, text=True, encoding="utf-8",
                check=True, timeout=120,
            )
        )  # fmt: skip
        assert done.stdout.strip() == "True"
        report = await embedded(backend)
        job = await job_in(backend, "closed")
        batch = await batch_report(backend)
    assert report["coverage"]["embedded"] == backlog
    assert (job["outcome"], len(batches.jobs)) == ("cancelled", 1)
    assert (batch["enabled"], batch["reason"]) == (False, "It was cancelled on request.")


async def test_without_an_index_there_are_no_jobs_and_no_index_is_made(embedding_home):
    assert list_jobs(embedding_home.settings) == ()
    assert not cancel_job(embedding_home.settings, 1)
    assert not embedding_home.index.exists()


async def test_the_command_line_lists_and_cancels(tmp_path, environment):
    environment |= {"OPENCLAW_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}

    def run(*arguments):
        command = [sys.executable, "-m", "gateway", "batch", *arguments]
        return subprocess.run(
            command,
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )

    assert json.loads(run("list", "--json").stdout) == {"jobs": []}
    assert "There are no batch jobs." in run("list").stderr
    refused = run("cancel", "7")
    assert refused.returncode != 0
    assert "No job 7" in refused.stderr
