"""A host with batch jobs, a backlog large enough for them, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin.backend import BuiltinBackend
from backends.builtin.batch.claiming import KEPT_BACK, THRESHOLD
from config.settings import BatchSettings
from fakes.batches import FakeBatches

COUNT = THRESHOLD + KEPT_BACK + 50
"""Enough for a second job after a first one that gave nothing."""
QUICK = BatchSettings(poll_interval_ms=10)


@pytest.fixture
def batches(vendor) -> Iterator[FakeBatches]:
    return vendor.with_batches()


@pytest.fixture
def batch_with(embedding_home) -> Callable[..., None]:
    """Configures `remote.batch`."""

    def configure(**fields: Any) -> None:
        search = embedding_home.settings.search
        remote = replace(search.remote, batch=replace(QUICK, **fields))
        settings = replace(embedding_home.settings, search=replace(search, remote=remote))
        embedding_home.settings = settings

    return configure


@pytest.fixture
def backlog(embedding_home, batch_with) -> int:
    """Notes with so many different texts in all."""
    batch_with()
    for number in range(COUNT):
        embedding_home.write(f"memory/{number:04}.md", f"The boiler number {number}.\n")
    return COUNT


@pytest.fixture
def in_jobs(backlog) -> int:
    """How many of the texts go into jobs."""
    return backlog - KEPT_BACK


@pytest.fixture
def batch_report() -> Callable[..., Any]:
    async def read(backend: BuiltinBackend) -> dict[str, Any]:
        return (await backend.status()).details["vector"].get("batch") or {"jobs": ()}

    return read


@pytest.fixture
def job_in(batch_report) -> Callable[..., Any]:
    """Waits until the newest job is in one of these states; returns what `status` says of it."""

    async def wait(backend: BuiltinBackend, *states: str) -> dict[str, Any]:
        with anyio.fail_after(60):
            while True:
                jobs = (await batch_report(backend))["jobs"]
                if jobs and (jobs[0]["state"] in states or jobs[0]["remoteState"] in states):
                    return jobs[0]
                await anyio.sleep(0.01)

    return wait
