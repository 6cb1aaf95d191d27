"""The real process on disks that do not answer: every request is given up, and the process ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from config.errors import ErrorKind, MemoryGatewayError
from fakes import hung_disk
from fakes.hung_disk import HungDisk
from fakes.transcripts import Transcript
from gateway.client import RemoteError, spawn_gateway

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hung_disk.is_possible(), reason=hung_disk.NEEDS),
    pytest.mark.promises_seconds,
]

PROMISED_S = 2.0
PATIENCE_S = 60
NOISE_S = 0.01
"""The seconds by which a median may vary on a machine with other work."""
KEY = "agent:main:main"

METHODS = {
    "memory_search": {"query": "boiler"},
    "memory_get": {"path": "MEMORY.md"},
    "recall": {"prompt": "boiler", "sessionKey": KEY},
    "sync": {"force": True},
    "status": {},
    "health": {},
    "metrics": {},
    "overview": {},
    "reload": {},
    "session_start": {"sessionKey": KEY},
    "memory_flush": {"sessionKey": KEY},
    "memory_flush_done": {"sessionKey": KEY},
    "memory_append": {"text": "An entry.", "sessionKey": KEY},
    "session_updated": {"sessionId": "talk"},
    "tools/call": {"name": "memory_get", "arguments": {"path": "MEMORY.md"}},
    "resources/list": {},
    "resources/read": {"uri": "memory:///MEMORY.md"},
}


@pytest.fixture
def disk(home):
    remembers = {
        "sources": ["memory", "sessions"], "experimental": {"sessionMemory": True},
        "sync": {"watch": False},
    }  # fmt: skip
    home.configure(
        {
            "memory": {"append": {"enabled": True}},
            "agents": {"defaults": {"memorySearch": remembers}},
        }
    )
    sessions = home.state / "agents/main/sessions"
    Transcript(sessions, "talk").say("Where is the ladder?")
    (sessions / "sessions.json").write_text("{}", encoding="utf-8")
    disk = HungDisk(home.root, home.workspace, home.state, home.config)
    yield disk
    disk.answer()


@asynccontextmanager
async def at_work(home, disk):
    """A gateway whose index is up to date, and whose disk can be made to hang."""
    environment = home.environment | disk.environment
    async with spawn_gateway(
        home.arguments, environment=environment, patience_s=PATIENCE_S
    ) as client:
        await client.call("sync", timeout_s=PATIENCE_S)
        try:
            yield client
        finally:
            disk.answer()


@asynccontextmanager
async def asked(client, disk, method):
    """Keeps a request open whose disk hangs; an answered one fails the test."""
    disk.hang()
    async with anyio.create_task_group() as tasks:

        async def ask():
            try:
                await client.call(method, METHODS[method], timeout_s=PATIENCE_S)
            except MemoryGatewayError as error:
                answers.append(error)
            else:
                answers.append(None)

        answers = []
        tasks.start_soon(ask)
        with anyio.fail_after(PATIENCE_S):
            while not (disk.waited or answers):
                await anyio.sleep(0.005)
        assert disk.waited and not answers, "it does not need the disk"
        yield
        tasks.cancel_scope.cancel()


async def seconds_to_end(client):
    started = time.perf_counter()
    code = None
    with anyio.move_on_after(PATIENCE_S):
        code = await client.process.wait()
    assert code == 0
    return time.perf_counter() - started


@pytest.mark.parametrize("method", METHODS)
async def test_a_cancelled_request_is_answered_at_once(home, disk, method):
    async with at_work(home, disk) as client:
        async with asked(client, disk, method):
            pass
        # The client cancelled its request. The next one is answered.
        started = time.perf_counter()
        await client.call("initialize", timeout_s=PATIENCE_S)
        assert time.perf_counter() - started < PROMISED_S


async def test_health_says_within_its_second_that_the_index_does_not_answer(home, disk):
    async with at_work(home, disk) as client:
        disk.hang()
        started = time.perf_counter()
        health = await client.call("health", timeout_s=PATIENCE_S)
        assert time.perf_counter() - started < PROMISED_S
        assert health["status"] == "failing"
        assert "did not answer within" in health["reasons"][0]


@pytest.mark.parametrize("method", METHODS)
async def test_it_ends_with_its_input_whatever_hangs(home, disk, method):
    async with at_work(home, disk) as client, asked(client, disk, method):
        await client.process.stdin.aclose()
        assert await seconds_to_end(client) < PROMISED_S


@pytest.mark.parametrize("method", ["memory_search", "sync", "memory_append"])
async def test_it_ends_by_a_signal_whatever_hangs(home, disk, method):
    async with at_work(home, disk) as client, asked(client, disk, method):
        client.process.send_signal(signal.SIGTERM)
        assert await seconds_to_end(client) < PROMISED_S


async def test_others_are_served_while_more_requests_hang_than_there_are_threads(home, disk):
    disk.environment["HUNG_BELOW"] = str(home.workspace / "memory")
    home.configure({"agents": {"defaults": {"memorySearch": {"sync": {"onSearch": False}}}}})
    async with at_work(home, disk) as client:

        async def took(method, params):
            times = []
            for _ in range(21):
                started = time.perf_counter()
                await client.call(method, params, timeout_s=PATIENCE_S)
                times.append(time.perf_counter() - started)
            return sorted(times)[len(times) // 2]

        others = {name: METHODS[name] for name in ("memory_search", "memory_flush", "health")}
        before = {name: await took(name, params) for name, params in others.items()}
        disk.hang()
        async with anyio.create_task_group() as tasks:

            async def get():
                with suppress(MemoryGatewayError):
                    params = {"path": "memory/2026-02-01.md"}
                    await client.call("memory_get", params, timeout_s=PATIENCE_S)

            for _ in range(46):
                tasks.start_soon(get)
            with anyio.fail_after(PATIENCE_S):
                while disk.waited < 8:
                    await anyio.sleep(0.005)
            for name, params in others.items():
                assert await took(name, params) < 2 * before[name] + NOISE_S, name
            tasks.cancel_scope.cancel()


async def test_a_file_that_hangs_is_answered_as_unreadable_and_an_entry_that_was_given_up_is_not_written(
    home, disk
):
    note = home.workspace / "MEMORY.md"
    before = note.read_bytes()
    async with at_work(home, disk) as client:
        disk.hang()
        found = await client.call("memory_get", METHODS["memory_get"], timeout_s=PATIENCE_S)
        assert "was not read within 10 s" in found["error"]
        params = METHODS["memory_append"] | {"target": "longterm"}
        with pytest.raises(RemoteError) as refused:
            await client.call("memory_append", params, timeout_s=PATIENCE_S)
        assert refused.value.kind is ErrorKind.FILE_UNWRITABLE
        disk.answer()
        await client.call("memory_append", METHODS["memory_append"], timeout_s=PATIENCE_S)
        assert note.read_bytes() == before


@pytest.mark.parametrize(
    ("below", "told"),
    [
        ("state", "the configuration was not read within 20 s"),
        ("state/memory", "The disk of the index did not answer within 10 s"),
    ],
)
async def test_a_disk_that_hangs_at_the_start_is_an_error_in_time(home, below, told):
    (home.state / "memory").mkdir()
    disk = HungDisk(home.root, home.root / below)
    disk.hang()
    command = [sys.executable, "-m", "gateway", "serve", *home.arguments]
    with anyio.fail_after(PATIENCE_S):
        done = await anyio.run_process(
            command,
            env=home.environment | disk.environment,
            check=False,
            input=b"",
            cwd=Path(__file__).parents[2],
        )
    assert disk.waited
    assert done.returncode in {os.EX_UNAVAILABLE, os.EX_CONFIG}, done.stderr
    assert told in done.stderr.decode()
    assert b"hangs" in done.stderr


async def test_a_guest_serves_on_while_the_disk_of_its_lock_hangs(home):
    disk = HungDisk(home.root, home.state / "memory")
    async with home.gateway() as owner:
        await owner.call("sync", timeout_s=PATIENCE_S)
        environment = home.environment | disk.environment
        async with spawn_gateway(
            home.arguments, environment=environment, patience_s=PATIENCE_S
        ) as guest:
            await guest.call("memory_search", {"query": "boiler"}, timeout_s=PATIENCE_S)
            disk.hang()
            owner.process.kill()  # the guest looks for the lock, which does not answer
            with anyio.fail_after(PATIENCE_S):
                while not disk.waited:
                    await anyio.sleep(0.005)
            guest.process.send_signal(signal.SIGTERM)
            assert await seconds_to_end(guest) < PROMISED_S
            disk.answer()
