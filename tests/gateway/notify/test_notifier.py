"""Messages to the service manager, over a real socket."""

from __future__ import annotations

import os
import time

import anyio
import pytest

from fakes.service_manager import NotifyReceiver
from gateway.notify import Notifier, notifying

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["path", "abstract"])
def receiver(request, tmp_path, monkeypatch):
    with NotifyReceiver(tmp_path / "notify" if request.param == "path" else None) as heard:
        monkeypatch.setenv("NOTIFY_SOCKET", heard.address)
        yield heard


@pytest.fixture
def notifier(receiver):
    with notifying() as opened:
        yield opened


async def test_every_state_is_told(receiver, notifier):
    assert notifier.listens
    notifier.ready("Agent main:\n ok – 茶叶.")
    assert receiver.wait_for("READY") == "READY=1"
    assert receiver.wait_for("STATUS") == "STATUS=Agent main: ok – 茶叶."
    before = time.monotonic_ns() // 1000
    notifier.reloading()
    name, stamp = receiver.wait_for("RELOADING").split("\n")
    assert name == "RELOADING=1"
    assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    notifier.stopping()
    receiver.wait_for("STOPPING=1")


async def test_the_same_status_is_told_once(receiver, notifier):
    for status in ("one", "one", "two"):
        notifier.status(status)
    receiver.wait_for("STATUS=two")
    assert receiver.heard == ["STATUS=one", "STATUS=two"]


async def test_the_watchdog_hears_of_us_several_times_a_period(receiver):
    environment = {
        "NOTIFY_SOCKET": receiver.address,
        "WATCHDOG_USEC": "90000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    started = time.monotonic()
    with notifying(environment) as notifier:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notifier.keep_alive)
            for _ in range(4):
                await anyio.to_thread.run_sync(receiver.wait_for, "WATCHDOG=1")
            tasks.cancel_scope.cancel()
    assert time.monotonic() - started >= 0.08


@pytest.mark.parametrize(
    "watchdog",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "x"},
        {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"},
    ],
)
async def test_a_watchdog_that_is_not_for_us_hears_nothing(receiver, watchdog):
    with (
        notifying({"NOTIFY_SOCKET": receiver.address} | watchdog) as notifier,
        anyio.fail_after(30),
    ):
        await notifier.keep_alive()


async def test_where_nobody_listens_nothing_happens(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    with notifying() as notifier:
        assert not notifier.listens
        notifier.ready("x")
        notifier.stopping()
        await notifier.keep_alive()


async def test_a_manager_that_is_not_there_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with notifying() as notifier:
        assert not notifier.listens
        notifier.ready("x")


async def test_a_manager_that_went_away_is_no_error(receiver, notifier):
    receiver.__exit__()
    notifier.status("still here")


async def test_a_notifier_without_a_way_to_send_is_silent():
    Notifier().status("x")
