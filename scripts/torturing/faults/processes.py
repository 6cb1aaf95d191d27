"""Faults of processes: killed, stopped, orphaned, and more of them than one."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import ClassVar, Final

import anyio

from gateway.client import Client, spawn_gateway
from torturing.faults.base import Fault
from torturing.scene import ANSWER_S, Scene

BUSY_GONE_S: Final = 30.0
"""Two seconds are promised; what it gets on a machine with much other work."""
COLD_STARTS: Final = 20
_PARENT: Final = ("setsid", "/bin/sh", "-c", 'exec 3<&0; "$@" <&3 & wait', "sh")
"""In a session of its own, as in `benchmarks.endings`, which says why."""


class Kill(Fault):
    name = "kill"
    about = "SIGKILL at a random instant"
    kills_gateway = True
    runs = 60

    async def strike(self, scene: Scene) -> None:
        if scene.is_alive:
            scene.kill()
        await scene.gateway.process.wait()


class Stop(Fault):
    name = "stop"
    about = "SIGSTOP for up to 1.5 s, then SIGCONT"

    async def strike(self, scene: Scene) -> None:
        with suppress(ProcessLookupError):
            os.kill(scene.pid, signal.SIGSTOP)
            await anyio.sleep(scene.rng.uniform(0.1, 1.5))

    async def lift(self, scene: Scene) -> None:
        with suppress(ProcessLookupError):
            os.kill(scene.pid, signal.SIGCONT)


class ParentDies(Fault):
    """The gateway's pipes stay open, held by us: only the parent's death can tell it to end."""

    name = "parent"
    about = "the parent is killed, its pipes stay open"
    kills_gateway = True
    runs = 12

    async def before(self, scene: Scene) -> None:
        scene.launch.prefix = _PARENT

    async def strike(self, scene: Scene) -> None:
        parent = scene.pid
        scene.kill()
        await scene.gateway.process.wait()
        ends = time.monotonic() + BUSY_GONE_S
        while left := [pid for pid in scene.left_behind() if pid != parent]:
            if time.monotonic() > ends:
                scene.fail(f"{len(left)} processes are left {BUSY_GONE_S:g} s after their parent")
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(0.02)
        scene.launch.prefix = ()


class TwoOwners(Fault):
    """A guest comes, both are asked, the owner is killed: the guest has to take over."""

    name = "two-owners"
    about = "a second gateway on the same index; the first is killed under it"
    kills_gateway = True
    runs = 6

    async def strike(self, scene: Scene) -> None:
        subject = scene.subject
        async with spawn_gateway(
            subject.arguments, environment=subject.environment, patience_s=ANSWER_S
        ) as guest:
            await scene.ask(guest)
            if scene.is_alive:
                scene.kill()
            started = time.perf_counter()
            while not await scene.ask(guest):
                if time.perf_counter() > started + ANSWER_S:
                    scene.fail("the guest did not take over")
                    return
                await anyio.sleep(0.02)


class ColdStarts(Fault):
    name = "cold-starts"
    about = f"{COLD_STARTS} gateways start at once on the same index"
    runs = 3
    guests: ClassVar[int] = COLD_STARTS

    async def strike(self, scene: Scene) -> None:
        subject, first = scene.subject, scene.pid
        answered: list[Client] = []
        owners: list[int] = []
        everybody_answered, everybody_told = anyio.Event(), anyio.Event()

        async def one() -> None:
            async with spawn_gateway(
                subject.arguments, environment=subject.environment, patience_s=ANSWER_S
            ) as client:
                await scene.ask(client)
                answered.append(client)
                if len(answered) == self.guests:
                    everybody_answered.set()
                await everybody_answered.wait()
                owners.append((await client.call("status", timeout_s=3 * ANSWER_S))["pid"])
                if len(owners) == self.guests:
                    everybody_told.set()
                await everybody_told.wait()

        async with anyio.create_task_group() as tasks:
            for _ in range(self.guests):
                tasks.start_soon(one)
        # The first one, where it was told to end meanwhile, had a successor.
        at_once = len(set(owners) - {first}) + (scene.is_alive and first in owners)
        if at_once > 1:
            scene.fail(f"{at_once} owners of one index")
