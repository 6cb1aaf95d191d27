"""The index file and its owner."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import closing

import apsw
import msgspec
import pytest

from backends.builtin.store.sqlite import connections
from backends.builtin.store.sqlite.store import SqliteStore
from config.settings import StoreSettings
from gateway.doctor import index
from gateway.doctor.index import check_index, check_owner
from gateway.ownership.owner import OwnerLock, OwnerRecord, place_of

pytestmark = pytest.mark.anyio


def test_an_index_that_somebody_holds_is_told(settings, index, worst, severities):
    with closing(apsw.Connection(str(index))) as other:
        other.execute("BEGIN IMMEDIATE")
        one = worst(check_index(settings))
    assert (one.severity, one.place) == ("error", str(index))
    assert "Another process" in one.cause
    assert severities(check_index(settings)) == ["ok"]


def test_damage_in_an_index_is_found_and_left_for_the_next_start(settings, index, worst):
    data = bytearray(index.read_bytes())
    data[8192 : 3 * 8192] = b"\xff" * 2 * 8192
    index.write_bytes(data)
    assert worst(check_index(settings)).severity == "error"
    assert index.read_bytes() == bytes(data)


def test_a_file_of_another_program_is_told_and_left_alone(settings, worst):
    path = settings.search.store.path
    path.write_text("my notes, not yours", encoding="utf-8")
    one = worst(check_index(settings))
    assert (one.severity, "another program" in one.cause) == ("warning", True)
    assert path.read_text(encoding="utf-8") == "my notes, not yours"


def test_no_index_yet_is_fine_and_none_is_made(settings, severities):
    assert severities(check_index(settings)) == ["ok"]
    assert not settings.search.store.path.exists()


async def test_no_owner_and_a_dead_one_are_fine(settings, severities):
    assert severities(await check_owner(settings)) == ["ok"]
    lock = place_of(settings).lock
    record = OwnerRecord(pid=2**22 + 1, workspace=str(settings.workspace), socket="/nowhere/s")
    lock.write_bytes(msgspec.json.encode(record))
    (one,) = await check_owner(settings)
    assert (one.severity, "the next start takes over" in one.cause) == ("note", True)


async def test_a_dead_owner_whose_number_another_process_has_is_dead(settings):
    lock = place_of(settings).lock
    lock.parent.mkdir(parents=True, exist_ok=True)
    record = OwnerRecord(pid=os.getpid(), workspace=str(settings.workspace), socket="/nowhere/s")
    lock.write_bytes(msgspec.json.encode(record))
    (one,) = await check_owner(settings)
    assert (one.severity, one.fix) == ("note", None)


async def test_an_owner_whose_socket_is_dead_is_told(settings, root, worst):
    lock = place_of(settings).lock
    owned = OwnerLock.acquire(lock)
    path = root / "s"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    owned.announce(
        OwnerRecord(pid=os.getpid(), workspace=str(settings.workspace), socket=str(path))
    )
    one = worst(await check_owner(settings))
    owned.release()
    assert (one.severity, one.place) == ("warning", str(path))


async def test_an_owner_that_says_nothing_is_an_error(settings, root, worst, monkeypatch):
    monkeypatch.setattr(index, "TIMEOUT_S", 0.1)
    lock = place_of(settings).lock
    owned = OwnerLock.acquire(lock)
    path = root / "s"
    with closing(socket.socket(socket.AF_UNIX)) as silent:
        silent.bind(str(path))
        silent.listen()
        owned.announce(
            OwnerRecord(pid=os.getpid(), workspace=str(settings.workspace), socket=str(path))
        )
        one = worst(await check_owner(settings))
    owned.release()
    assert (one.severity, "did not answer" in one.cause) == ("error", True)


@pytest.fixture
def at_the_former_place(settings, root, with_search):
    """Settings without a path of their own, and an index where earlier releases had it."""
    former = root / "memory/main.sqlite"
    SqliteStore(former).close()
    store = StoreSettings(path=root / "memory/main.memory-gateway.sqlite", former_path=former)
    return with_search(settings, store=store)


def test_an_index_that_openclaw_would_not_start_over_is_told_until_it_is_moved(
    at_the_former_place, worst, severities
):
    store = at_the_former_place.search.store
    one = worst(check_index(at_the_former_place))
    assert (one.severity, one.place) == ("warning", str(store.former_path))
    assert "OpenClaw 2026.9" in one.cause and "memory-gateway status" in one.fix
    assert store.former_path.exists()
    SqliteStore(store.path, former=store.former_path).close()
    assert severities(check_index(at_the_former_place)) == ["ok"]


def test_a_store_path_that_openclaw_claims_is_told_and_one_elsewhere_is_not(
    settings, root, with_search, worst, severities
):
    claimed = with_search(settings, store=StoreSettings(path=root / "memory/main.sqlite"))
    one = worst(check_index(claimed))
    assert one.severity == "warning" and "store.path" in one.fix
    for free in ("memory/main.memory-gateway.sqlite", "memory/main.db", "elsewhere/main.sqlite"):
        assert severities(
            check_index(with_search(settings, store=StoreSettings(path=root / free)))
        ) == ["ok"]


def test_a_copy_that_openclaw_made_of_our_index_is_told_and_its_own_files_are_not(
    at_the_former_place, root, worst
):
    store = at_the_former_place.search.store
    SqliteStore(store.path, former=store.former_path).close()
    copy = root / "memory/main.retry-0123456789ab.sqlite"
    (root / "memory/main.sqlite").write_text("OpenClaw's own", encoding="utf-8")
    shutil.copy(store.path, copy)
    one = worst(check_index(at_the_former_place))
    assert (one.place, one.fix.endswith(f"rm {copy}")) == (str(copy), True)


def test_an_index_on_a_network_mount_is_told(settings, index, worst, severities, monkeypatch):
    assert severities(check_index(settings)) == ["ok"]
    monkeypatch.setattr(connections, "shared_type", lambda directory: "cifs")
    one = worst(check_index(settings))
    assert (one.severity, one.place) == ("warning", str(index))
    assert "cifs" in one.cause and "local disk" in (one.fix or "")
