"""Directories that are the user's alone, under any umask."""

from __future__ import annotations

import os
import stat

import pytest

from config.disk.making import make_directories


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_no_parent_is_made_more_open_than_the_directory(tmp_path, umask, mask):
    umask(mask)
    make_directories(tmp_path / "a/b/c")
    assert {mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")} == {0o700}


def test_what_exists_keeps_its_mode(tmp_path):
    (tmp_path / "a").mkdir(mode=0o755)
    make_directories(tmp_path / "a/b")
    make_directories(tmp_path / "a/b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == (0o755, 0o700)


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(OSError, match="file"):
            make_directories(tmp_path / path)
