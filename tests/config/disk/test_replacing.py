from __future__ import annotations

import os

import pytest

from config.runtime.files import replace_file


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
