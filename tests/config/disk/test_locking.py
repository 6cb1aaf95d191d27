from __future__ import annotations

import errno
import fcntl
import os
import threading

import pytest

from config.runtime.files import lock_within, open_lock, try_lock, try_lock_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.lock"


@pytest.fixture
def held(path):
    descriptor = try_lock_file(path)
    assert descriptor is not None
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def no_locks(monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_one_at_a_time_holds_it(path, held):
    assert try_lock_file(path) is None
    os.close(os.dup(held))
    assert try_lock_file(path) is None


def test_it_is_free_when_its_holder_lets_go(path):
    first = try_lock_file(path)
    os.close(first)
    second = try_lock_file(path)
    assert second is not None
    os.close(second)


def test_a_lock_file_is_for_its_user_alone(path, held):
    assert os.fstat(held).st_mode & 0o777 == 0o600


def test_a_removed_file_is_made_again_rather_than_locked_where_nobody_finds_it(path, monkeypatch):
    stale = open_lock(path)
    path.unlink()
    given = iter([stale])
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda *args, **named: next(given, None) or real(*args, **named)
    )
    descriptor = try_lock_file(path)
    assert os.path.samestat(os.fstat(descriptor), path.stat())
    os.close(descriptor)


def test_waiting_ends_with_the_deadline(path, held):
    other = open_lock(path)
    with pytest.raises(TimeoutError, match="another process"):
        lock_within(other, 0.05)
    os.close(other)


def test_whoever_waits_gets_it_when_it_is_free(path, held):
    other = open_lock(path)
    release = threading.Timer(0.05, fcntl.flock, (held, fcntl.LOCK_UN))
    release.start()
    lock_within(other, 60)
    assert not try_lock(held)
    release.join()
    os.close(other)


def test_without_locks_only_the_lenient_get_one(path, no_locks):
    descriptor = open_lock(path)
    assert try_lock(descriptor, lenient=True)
    lock_within(descriptor, 0, lenient=True)
    with pytest.raises(OSError, match="No locks available"):
        try_lock(descriptor)
    with pytest.raises(OSError, match="No locks available"):
        try_lock_file(path)
    os.close(descriptor)


def test_a_link_is_not_followed(path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        open_lock(path)
    assert not (tmp_path / "elsewhere").exists()
