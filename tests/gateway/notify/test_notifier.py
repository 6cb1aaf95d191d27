"""Messages to the service manager, over a real socket."""

from __future__ import annotations

import os
import re
import time

import anyio
import pytest
from msgspec.structs import replace

from backends.interface import SearchAnswer, SyncReport
from config.settings import StoreSettings
from fakes.service_manager import NotifyReceiver
from fakes.settings import make_settings
from gateway.agent.memory import open_memory
from gateway.metrics import Metrics
from gateway.notify import Notifier, describe, notifying, supervised
from gateway.tools.status import Health

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["path", "abstract"])
def receiver(request, tmp_path, monkeypatch):
    with NotifyReceiver(tmp_path / "notify" if request.param == "path" else None) as receiving:
        monkeypatch.setenv("NOTIFY_SOCKET", receiving.address)
        yield receiving


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
        anyio.fail_after(60),
    ):
        await notifier.keep_alive()  # it returns at once
        notifier.status("over")
    receiver.wait_for("STATUS=over")
    assert not [one for one in receiver.heard if "WATCHDOG" in one]


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
    assert notifier.listens


async def test_a_notifier_without_a_way_to_send_is_silent():
    silent = Notifier()
    silent.status("x")
    assert not silent.listens


async def until(messages: list[str], start: str) -> None:
    with anyio.fail_after(60):
        while not any(message.startswith(start) for message in messages):
            await anyio.sleep(0.01)


async def test_ready_waits_for_an_index_that_cannot_answer_yet(tmp_path):
    settings = make_settings(tmp_path, search={"provider": "none"})
    store = StoreSettings(path=tmp_path / "state" / "main.sqlite")
    settings = replace(settings, search=replace(settings.search, store=store))
    messages: list[str] = []
    async with open_memory(settings, background=False) as memory:
        await memory.health()
        store.path.parent.rename(tmp_path / "away")
        store.path.parent.write_text("in the way", encoding="utf-8")
        async with supervised(Notifier(messages.append), memory):
            await until(messages, "STATUS=Cannot answer yet")
            assert "READY=1" not in messages
            store.path.parent.unlink()
            (tmp_path / "away").rename(store.path.parent)
            await until(messages, "READY=1")
            await until(messages, "STATUS=Agent main: ok")


async def test_where_nobody_listens_nothing_is_supervised(tmp_path):
    settings = make_settings(tmp_path, search={"enabled": False})
    async with open_memory(settings) as memory, supervised(Notifier(), memory):
        assert (await memory.health()).status == "ok"


def test_a_fresh_service_says_that_it_is_well():
    assert describe("Agent main", Health("ok"), Metrics()) == "Agent main: ok. 0 searches."


def test_work_done_and_what_is_wrong_are_told_in_one_line():
    metrics = Metrics()
    metrics.searched(SearchAnswer(hits=(), outcome="empty", mode="keyword"), 0.01)
    metrics.synced(
        SyncReport(
            reason="boot", scanned=1200, added=1, changed=0, removed=0, unchanged=0, skipped=(),
            chunks_written=1, bytes_read=1, duration_ms=1, complete=True,
        )
    )  # fmt: skip
    line = describe("Notes", Health("degraded", ("No vectors: refused.", "x")), metrics)
    assert re.fullmatch(
        r"Notes: degraded \(No vectors: refused\)\. "
        r"1,200 files at the last sync \(\d\d:\d\d, boot\), 1 search\.",
        line,
    )
