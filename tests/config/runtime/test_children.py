"""Child processes: nothing of them remains, however their use ends."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

from config.runtime.children import end_child, kill_group, resident_bytes, start_child
from endurance.processes import has_ended

pytestmark = pytest.mark.anyio

BOUND_S = 60
FAMILY = ("/bin/sh", "-c", "sleep 300 & echo $!; wait")
"""A child with a child of its own, whose process number it prints."""


async def grandchild_of(child) -> int:
    return int(await child.stdout.receive())


async def is_gone(pid: int) -> bool:
    """Returns whether the process ends within the limit."""
    with anyio.move_on_after(BOUND_S):
        while not has_ended(pid):
            await anyio.sleep(0.01)
        return True
    return False


async def test_the_end_of_a_child_is_the_end_of_its_group_also_for_a_task_that_is_cancelled():
    with anyio.CancelScope() as scope:
        child = await start_child(FAMILY, os.environ, directory="/")
        try:
            grandchild = await grandchild_of(child)
            scope.cancel()
            await anyio.sleep(BOUND_S)
        finally:
            await end_child(child)
    assert child.returncode is not None
    assert await is_gone(grandchild)


async def test_a_start_that_is_cancelled_half_way_still_hands_the_child_over():
    child = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        child = await start_child(FAMILY, os.environ, directory="/")
    assert child is not None
    await end_child(child)
    assert child.returncode is not None


async def test_what_a_child_leaves_behind_is_killed_too():
    child = await start_child(("/bin/sh", "-c", "sleep 300 & echo $!"), os.environ, directory="/")
    grandchild = await grandchild_of(child)
    await child.wait()
    kill_group(child)
    assert await is_gone(grandchild)
    await end_child(child)


async def test_a_child_has_its_environment_its_directory_and_a_session_of_its_own(tmp_path):
    command = ("/bin/sh", "-c", 'echo "$ONLY"; pwd -P; echo "$HOME."; read end')
    child = await start_child(command, {"ONLY": "this"}, directory=str(tmp_path))
    assert os.getsid(child.pid) == child.pid
    await child.stdin.send(b"\n")
    said = b"".join([piece async for piece in child.stdout]).decode().split()
    assert said == ["this", str(tmp_path.resolve()), "."]
    await end_child(child)


async def test_a_command_that_is_not_there_cannot_be_started():
    with pytest.raises(FileNotFoundError):
        await start_child(("/no/such/program",), {}, directory="/")


async def test_the_memory_of_a_process_is_known_while_it_runs():
    child = await start_child((sys.executable, "-c", "input()"), os.environ, directory="/")
    assert resident_bytes(os.getpid()) > 1 << 20
    await end_child(child)
    assert resident_bytes(child.pid) is None
