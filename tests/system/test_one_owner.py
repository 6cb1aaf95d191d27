"""Several real gateways on one index: one owner, bridges to it, and what happens when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from config.errors import ErrorKind
from fakes.pipe import talk
from gateway.client import GatewayGoneError, RemoteError, SpawnedGateway, spawn_gateway
from gateway.ownership.owner import read_owner

pytestmark = pytest.mark.anyio

WAIT_S = 120


async def pid_behind(client):
    """Returns the number of the process that answers."""
    return (await client.call("status", timeout_s=WAIT_S))["pid"]


async def found(client, query="boiler"):
    result = await client.call("memory_search", {"query": query}, timeout_s=WAIT_S)
    return [hit["path"] for hit in result["results"]]


def lock_of(home):
    return home.state / "memory/main.sqlite.lock"


async def test_a_second_gateway_bridges_to_the_first(home):
    async with home.gateway() as owner:
        assert await pid_behind(owner) == owner.process.pid
        async with home.gateway() as guest:
            assert await pid_behind(guest) == owner.process.pid
            assert await found(guest) == await found(owner) == ["MEMORY.md"]


async def test_lock_and_socket_are_for_this_user_only(home):
    async with home.gateway() as owner:
        await owner.call("health")
        record = read_owner(lock_of(home))
        assert record.pid == owner.process.pid
        path = anyio.Path(record.socket)
        assert stat.S_IMODE((await path.stat()).st_mode) == 0o600
        assert stat.S_IMODE((await path.parent.stat()).st_mode) == 0o700
        assert stat.S_IMODE(lock_of(home).stat().st_mode) == 0o600
    assert not await path.exists()
    assert read_owner(lock_of(home)) is None


async def test_eight_cold_starts_at_once_make_one_owner_and_seven_bridges(home):
    answers = []
    everybody_answered = anyio.Event()

    async def start():
        async with home.gateway() as client:
            answers.append((await pid_behind(client), await found(client)))
            if len(answers) == 8:
                everybody_answered.set()
            await everybody_answered.wait()

    with anyio.fail_after(3 * WAIT_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(start)
    assert len({pid for pid, _ in answers}) == 1
    assert [paths for _, paths in answers] == [["MEMORY.md"]] * 8


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "eof"])
async def test_when_the_owner_ends_a_bridge_takes_over_and_the_others_follow(home, end):
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(home.gateway())
        await owner.call("health")
        guests = [await stack.enter_async_context(home.gateway()) for _ in range(3)]
        for guest in guests:
            assert await pid_behind(guest) == owner.process.pid
        if end == "eof":
            await owner.process.stdin.aclose()
        else:
            owner.process.send_signal(getattr(signal, end))
        with anyio.fail_after(WAIT_S):
            await owner.process.wait()
            heirs = {await pid_behind(guest) for guest in guests}
        assert len(heirs) == 1
        assert heirs <= {guest.process.pid for guest in guests}
        for guest in guests:
            assert await found(guest) == ["MEMORY.md"]


@pytest.mark.promises_seconds
async def test_requests_that_are_open_when_the_owner_is_killed_are_answered_by_the_next(home):
    for number in range(120):
        home.write(f"memory/big/{number}.md", f"# Note {number}\n\n" + "word " * 800)
    async with home.gateway() as owner:
        await owner.call("sync", timeout_s=WAIT_S)
        async with home.gateway() as guest:
            await guest.call("initialize", {"sessionKey": "agent:main:x:group:1"})
            answers, under_way = [], anyio.Event()
            guest.notified = lambda _method, _params: under_way.set()

            async def sync():
                answers.append(await guest.call("sync", {"force": True}, timeout_s=WAIT_S))

            async def search():
                params = {"query": "boiler"}
                found = await SpawnedGateway.call(guest, "memory_search", params, timeout_s=WAIT_S)
                answers.append(found)  # the first time that it was asked

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sync)
                with anyio.fail_after(WAIT_S):
                    await under_way.wait()
                owner.process.kill()
                for _ in range(10):
                    tasks.start_soon(search)
            assert sum("scanned" in one for one in answers) == 1
            results = [one["results"] for one in answers if "results" in one]
            assert [hits[0]["path"] for hits in results] == ["MEMORY.md"] * 10
            # The session was introduced to the first owner: citations stay off in a group.
            assert all("citation" not in hits[0] for hits in results)


async def test_what_a_dead_owner_left_behind_keeps_nobody_from_owning(home):
    async with home.gateway() as owner:
        await owner.call("health")
        owner.process.kill()
        with pytest.raises(GatewayGoneError):
            await owner.call("health")
    record = read_owner(lock_of(home))
    assert record is not None, "the record outlives its owner"
    async with home.gateway() as heir:
        assert await found(heir) == ["MEMORY.md"]
        assert await pid_behind(heir) == heir.process.pid
        assert read_owner(lock_of(home)).socket == record.socket


@pytest.mark.promises_seconds
async def test_the_end_that_a_bridged_client_asks_for_is_that_of_its_own_gateway(home):
    async with home.gateway() as owner:
        await owner.call("health")
        async with home.gateway() as guest:
            assert await guest.call("shutdown") == {"stopping": True}
            with anyio.fail_after(2):
                assert await guest.process.wait() == 0
        assert await found(owner) == ["MEMORY.md"]


@pytest.mark.parametrize("stop", ["eof", "SIGTERM", "SIGINT"])
@pytest.mark.promises_seconds
async def test_a_bridge_ends_in_order_and_leaves_the_owner_alone(home, stop):
    async with home.gateway() as owner:
        await owner.call("health")
        async with home.gateway() as guest:
            await guest.call("health")
            if stop == "eof":
                await guest.process.stdin.aclose()
            else:
                guest.process.send_signal(getattr(signal, stop))
            with anyio.fail_after(2):
                assert await guest.process.wait() == 0
        assert await found(owner) == ["MEMORY.md"]


async def test_bridged_lines_are_answered_like_any_others(home):
    lines = [
        b'{"jsonrpc":"2.0","id":1,"method":"health"}',
        b"{broken",
        b"\xff\xfe",
        b'[{"jsonrpc":"2.0","id":"a","method":"health"},{"jsonrpc":"2.0","id":"b","method":"none"},7]',
        b'{"jsonrpc":"2.0","id":null,"method":"health"}',
        b'{"jsonrpc":"2.0","id":1.50,"method":"memory_get","params":{"path":"MEMORY.md"}}',
        b'{"jsonrpc":"2.0","method":"sync"}',
        b"[]",
    ]
    async with home.gateway() as owner:
        await owner.call("health")
        command = [sys.executable, "-m", "gateway", "serve", *home.arguments]
        talked = await to_thread.run_sync(
            partial(talk, command, lines, replies=7, environment=home.environment)
        )
    replies = [one for one in talked.frames if isinstance(one, list) or "method" not in one]
    alone = {str(one["id"]): one for one in replies if isinstance(one, dict) and one["id"]}
    assert alone["1"]["result"]["status"] == "ok"
    assert alone["1.5"]["result"]["text"].startswith("# Memory")
    (batch,) = (one for one in replies if isinstance(one, list))
    assert [one["id"] for one in batch] == ["a", "b", None]
    nameless = [one for one in replies if isinstance(one, dict) and one["id"] is None]
    kinds = sorted(one["error"]["data"]["kind"] for one in nameless)
    assert kinds == ["invalid_request", "invalid_request", "parse_error", "parse_error"]


async def test_progress_and_cancellation_cross_the_bridge(home):
    for number in range(120):
        home.write(f"memory/big/{number}.md", f"# Note {number}\n\n" + "word " * 800)
    async with home.gateway() as owner:
        await owner.call("health")
        async with home.gateway() as guest:
            with anyio.fail_after(WAIT_S):
                for _ in range(5):  # a sync may end before its end is asked for
                    await begin_and_cancel_a_sync(guest)
                    while (status := await guest.call("status"))["syncing"]:
                        pass
                    if not all(one["complete"] for one in status["recentSyncs"]):
                        break
            assert not all(one["complete"] for one in status["recentSyncs"])


async def begin_and_cancel_a_sync(client):
    seen = anyio.Event()
    client.notified = lambda _method, _params: seen.set()
    with anyio.CancelScope() as scope:

        async def cancel():
            await seen.wait()
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            await client.call("sync", {"force": True}, timeout_s=WAIT_S)
    assert seen.is_set()


async def test_a_gateway_for_another_workspace_does_not_visit_this_owner(home, tmp_path):
    (tmp_path / "other").mkdir()
    async with home.gateway() as owner:
        await owner.call("health")
        done = await anyio.run_process(
            [
                sys.executable, "-m", "gateway", "serve", *home.arguments,
                "--workspace", str(tmp_path / "other"),
            ],
            env=home.environment, check=False,
        )  # fmt: skip
        assert done.returncode == 69
        assert str(home.workspace) in done.stderr.decode()
        assert await found(owner) == ["MEMORY.md"]


async def test_errors_of_the_owner_reach_the_bridged_client(home):
    async with home.gateway() as owner:
        await owner.call("health")
        async with home.gateway() as guest:
            with pytest.raises(RemoteError) as caught:
                await guest.call("memory_search", {"qery": "x"})
            assert caught.value.kind is ErrorKind.INVALID_PARAMS


@pytest.mark.parametrize("way", ["socket", "bridge"])
async def test_a_client_that_never_reads_costs_little_and_delays_nobody(home, way):
    home.write("memory/long.md", "".join(f"- Line {n} of a long note.\n" for n in range(2000)))
    request = {"jsonrpc": "2.0", "id": 1, "method": "memory_get"}
    line = json.dumps({**request, "params": {"path": "memory/long.md"}}).encode() + b"\n"
    async with home.gateway() as owner, AsyncExitStack() as stack:
        await owner.call("sync")
        before = resident_bytes(owner.process.pid)
        if way == "socket":
            mute = stack.enter_context(socket.socket(socket.AF_UNIX))
            mute.connect(read_owner(lock_of(home)).socket)
            descriptor = mute.fileno()
        else:
            command = [sys.executable, "-m", "gateway", "serve", *home.arguments]
            guest = stack.enter_context(
                subprocess.Popen(
                    command, env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip
            stack.callback(guest.kill)
            descriptor = guest.stdin.fileno()
        os.set_blocking(descriptor, False)
        await flood(descriptor, line * 50)
        with anyio.fail_after(WAIT_S):
            assert await found(owner) == ["MEMORY.md"]
            async with home.gateway() as other:
                assert await found(other) == ["MEMORY.md"]
        assert resident_bytes(owner.process.pid) - before < 20_000_000


async def flood(descriptor, data):
    """Writes until nothing has been taken for a while."""
    with anyio.move_on_after(WAIT_S):
        while True:
            with anyio.move_on_after(1.5) as patience:
                await anyio.wait_writable(descriptor)
            if patience.cancelled_caught:
                return
            with contextlib.suppress(BlockingIOError):
                os.write(descriptor, data)


def resident_bytes(pid):
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def stopped(process):
    """Stops a process for a while, as a debugger or a machine that swaps does."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.promises_seconds
async def test_a_silent_owner_is_named_within_ten_seconds_and_goes_on_when_it_wakes(home):
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(home.gateway())
        await owner.call("health")
        guest = await stack.enter_async_context(spawned(home))
        await guest.call("health", timeout_s=WAIT_S)
        with stopped(owner.process):
            for method in ("memory_search", "memory_get", "status", "sync"):
                params = {"memory_search": {"query": "boiler"}, "memory_get": {"path": "MEMORY.md"}}
                with anyio.fail_after(20), pytest.raises(RemoteError) as silent:
                    await guest.call(method, params.get(method), timeout_s=WAIT_S)
                assert silent.value.kind == ErrorKind.INDEX_UNAVAILABLE
                assert str(owner.process.pid) in silent.value.message
        assert await asked_until_served(guest) == ["MEMORY.md"]


@pytest.mark.promises_seconds
async def test_commands_name_a_silent_owner_within_ten_seconds_too(home):
    async with home.gateway() as owner:
        await owner.call("health")
        with stopped(owner.process):
            async with anyio.create_task_group() as tasks:
                for command in (
                    ["search", "boiler"],
                    ["get", "MEMORY.md"],
                    ["status"],
                    ["index"],
                    ["reload"],
                ):
                    tasks.start_soon(silent_command, home, owner.process.pid, *command)


async def silent_command(home, pid, *command):
    with anyio.fail_after(40):
        done = await to_thread.run_sync(partial(home.run, *command, "--json"))
    error = json.loads(done.stdout)["error"]
    assert (error["kind"], str(pid) in error["message"]) == ("index_unavailable", True), error


def spawned(home, *arguments):
    """Starts a gateway that is asked once, and not until it answers."""
    return spawn_gateway(
        [*home.arguments, *arguments], environment=home.environment, patience_s=WAIT_S
    )


async def asked_until_served(client):
    with anyio.fail_after(WAIT_S):
        while True:
            try:
                return await found(client)
            except RemoteError as error:
                if error.kind != ErrorKind.INDEX_UNAVAILABLE:
                    raise
                await anyio.sleep(0.05)


GROUP = "agent:main:telegram:group:-100"


async def test_a_guest_s_client_is_answered_by_the_stricter_of_both_configurations(home, tmp_path):
    strict = tmp_path / "strict.json"
    rules = [{"action": "allow", "match": {"chatType": "direct"}}]
    scope = {"default": "deny", "rules": rules}
    strict.write_text(json.dumps({"memory": {"scope": scope}}), encoding="utf-8")
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(home.gateway())
        await owner.call("sync")  # after this it owns the index
        guest = await stack.enter_async_context(home.gateway("--config", str(strict)))
        for query in ({"query": "boiler"}, {"query": "boiler", "sessionKey": GROUP}):
            answer = await owner.call("memory_search", query)
            assert answer["results"], answer
            answer = await guest.call("memory_search", query)
            assert (answer["results"], answer["outcome"]) == ([], "denied")
            assert "this client's gateway" in answer["error"]
        read = await guest.call("memory_get", {"path": "MEMORY.md", "sessionKey": GROUP})
        assert (read["text"], read["denied"]) == ("", True)
        started = await guest.call("session_start", {"sessionKey": GROUP})
        assert (started["files"], started["denied"]) == ([], True)
        mine = {"query": "boiler", "sessionKey": "agent:main:telegram:direct:anna"}
        assert (await guest.call("memory_search", mine))["results"]


async def test_a_guest_under_stricter_terms_asks_about_the_process_and_gets_no_text_of_a_note(
    home, tmp_path
):
    strict = tmp_path / "strict.json"
    strict.write_text(json.dumps({"memory": {"scope": {"default": "deny"}}}), encoding="utf-8")
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(home.gateway())
        await owner.call("sync")  # after this it owns the index
        guest = await stack.enter_async_context(home.gateway("--config", str(strict)))
        assert (await guest.call("memory_search", {"query": "boiler"}))["outcome"] == "denied"
        answers = [
            await guest.call(method, params)
            for method, params in (
                ("status", {"deep": True}), ("health", {}), ("metrics", {}),
                ("sync", {"force": True}), ("reload", {}), ("session_updated", {"sessionId": "x"}),
            )
        ]  # fmt: skip
        assert answers[3]["changed"] + answers[3]["unchanged"] >= 4
        text = json.dumps(answers, ensure_ascii=False)
        assert not [word for word in ("Hartmann", "membrane", "a828e60", "茶叶") if word in text]
        await guest.call("shutdown")
        assert (await owner.call("memory_search", {"query": "boiler"}))["results"]


async def test_a_guest_that_may_see_less_than_the_index_holds_is_refused_and_told_why(
    home, tmp_path
):
    (tmp_path / "more").mkdir()
    more = {"memorySearch": {"extraPaths": [str(tmp_path / "more")]}}
    home.configure({"agents": {"defaults": more}})
    plain = tmp_path / "plain.json"
    plain.write_text("{}", encoding="utf-8")
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(home.gateway())
        await owner.call("health")
        guest = await stack.enter_async_context(spawned(home, "--config", str(plain)))
        for method, params in (
            ("memory_search", {"query": "boiler"}), ("memory_get", {"path": "MEMORY.md"}),
        ):  # fmt: skip
            with pytest.raises(RemoteError, match="extraPaths of this gateway") as refused:
                await guest.call(method, params, timeout_s=WAIT_S)
            assert refused.value.kind == ErrorKind.INDEX_UNAVAILABLE
        home.configure({})
        await owner.call("reload")
        assert await found(guest) == ["MEMORY.md"]


async def test_an_owner_that_read_their_file_again_answers_guests_of_that_file_by_what_it_says_now(
    home,
):
    home.configure({"memory": {"scope": {"default": "deny"}}})
    async with home.gateway() as owner, home.gateway() as guest:
        assert (await guest.call("memory_search", {"query": "boiler"}))["outcome"] == "denied"
        home.configure({})
        await owner.call("reload")
        assert await found(guest) == ["MEMORY.md"]
