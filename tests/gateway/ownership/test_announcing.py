"""An owner makes itself known, at once or as soon as the disk lets it."""

from __future__ import annotations

import os

import anyio
import anyio.lowlevel
import pytest

from gateway.ownership.host import announced
from gateway.ownership.owner import OwnerLock, OwnerRecord, read_owner

pytestmark = pytest.mark.anyio

RECORD = OwnerRecord(pid=1, workspace="/w", socket=None)


async def test_a_record_that_cannot_be_written_at_first_is_written_later(tmp_path):
    path = tmp_path / "main.sqlite.lock"
    descriptor = os.open("/dev/full", os.O_RDWR)
    lock = OwnerLock(descriptor)
    async with announced(lock, RECORD):
        assert read_owner(path) is None
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
        with anyio.fail_after(60):
            while read_owner(path) != RECORD:
                await anyio.sleep(0.02)
    lock.release()
    assert read_owner(path) is None


async def test_an_owner_that_never_could_be_announced_ends_in_order():
    lock = OwnerLock(os.open("/dev/full", os.O_RDWR))
    with anyio.move_on_after(60) as patience:
        async with announced(lock, RECORD):
            await anyio.lowlevel.checkpoint()
    assert not patience.cancelled_caught


def test_a_lock_that_was_released_keeps_the_space_that_the_next_record_takes(tmp_path):
    path = tmp_path / "main.sqlite.lock"
    for _ in range(2):
        lock = OwnerLock.acquire(path)
        assert lock is not None
        lock.announce(RECORD)
        assert read_owner(path) == RECORD
        announced_size = path.stat().st_size
        lock.release()
        assert (read_owner(path), path.stat().st_size) == (None, announced_size)
