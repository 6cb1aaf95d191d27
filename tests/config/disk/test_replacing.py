from __future__ import annotations

import errno
import os

import pytest

from config.runtime.files import copies_of, is_copy, keep_copy, replace_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "note.json"


def test_the_file_holds_exactly_what_was_given(path):
    replace_file(path, b"long before")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_its_mode_does_not_depend_on_the_umask(path, mode):
    before = os.umask(0o077)
    try:
        replace_file(path, b"new", mode=mode)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def test_who_has_the_old_file_open_goes_on_reading_the_old_one(path):
    replace_file(path, b"old")
    with path.open("rb") as reader:
        replace_file(path, b"new")
        assert reader.read() == b"old"


def test_a_failure_leaves_the_old_file_and_nothing_else(path):
    (path / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        replace_file(path, b"new")
    assert list(path.parent.iterdir()) == [path]


def test_copies_take_names_that_nobody_has_and_are_found_again_the_latest_first(tmp_path):
    file = tmp_path / "a[b].json"
    kept = [keep_copy(file, str(number).encode(), mode=0o640) for number in range(11)]
    assert [one.name for one in kept[:2]] == [
        "a[b].json.before-memory-gateway",
        "a[b].json.before-memory-gateway.2",
    ]
    assert copies_of(file) == kept[::-1]
    assert [one.read_text() for one in kept] == [str(number) for number in range(11)]
    assert {one.stat().st_mode & 0o777 for one in kept} == {0o640}


def test_a_copy_that_cannot_be_written_is_not_left_behind(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        keep_copy(tmp_path / "a", b"x", mode=0o600)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_follows_no_link(tmp_path):
    (tmp_path / "a.before-memory-gateway").symlink_to(tmp_path / "elsewhere")
    assert keep_copy(tmp_path / "a", b"x", mode=0o600).name == "a.before-memory-gateway.2"
    assert not (tmp_path / "elsewhere").exists()


def test_a_copy_is_a_regular_file_of_the_same_content_and_mode(tmp_path):
    copy = keep_copy(tmp_path / "a", b"kept", mode=0o600)
    assert is_copy(copy, b"kept", mode=0o600)
    assert not is_copy(copy, b"kept", mode=0o640)
    assert not is_copy(copy, b"kep", mode=0o600)
    (tmp_path / "link").symlink_to(copy)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for other in ("link", "pipe", "nothing"):
        assert not is_copy(tmp_path / other, b"kept", mode=0o600)
