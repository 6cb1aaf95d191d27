"""Faults of processes: killed, stopped, orphaned, more than one of them, and a client that never reads."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import ClassVar, Final

import anyio
from anyio import to_thread

from config.errors import ErrorKind, MemoryGatewayError
from endurance.agent import ANSWER_S, COMMAND
from endurance.faults.base import Fault
from endurance.processes import resident_mib
from endurance.run import Run
from gateway.client import GatewayClient, RemoteError
from gateway.ownership.owner import read_owner

BUSY_GONE_S: Final = 30.0
"""Two seconds are promised; this is the bound on a busy machine."""
COLD_STARTS: Final = 20
_PARENT: Final = ("setsid", "/bin/sh", "-c", 'exec 3<&0; "$@" <&3 & wait', "sh")
"""A parent that dies while this process keeps the input open. It has a session of its own, as when a terminal or a
service manager starts a chat gateway: inside a container whose first process shares the session, a child that has
not looked yet cannot distinguish that process from its parent."""


class Kill(Fault):
    name = "kill"
    about = "SIGKILL at a random instant, in every other run after the first right answer"
    kills_gateway = True
    runs = 60

    async def inject(self, run: Run) -> None:
        await _sometimes_after_an_answer(run)
        if run.is_alive:
            run.kill()
        await run.gateway.process.wait()


async def _sometimes_after_an_answer(run: Run) -> None:
    """Waits, in every other run, for a right answer and a random time; otherwise the instant is soon after the start.

    Activities that choose their own instant, or during which nobody asks, are left out.
    """
    if run.number % 2 == 0 and run.activity not in {"download", "shutdown"}:
        await run.until_answered()
        if run.rng.random() < 0.5:
            await run.until_paid()  # about a second later, or many on a busy machine
            await anyio.sleep(run.rng.uniform(0, 0.3))
        else:
            await anyio.sleep(run.rng.uniform(0, 2.0))


class Stop(Fault):
    name = "stop"
    about = "SIGSTOP for up to 1.5 s, then SIGCONT"

    async def inject(self, run: Run) -> None:
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGSTOP)
            await anyio.sleep(run.rng.uniform(0.1, 1.5))

    async def remove(self, run: Run) -> None:
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGCONT)


class ParentDies(Fault):
    """This process keeps the gateway's pipes open: only the death of its parent can make it end."""

    name = "parent"
    about = "the parent is killed, its pipes stay open"
    kills_gateway = True
    runs = 12

    async def before(self, run: Run) -> None:
        run.launch.prefix = _PARENT

    async def inject(self, run: Run) -> None:
        await _sometimes_after_an_answer(run)
        parent = run.pid
        run.kill()
        await run.gateway.process.wait()
        ends = time.monotonic() + BUSY_GONE_S
        while left := [pid for pid in run.left_behind() if pid != parent]:
            if time.monotonic() > ends:
                run.fail(f"{len(left)} processes are left {BUSY_GONE_S:g} s after their parent")
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(0.02)
        run.launch.prefix = ()


class TwoOwners(Fault):
    """A guest starts, both are asked, the owner is killed: the guest has to take over."""

    name = "two-owners"
    about = "a second gateway on the same index; the first is killed under it"
    kills_gateway = True
    runs = 6

    async def inject(self, run: Run) -> None:
        agent = run.agent
        async with agent.gateway() as guest:
            await run.ask(guest)
            if run.is_alive:
                run.kill()
            started = time.perf_counter()
            while not await run.ask(guest):
                if time.perf_counter() > started + ANSWER_S:
                    run.fail("the guest did not take over")
                    return
                await anyio.sleep(0.02)


class ColdStarts(Fault):
    name = "cold-starts"
    about = f"{COLD_STARTS} gateways start at once on the same index"
    runs = 3
    guests: ClassVar[int] = COLD_STARTS

    async def inject(self, run: Run) -> None:
        agent, first = run.agent, run.pid
        answered: list[GatewayClient] = []
        owners: list[int] = []
        everybody_answered, everybody_reported = anyio.Event(), anyio.Event()

        async def one() -> None:
            async with agent.gateway() as client:
                await run.ask(client)
                answered.append(client)
                if len(answered) == self.guests:
                    everybody_answered.set()
                await everybody_answered.wait()
                owners.append((await client.call("status", timeout_s=3 * ANSWER_S))["pid"])
                if len(owners) == self.guests:
                    everybody_reported.set()
                await everybody_reported.wait()

        async with anyio.create_task_group() as tasks:
            for _ in range(self.guests):
                tasks.start_soon(one)
        # If the first one was asked to end meanwhile, it had a successor.
        at_once = len(set(owners) - {first}) + (run.is_alive and first in owners)
        if at_once > 1:
            run.fail(f"{at_once} owners of one index")


GROWTH_MIB: Final = 38
"""The most memory that a client that never reads may cost, beside the work itself."""
_QUIET_S: Final = 0.5
_FLOOD_S: Final = 5.0
_SETTLED: Final = 3


class MuteClient(Fault):
    """Asks for a long file again and again through the socket or a bridge, until nothing more is accepted."""

    name = "mute-client"
    about = "a client floods with requests and never reads an answer"
    runs = 6
    without_host = True  # embedding needs memory of its own
    impossible: ClassVar = {
        "batch": "a vendor's library and its answers need more memory than the client may cost",
        "shutdown": "the end waits for no client: that is what every run of this row ends with",
    }

    async def inject(self, run: Run) -> None:
        await run.gateway.call("health")
        before = resident_mib(run.pid)
        with ExitStack() as stack:
            descriptor = self._bridge(run, stack) if run.number % 2 else self._socket(run, stack)
            os.set_blocking(descriptor, False)
            await _flood(descriptor)
            for _ in range(_SETTLED):
                await run.ask()
            growth = resident_mib(run.pid) - before
        if growth > GROWTH_MIB:
            run.fail(f"a client that never reads costs {growth:.0f} MiB")

    def _socket(self, run: Run, stack: ExitStack) -> int:
        mute = stack.enter_context(socket.socket(socket.AF_UNIX))
        owner = read_owner(run.agent.lock)
        assert owner is not None
        assert owner.socket is not None
        mute.connect(owner.socket)
        return mute.fileno()

    def _bridge(self, run: Run, stack: ExitStack) -> int:
        agent = run.agent
        guest = stack.enter_context(
            subprocess.Popen(
                [*COMMAND, *agent.arguments], env=agent.environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        stack.callback(guest.kill)
        assert guest.stdin is not None
        return guest.stdin.fileno()


async def _flood(descriptor: int) -> None:
    """Writes until nothing has been accepted for a while."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "memory_get",
        "params": {"path": "memory/stable.md"},
    }
    data = (json.dumps(request).encode() + b"\n") * 200
    with anyio.move_on_after(_FLOOD_S):
        while True:
            with anyio.move_on_after(_QUIET_S) as patience:
                await anyio.wait_writable(descriptor)
            if patience.cancelled_caught:
                return
            with suppress(BlockingIOError):
                os.write(descriptor, data)


_SILENCE_BOUND_S: Final = 20.0
_HALF_LINES: Final = 40
_HALF_LINES_GROWTH_MIB: Final = 76
_HALF_LINE: Final = b'{"jsonrpc":"2.0","id":1,"method":"health","params":{"x":"' + b"x" * 3_900_000


class SilentOwner(Fault):
    """A bridge asks while the owner is stopped: it gets an error that names the owner's process."""

    name = "silent-owner"
    about = "the owner is stopped while a bridge asks it"
    runs = 2
    impossible: ClassVar = {"shutdown": "a stopped process cannot end"}

    async def inject(self, run: Run) -> None:
        await run.gateway.call(
            "health", timeout_s=ANSWER_S
        )  # else the other one would be the owner
        async with run.agent.gateway() as bridge:
            await bridge.call("health")
            pid = run.pid
            os.kill(pid, signal.SIGSTOP)
            try:
                await bridge.call("memory_search", {"query": "stable"}, timeout_s=_SILENCE_BOUND_S)
                run.fail("a bridge answered for a stopped owner")
            except RemoteError as error:
                if error.kind != ErrorKind.INDEX_UNAVAILABLE or str(pid) not in error.message:
                    run.fail(f"a stopped owner is told as {error}")
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


class HalfLines(Fault):
    """Clients of the socket send most of a long line and hang up."""

    name = "half-lines"
    about = "forty clients hang up in the middle of a line of 3.9 MB"
    runs = 4
    without_host = True

    async def inject(self, run: Run) -> None:
        try:
            await run.gateway.call("health")
        except RemoteError as error:
            if error.kind != ErrorKind.SHUTTING_DOWN:
                raise
            return
        before = resident_mib(run.pid)
        owner = read_owner(run.agent.lock)
        if owner is None or owner.socket is None:
            return  # it is ending
        with ExitStack() as stack:
            try:
                await to_thread.run_sync(_send_halves, owner.socket, stack)
                growth = resident_mib(run.pid) - before
            except OSError:
                if run.activity != "shutdown":
                    raise
                return  # a gateway that is ending hangs up itself
        if growth > _HALF_LINES_GROWTH_MIB:
            run.fail(f"unfinished lines cost {growth:.0f} MiB")


def _send_halves(path: str, stack: ExitStack) -> None:
    for _ in range(_HALF_LINES):
        client = stack.enter_context(socket.socket(socket.AF_UNIX))
        client.connect(path)
        client.sendall(_HALF_LINE)


_INTO: Final = 'log=$1; shift; exec "$@" 2>"$log"'
_CLOSED: Final = 'shift; exec "$@" 2>&-'
_LOGS: Final = ("unread", "deserted", "full", "closed")


class DeafLog(Fault):
    """Nothing may wait for standard error, to which much is written at `debug`."""

    name = "stderr"
    about = (
        "standard error is a pipe that is full and that nobody reads, a pipe whose reader goes in the middle of the "
        "work, a full disk (/dev/full), or closed"
    )
    hold_s = 1.0
    runs = len(_LOGS)

    def __init__(self) -> None:
        self._reader: int | None = None

    async def before(self, run: Run) -> None:
        kind = _LOGS[(run.number + run.column) % len(_LOGS)]
        log = run.agent.root / "log" if kind in ("unread", "deserted") else Path("/dev/full")
        if kind in ("unread", "deserted"):
            os.mkfifo(log)
            self._reader = os.open(log, os.O_RDWR | os.O_NONBLOCK)
        if kind == "unread" and self._reader is not None:
            with suppress(BlockingIOError):
                while True:
                    os.write(self._reader, b"x" * select.PIPE_BUF)
        run.agent.log_level = "debug"
        script = _CLOSED if kind == "closed" else _INTO
        run.launch.prefix = ("/bin/sh", "-c", script, "sh", str(log))

    async def inject(self, run: Run) -> None:
        with suppress(MemoryGatewayError):
            await run.gateway.call("health", timeout_s=ANSWER_S)  # it has opened the pipe
        if _LOGS[(run.number + run.column) % len(_LOGS)] == "deserted":
            self._let_go()

    async def after(self, run: Run) -> None:
        self._let_go()
        (run.agent.root / "log").unlink(missing_ok=True)
        run.agent.log_level = "warning"

    def _let_go(self) -> None:
        if self._reader is not None:
            os.close(self._reader)
            self._reader = None
