"""Faults of the kernel's limits: no file descriptor left, no inotify instance left."""

from __future__ import annotations

import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio

from config.errors import MemoryGatewayError
from torturing.faults.base import Fault, Impossible
from torturing.scene import ANSWER_S, Scene

NOFILE: Final = 64
_LIMITED: Final = f'ulimit -n {NOFILE} && exec "$@"'
_NO_INOTIFY: Final = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
_UNSHARE: Final = ("unshare", "--user", "--map-root-user")


class NoDescriptors(Fault):
    """Every other run starts with 64 of them; in the others all that are free are taken away at work."""

    name = "descriptors"
    about = f"{NOFILE} descriptors from the start, or none left in the middle of the work"
    hold_s = 0.6

    async def before(self, scene: Scene) -> None:
        if scene.number % 2:
            scene.launch.prefix = ("/bin/sh", "-c", _LIMITED, "sh")

    async def strike(self, scene: Scene) -> None:
        if scene.number % 2:
            return
        with suppress(MemoryGatewayError):
            await scene.gateway.call("health", timeout_s=ANSWER_S)  # it has started
        with suppress(OSError):
            limits = resource.prlimit(scene.pid, resource.RLIMIT_NOFILE)
            free = scene.rng.randrange(3)
            highest = max(int(one.name) for one in Path(f"/proc/{scene.pid}/fd").iterdir())
            scene.usual_limits = limits
            resource.prlimit(scene.pid, resource.RLIMIT_NOFILE, (highest + 1 + free, limits[1]))

    async def lift(self, scene: Scene) -> None:
        if scene.usual_limits is not None and scene.is_alive:
            with suppress(OSError):
                resource.prlimit(scene.pid, resource.RLIMIT_NOFILE, scene.usual_limits)


class NoInotify(Fault):
    """It has to poll, to say so, and to answer like any other."""

    name = "inotify"
    about = "no inotify instance can be made"
    runs = 5

    def require(self) -> None:
        if shutil.which("unshare") is None:
            raise Impossible("unshare is not installed")
        tried = subprocess.run(
            [*_UNSHARE, "sh", "-c", _NO_INOTIFY, "sh", "true"], capture_output=True, check=False
        )
        if tried.returncode:
            raise Impossible(f"no user namespace: {tried.stderr.decode(errors='replace').strip()}")

    async def before(self, scene: Scene) -> None:
        scene.launch.prefix = (*_UNSHARE, "sh", "-c", _NO_INOTIFY, "sh")

    async def strike(self, scene: Scene) -> None:
        try:
            status = await _watching(scene)
        except MemoryGatewayError:
            return  # it is ending
        if status["watcher"]["mode"] != "polling" or not status["watcher"]["reason"]:
            scene.fail(f"does not say that it polls: {status['watcher']}")


async def _watching(scene: Scene) -> dict[str, Any]:
    """The first status that tells how changes are noticed."""
    with anyio.fail_after(ANSWER_S):
        while True:
            status: dict[str, Any] = await scene.gateway.call("status", timeout_s=ANSWER_S)
            if status["watcher"]["mode"] != "starting":
                return status
            await anyio.sleep(0.02)
