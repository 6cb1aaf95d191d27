"""Faults of clients: one that asks and never reads."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import ClassVar, Final

import anyio

from backends.builtin.storage.moving import lock_path
from gateway.ownership.lock import read_owner
from torturing.faults.base import Fault
from torturing.scene import Scene

GROWTH_BYTES: Final = 40_000_000
"""What a client that never reads may cost, beside the work itself."""
_QUIET_S: Final = 0.5
_FLOOD_S: Final = 5.0
_SETTLED: Final = 3


class MuteClient(Fault):
    """Asks for a long file again and again by the socket, or by a bridge, until nothing is taken."""

    name = "mute-client"
    about = "a client floods with requests and never reads an answer"
    runs = 6
    without_host = True  # a vendor's library needs memory of its own
    impossible: ClassVar = {
        "batch": "a vendor's library and its answers need more memory than the client may cost",
        "shutdown": "the end waits for no client: that is what every run of this row ends with",
    }

    async def strike(self, scene: Scene) -> None:
        await scene.gateway.call("health")
        before = resident_bytes(scene.pid)
        with ExitStack() as stack:
            descriptor = (
                self._bridge(scene, stack) if scene.number % 2 else self._socket(scene, stack)
            )
            os.set_blocking(descriptor, False)
            await _flood(descriptor)
            for _ in range(_SETTLED):
                await scene.ask()
            growth = resident_bytes(scene.pid) - before
        if growth > GROWTH_BYTES:
            scene.fail(f"a client that never reads costs {growth:,} bytes")

    def _socket(self, scene: Scene, stack: ExitStack) -> int:
        mute = stack.enter_context(socket.socket(socket.AF_UNIX))
        owner = read_owner(lock_path(scene.subject.index))
        assert owner is not None
        assert owner.socket is not None
        mute.connect(owner.socket)
        return mute.fileno()

    def _bridge(self, scene: Scene, stack: ExitStack) -> int:
        subject = scene.subject
        guest = stack.enter_context(
            subprocess.Popen(
                [*subject.command, *subject.arguments], env=subject.environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        stack.callback(guest.kill)
        assert guest.stdin is not None
        return guest.stdin.fileno()


async def _flood(descriptor: int) -> None:
    """Writes until nothing has been taken for a while."""
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


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
