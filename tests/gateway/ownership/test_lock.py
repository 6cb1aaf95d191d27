"""The lock: one holder, whatever happens to it, and a record for later processes."""

from __future__ import annotations

import errno
import fcntl
import stat
import subprocess
import sys

import pytest

from backends.interface import IndexUnavailableError
from gateway.ownership.owner import OwnerLock, OwnerRecord, check_workspace, read_owner

HOLD = """
import sys, time
from pathlib import Path
from gateway.ownership.owner import OwnerLock, OwnerRecord
lock = OwnerLock.acquire(Path(sys.argv[1]))
lock.announce(OwnerRecord(pid=1, workspace="/w", socket="/nowhere"))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory/main.sqlite.lock"


def test_only_one_holds_it_and_the_next_gets_it_after_the_release(path):
    first = OwnerLock.acquire(path)
    assert first is not None
    assert OwnerLock.acquire(path) is None
    first.release()
    second = OwnerLock.acquire(path)
    assert second is not None
    second.release()


def test_the_file_is_for_this_user_only_and_so_is_its_directory(path):
    lock = OwnerLock.acquire(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    lock.release()


def test_a_killed_holder_leaves_a_record_and_no_lock(path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    assert OwnerLock.acquire(path) is None
    holder.kill()
    holder.communicate(timeout=60)
    assert read_owner(path) == OwnerRecord(pid=1, workspace="/w", socket="/nowhere")
    lock = OwnerLock.acquire(path)
    assert lock is not None
    lock.release()
    assert read_owner(path) is None


def test_a_shorter_record_replaces_a_longer_one_whole(path):
    lock = OwnerLock.acquire(path)
    lock.announce(OwnerRecord(pid=123456, workspace="/a/long/workspace", socket="/a/socket"))
    lock.announce(OwnerRecord(pid=1, workspace="/w"))
    assert read_owner(path) == OwnerRecord(pid=1, workspace="/w")
    lock.release()


@pytest.mark.parametrize("content", [b"", b"{", b"7", b'{"pid": 1}', b"\xff" * 100])
def test_a_record_that_says_nothing_is_none(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    assert read_owner(path) is None


def test_a_lock_file_that_was_deleted_is_made_anew(path):
    first = OwnerLock.acquire(path)
    path.unlink()
    second = OwnerLock.acquire(path)
    assert second is not None
    assert OwnerLock.acquire(path) is None
    first.release()
    second.release()


def test_a_place_where_no_lock_can_be_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(IndexUnavailableError, match="cannot be locked"):
        OwnerLock.acquire(tmp_path / "file/main.sqlite.lock")


def test_a_link_in_place_of_the_lock_is_not_followed(path, tmp_path):
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IndexUnavailableError):
        OwnerLock.acquire(path)
    assert not (tmp_path / "elsewhere").exists()


def test_where_there_are_no_locks_everybody_gets_it(path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    first, second = OwnerLock.acquire(path), OwnerLock.acquire(path)
    assert first is not None
    assert second is not None
    first.release()
    second.release()


def test_an_owner_of_another_workspace_is_told_and_nobody_is_in_nobody_s_way(path, tmp_path):
    check_workspace(path, tmp_path)
    lock = OwnerLock.acquire(path)
    lock.announce(OwnerRecord(pid=77, workspace=str(tmp_path)))
    check_workspace(path, tmp_path)
    with pytest.raises(IndexUnavailableError, match="Process 77"):
        check_workspace(path, tmp_path / "other")
    lock.release()
