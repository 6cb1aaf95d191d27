"""Sockets by path: private, in place of stale ones, also where the path is longer than an address."""

from __future__ import annotations

import os
import stat

import anyio
import pytest

from fakes.settings import make_settings
from gateway.ownership import owner
from gateway.ownership.owner import OwnerLock, OwnerRecord, OwnerSocket, make_private, place_of
from gateway.ownership.sockets import connect, connect_owner, listen, listen_somewhere, reach_owner

pytestmark = pytest.mark.anyio


def own(path):
    return OwnerSocket(path, frozenset({os.geteuid()}))


@pytest.mark.parametrize("directory", ["run", "long-" * 30 + "run"])
async def test_a_socket_is_made_private_and_can_be_reached(tmp_path, directory):
    path = tmp_path / directory / "s"
    with listen(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        async with await connect(own(path)):
            pass


async def test_a_stale_socket_is_replaced(tmp_path):
    listen(tmp_path / "s").close()
    assert (tmp_path / "s").exists()
    with pytest.raises(OSError, match="refused"):
        await connect(own(tmp_path / "s"))
    with listen(tmp_path / "s"):
        async with await connect(own(tmp_path / "s")):
            pass


async def test_the_first_place_that_can_be_used_is_taken(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    found = listen_somewhere((tmp_path / "file/s", tmp_path / "run/s"))
    assert found is not None
    assert found.path == tmp_path / "run/s"
    found.socket.close()
    assert listen_somewhere((tmp_path / "file/s",)) is None


def test_a_directory_that_is_too_open_is_closed(tmp_path):
    tmp_path.chmod(0o755)
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(owner.os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(PermissionError):
        make_private(tmp_path)


def test_a_link_to_a_directory_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError):
        make_private(tmp_path / "link")


async def test_an_owner_is_found_by_its_record_and_waited_for(tmp_path):
    lock_path = tmp_path / "main.sqlite.lock"
    assert await connect_owner(lock_path) is None
    lock = OwnerLock.acquire(lock_path)
    lock.announce(OwnerRecord(pid=1, workspace="/w"))
    assert await connect_owner(lock_path) is None
    lock.announce(OwnerRecord(pid=1, workspace="/w", socket=str(tmp_path / "gone")))
    assert await connect_owner(lock_path) is None
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def reach():
                async with await reach_owner(lock_path):
                    tasks.cancel_scope.cancel()

            tasks.start_soon(reach)
            await anyio.wait_all_tasks_blocked()
            with listen(tmp_path / "s"):
                lock.announce(OwnerRecord(pid=1, workspace="/w", socket=str(tmp_path / "s")))
                await anyio.sleep_forever()
    lock.release()


def test_two_indexes_never_share_a_place_and_a_link_leads_to_that_of_its_target(tmp_path):
    one, two = make_settings(tmp_path / "one"), make_settings(tmp_path / "two")
    variables = {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    first, second = place_of(one, variables), place_of(two, variables)
    assert first.lock != second.lock
    assert not set(first.sockets) & set(second.sockets)
    assert first.sockets[0].parent == tmp_path / "runtime/memory-gateway"
    assert first.sockets[1].parent == tmp_path / "one/run"
    (tmp_path / "three").symlink_to(tmp_path / "one")
    assert place_of(make_settings(tmp_path / "three"), variables).lock == first.lock
