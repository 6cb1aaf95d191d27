"""Background syncs: no request is lost, and failures are retried with growing pauses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from structlog.testing import capture_logs

from backends.interface import IndexUnavailableError, SyncReport, SyncRequest
from gateway.scheduler import FIRST_RETRY_S, LAST_RETRY_S, SyncScheduler, retry_pause_s

pytestmark = pytest.mark.anyio

WAIT_S = 60


class ScriptedBackend:
    """Does each sync as the script says: waits, fails, or is incomplete."""

    def __init__(self) -> None:
        self.requests: list[SyncRequest] = []
        self.outcomes: list[Exception | bool] = []
        """The outcomes of the next syncs: an error, or whether they are complete."""
        self.added = self.bytes_read = 0
        self.duration_ms = 0.0
        self.hold: anyio.Event | None = None
        self._changed = anyio.Event()

    @property
    def reasons(self) -> list[str]:
        return [request.reason for request in self.requests]

    async def sync(self, request: SyncRequest, *, progress: object = None) -> SyncReport:
        self.requests.append(request)
        self._changed.set()
        self._changed = anyio.Event()
        if self.hold is not None:
            await self.hold.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else True
        if isinstance(outcome, Exception):
            raise outcome
        return SyncReport(
            reason=request.reason, scanned=0, added=self.added, changed=0, removed=0, unchanged=0, skipped=(),
            chunks_written=0, bytes_read=self.bytes_read, duration_ms=self.duration_ms, complete=outcome,
        )  # fmt: skip

    async def until(self, syncs: int) -> None:
        with anyio.fail_after(WAIT_S):
            while len(self.reasons) < syncs:
                await self._changed.wait()
            await anyio.wait_all_tasks_blocked()


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend()


@pytest.fixture
def pauses() -> list[int]:
    """The numbers of failures in a row for which a pause was asked."""
    return []


@pytest.fixture
def running(backend, pauses) -> Callable[..., object]:
    """A scheduler at work; its pauses take no time unless a test gives other ones."""

    @asynccontextmanager
    async def run(
        *, interval_minutes: float = 0, pause_s: Callable[[int], float] | None = None
    ) -> AsyncIterator[SyncScheduler]:
        def at_once(failures: int) -> float:
            pauses.append(failures)
            return 0.0

        scheduler = SyncScheduler(
            backend, interval_minutes=interval_minutes, pause_s=pause_s or at_once
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            yield scheduler
            tasks.cancel_scope.cancel()

    return run


async def test_nothing_runs_that_nobody_asked_for(backend, running):
    async with running():
        await anyio.wait_all_tasks_blocked()
    assert backend.reasons == []


async def test_what_is_asked_for_is_done_once(backend, running):
    async with running() as scheduler:
        scheduler.request("boot")
        await backend.until(1)
    assert backend.reasons == ["boot"]


@pytest.mark.parametrize("force", [True, False])
async def test_a_successor_does_by_force_what_was_promised_so_and_not_begun(backend, force):
    former, scheduler = (SyncScheduler(backend, interval_minutes=0) for _ in range(2))
    former.request("person", force=force)
    scheduler.request("reload")
    former.hand_over(scheduler)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await backend.until(1)
        tasks.cancel_scope.cancel()
    assert backend.requests[0].force is force


async def test_what_was_asked_for_before_the_start_is_done(backend):
    scheduler = SyncScheduler(backend, interval_minutes=0)
    scheduler.request("boot")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await backend.until(1)
        tasks.cancel_scope.cancel()
    assert backend.reasons == ["boot"]


async def test_several_requests_become_one_sync_with_every_reason_once(backend, running):
    async with running() as scheduler:
        for reason in ("boot", "search", "search", "watch"):
            scheduler.request(reason)
        await backend.until(1)
    assert backend.reasons == ["boot, search, watch"]


async def test_requests_during_a_sync_cause_exactly_one_more(backend, running):
    backend.hold = anyio.Event()
    async with running() as scheduler:
        scheduler.request("boot")
        await backend.until(1)
        for _ in range(20):
            scheduler.request("search")
        assert backend.reasons == ["boot"]
        backend.hold.set()
        await backend.until(2)
    assert backend.reasons == ["boot", "search"]


async def test_a_failed_sync_is_tried_again_until_it_succeeds(backend, running, pauses):
    backend.outcomes = [IndexUnavailableError("No disk.")] * 5
    async with running() as scheduler:
        scheduler.request("boot")
        await backend.until(6)
        assert scheduler.last_error is None
    assert backend.reasons == ["boot"] * 6
    assert pauses == [1, 2, 3, 4, 5]


async def test_after_a_success_pauses_begin_anew(backend, running, pauses):
    backend.outcomes = [False, False, True, False, True]
    async with running() as scheduler:
        scheduler.request("boot")
        await backend.until(3)
        scheduler.request("watch")
        await backend.until(5)
    assert pauses == [1, 2, 1]


async def test_the_last_failure_is_remembered_until_a_success(backend, running):
    backend.outcomes = [IndexUnavailableError("No disk.", remedy="Buy one.")]
    async with running(pause_s=lambda _failures: 3600) as scheduler:
        scheduler.request("boot")
        await backend.until(1)
        assert scheduler.last_error == "No disk. Buy one."
        scheduler.request("manual")
        await backend.until(2)
        assert scheduler.last_error is None


async def test_a_fault_of_ours_ends_neither_the_task_nor_the_retries(backend, running):
    backend.outcomes = [ValueError("secret text of a note")]
    async with running(pause_s=lambda _failures: 3600) as scheduler:
        scheduler.request("boot")
        await backend.until(1)
        assert scheduler.last_error is not None
        assert "ValueError" in scheduler.last_error
        assert "secret" not in scheduler.last_error
        scheduler.request("search")
        await backend.until(2)


async def test_an_incomplete_sync_is_followed_up_without_being_an_error(backend, running, pauses):
    backend.outcomes = [False, True]
    async with running() as scheduler:
        scheduler.request("search")
        await backend.until(2)
        assert scheduler.last_error is None
    assert pauses == [1]


async def test_a_request_cuts_a_pause_short_and_no_reason_is_lost_or_repeated(backend, running):
    backend.outcomes = [IndexUnavailableError("No disk.")] * 3
    async with running(pause_s=lambda _failures: 3600) as scheduler:
        scheduler.request("boot")
        for number in range(3):
            await backend.until(number + 1)
            scheduler.request("search")
        await backend.until(4)
    assert backend.reasons == ["boot", "boot, search", "boot, search", "boot, search"]


async def test_an_interval_asks_by_itself_again_and_again(backend, running):
    async with running(interval_minutes=0.01 / 60):
        await backend.until(3)
    assert set(backend.reasons) == {"interval"}


async def test_a_request_is_not_kept_waiting_by_a_long_interval(backend, running):
    async with running(interval_minutes=10**9) as scheduler:
        await anyio.wait_all_tasks_blocked()
        scheduler.request("search")
        await backend.until(1)
    assert backend.reasons == ["search"]


async def test_it_ends_when_it_is_cancelled_in_the_middle_of_a_sync(backend, running):
    backend.hold = anyio.Event()
    with anyio.fail_after(WAIT_S):
        async with running() as scheduler:
            scheduler.request("boot")
            await backend.until(1)
    assert backend.reasons == ["boot"]


def test_pauses_grow_from_a_second_to_five_minutes():
    pauses = [retry_pause_s(failures) for failures in range(1, 12)]
    assert pauses[0] == FIRST_RETRY_S == 1
    assert all(later == min(2 * earlier, LAST_RETRY_S) for earlier, later in pairwise(pauses))
    assert retry_pause_s(10**6) == LAST_RETRY_S == 60


async def test_a_forced_request_during_a_sync_forces_the_next_one(backend, running):
    backend.hold = anyio.Event()
    async with running() as scheduler:
        scheduler.request("boot")
        await backend.until(1)
        scheduler.request("manual", force=True)
        assert scheduler._generations.due().request.reason == "boot, manual"
        backend.hold.set()
        await backend.until(2)
    assert [request.force for request in backend.requests] == [False, True]
    assert scheduler._generations.due() is None


async def test_a_forced_sync_that_fails_is_forced_again(backend, running):
    backend.outcomes = [IndexUnavailableError("No disk."), False, True]
    async with running() as scheduler:
        scheduler.request("manual", force=True)
        await backend.until(3)
    assert [request.force for request in backend.requests] == [True, True, True]


async def test_files_are_verified_by_and_by_without_anybody_asking(backend):
    scheduler = SyncScheduler(backend, interval_minutes=0, verify_every_s=0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await backend.until(2)
        tasks.cancel_scope.cancel()
    assert {(one.reason, one.verify, one.force) for one in backend.requests} == {
        ("verify", True, False)
    }


async def test_the_end_of_the_first_sync_is_told_even_when_it_failed(backend, running):
    backend.outcomes = [IndexUnavailableError("No disk.")]
    async with running(pause_s=lambda _failures: 3600) as scheduler:
        assert not scheduler.attempted.is_set()
        scheduler.request("boot")
        with anyio.fail_after(WAIT_S):
            await scheduler.attempted.wait()


async def test_a_sync_is_told_loudly_only_when_it_changed_something(backend, running):
    with capture_logs() as records:
        async with running() as scheduler:
            for number, added in enumerate((0, 4, 0)):
                backend.added = added
                scheduler.request("poll")
                await backend.until(number + 1)
    assert [(one["event"], one["log_level"], one["added"]) for one in records] == [
        ("synced", "debug", 0),
        ("synced", "info", 4),
        ("synced", "debug", 0),
    ]


async def test_what_a_look_costs_is_told_by_syncs_that_read_and_wrote_nothing(backend, running):
    syncs = (0, 0, 20.0), (3, 90, 9_000.0), (0, 90, 8_000.0)
    async with running() as scheduler:
        for number, (added, bytes_read, duration_ms) in enumerate(syncs):
            backend.added, backend.bytes_read = added, bytes_read
            backend.duration_ms = duration_ms
            scheduler.request("poll")
            await backend.until(number + 1)
    assert scheduler.look_s == 0.02
