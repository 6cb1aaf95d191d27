"""Blocking work is waited for only up to a limit, and left behind only once."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import anyio
import pytest
from anyio import from_thread
from anyio.lowlevel import current_token

from config.runtime import tasks as module
from config.runtime.tasks import BoundedWork, run_within

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


@pytest.fixture
def gate():
    """An event for which work waits; it is set at the end so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def name(request):
    return request.node.name


@pytest.fixture
def bounded(name):
    return BoundedWork(name)


def threads_of(name):
    return [one for one in threading.enumerate() if one.name == name]


async def until(condition):
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.sleep(0.001)


async def test_what_the_work_returns_or_raises_reaches_the_caller(bounded):
    assert await bounded.run(lambda: 7, PATIENCE_S) == 7
    with pytest.raises(KeyError, match="lost"):
        await bounded.run(lambda: {}["lost"], PATIENCE_S)


async def test_work_that_hangs_is_left_behind(bounded, gate):
    with pytest.raises(TimeoutError):
        await bounded.run(gate.wait, 0.01)


async def test_while_work_hangs_no_other_begins(bounded, gate):
    with pytest.raises(TimeoutError):
        await bounded.run(gate.wait, 0.01)
    begun = []
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await bounded.run(lambda: begun.append(1), PATIENCE_S, queue_s=0.01)
    assert not begun


async def test_work_goes_on_as_soon_as_the_one_that_hung_has_ended(bounded, gate):
    with pytest.raises(TimeoutError):
        await bounded.run(gate.wait, 0.01)
    gate.set()
    assert await bounded.run(lambda: 7, PATIENCE_S, queue_s=PATIENCE_S) == 7


async def test_one_piece_of_work_runs_at_a_time(bounded):
    inside = []

    def work() -> int:
        inside.append(1)
        count = len(inside)
        inside.pop()
        return count

    async def run() -> None:
        assert await bounded.run(work, PATIENCE_S, queue_s=PATIENCE_S) == 1

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(run)


async def test_the_next_piece_of_work_finds_the_thread_of_the_one_before(name, bounded):
    threads = {await bounded.run(threading.get_ident, PATIENCE_S) for _ in range(20)}
    assert len(threads) == len(threads_of(name)) == 1


async def test_a_thread_that_nobody_needs_ends_and_another_comes_when_there_is_work(
    name, bounded, monkeypatch
):
    monkeypatch.setattr(module, "IDLE_S", 0.001)
    for _ in range(5):
        assert await bounded.run(lambda: 7, PATIENCE_S) == 7
        await until(lambda: not threads_of(name))


async def test_work_that_comes_as_its_thread_is_about_to_end_is_done(bounded, monkeypatch):
    monkeypatch.setattr(module, "IDLE_S", 0.0)
    for _ in range(200):
        assert await bounded.run(lambda: 7, PATIENCE_S) == 7


async def test_a_thread_that_waits_holds_nothing_of_its_last_work(name, bounded):
    class Result:
        pass

    reference = weakref.ref(await bounded.run(Result, PATIENCE_S))

    def is_gone():
        gc.collect()
        return reference() is None

    await until(is_gone)
    assert threads_of(name)


async def test_work_may_last_as_long_as_it_makes_steps(bounded, gate):
    asked = []

    def last_step():
        asked.append(time.monotonic())
        if len(asked) == 3:
            gate.set()
        return asked[-1]

    assert await bounded.run(gate.wait, 0.01, last_step=last_step)
    gate.clear()
    with pytest.raises(TimeoutError):
        await bounded.run(gate.wait, 0.01, last_step=lambda: asked[0])


async def test_a_cancelled_caller_leaves_at_once(bounded, gate):
    with anyio.fail_after(PATIENCE_S), anyio.CancelScope() as scope:
        scope.cancel()
        await bounded.run(gate.wait, 1000.0)
    assert scope.cancelled_caught


def test_work_may_outlive_the_event_loop(name, bounded, gate):
    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await bounded.run(gate.wait, 0.01)

    anyio.run(leave)
    (thread,) = threads_of(name)
    assert thread.daemon
    gate.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


async def test_as_many_run_at_once_as_are_allowed_and_the_next_finds_the_place_of_one_that_ended(
    gate,
):
    pair = BoundedWork("pair", at_once=2)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await pair.run(gate.wait, 0.01)
    with pytest.raises(TimeoutError):
        await pair.run(lambda: 7, PATIENCE_S, queue_s=0.01)
    gate.set()
    assert await pair.run(lambda: 7, PATIENCE_S, queue_s=PATIENCE_S) == 7
    await until(lambda: not any(one.busy for one in threads_of("pair")))


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_comes_of_work_that_was_left_behind_is_given_back(bounded, gate, cancelled):
    given_back = []

    def work():
        gate.wait()
        return "lock"

    if cancelled:
        with anyio.move_on_after(0.01):
            await bounded.run(work, PATIENCE_S, discard=given_back.append)
    else:
        with pytest.raises(TimeoutError):
            await bounded.run(work, 0.01, discard=given_back.append)
    assert given_back == []
    gate.set()
    await until(lambda: given_back == ["lock"])
    assert await bounded.run(lambda: 7, PATIENCE_S, discard=given_back.append) == 7
    assert given_back == ["lock"]


async def test_what_came_of_work_whose_caller_was_cancelled_at_its_end_is_given_back_by_a_thread():
    """On the event loop it would wait for ever for the loop itself, as the end of watches does."""
    given_back, scope, token = [], anyio.CancelScope(), current_token()

    class CancelledAtItsEnd(BoundedWork):
        def _finish(self, worker, done):
            scope.cancel()
            super()._finish(worker, done)

    def give_back(result):
        from_thread.run_sync(given_back.append, result, token=token)

    bounded = CancelledAtItsEnd("cancelled at its end")
    with scope:
        await bounded.run(lambda: "watches", PATIENCE_S, discard=give_back)
    assert scope.cancelled_caught
    await until(lambda: given_back == ["watches"])
    assert await bounded.run(lambda: 7, PATIENCE_S, queue_s=PATIENCE_S) == 7


async def test_kinds_of_work_share_the_threads_that_wait(name):
    pools = [BoundedWork(f"{name} {number}") for number in range(20)]
    threads = {await pool.run(threading.get_ident, PATIENCE_S) for pool in pools}
    assert len(threads) == 1
    assert not threads_of(f"{name} 0")
    assert len(threads_of(f"{name} 19")) == 1


def test_without_an_event_loop_work_is_waited_for_only_so_long(gate):
    assert run_within(lambda: 7, PATIENCE_S) == 7
    with pytest.raises(KeyError, match="lost"):
        run_within(lambda: {}["lost"], PATIENCE_S)
    with pytest.raises(TimeoutError):
        run_within(gate.wait, 0.01)


def test_where_no_thread_can_be_had_work_is_done_all_the_same(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert run_within(lambda: 7, PATIENCE_S) == 7
