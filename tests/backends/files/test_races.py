"""A directory that is repeatedly exchanged for a link while files in it are read and written."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import contextmanager

import pytest

from backends.files.appending import append_entry
from backends.files.roots import Location
from backends.files.safe_open import opened
from backends.interface import FileUnwritableError, PathNotAllowedError

PATIENCE_S = 240
OUTSIDE = "outside the workspace\n"
_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


@contextmanager
def swapping(place, link):
    """Exchanges the two names repeatedly, each time in one step.

    Yields `rounds(n)`, an iterator of at least n rounds that only ends after as many exchanges, however rarely a busy
    machine lets one of the two run.
    """
    ended, turns = threading.Event(), 0

    def swap():
        nonlocal turns
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        while not ended.is_set():
            assert exchange(_HERE, os.fsencode(place), _HERE, os.fsencode(link), _EXCHANGE) == 0
            turns += 1

    def rounds(n):
        latest, done = time.monotonic() + PATIENCE_S, 0
        while done < n or turns < n:
            assert time.monotonic() < latest, f"{turns} exchanges in {done} rounds"
            yield done
            done += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield rounds
    finally:
        ended.set()
        thread.join(PATIENCE_S)


@pytest.fixture
def places(tmp_path):
    """A workspace, and outside of it a directory and a file that must be neither read nor written."""
    outside, workspace = tmp_path / "outside", tmp_path / "workspace"
    for directory in (outside, workspace / "memory"):
        directory.mkdir(parents=True)
    (outside / "a.md").write_text(OUTSIDE, encoding="utf-8")
    (workspace / "memory/a.md").write_text("inside\n", encoding="utf-8")
    return workspace, outside


def twins(workspace, outside, what):
    """The place that is exchanged, and the link that replaces it."""
    place = workspace / ("memory" if what == "directory" else "memory/a.md")
    link = workspace / "link"
    link.symlink_to(outside if what == "directory" else outside / "a.md")
    return place, link


@pytest.mark.parametrize("what", ["directory", "file"])
def test_no_exchange_makes_a_read_leave_the_workspace(places, what):
    workspace, outside = places
    place, link = twins(workspace, outside, what)
    location = Location("memory/a.md", str(workspace), ("memory", "a.md"))
    read = set()
    with swapping(place, link) as rounds:
        for _ in rounds(1500):
            try:
                with opened(location) as descriptor:
                    read.add(os.read(descriptor, 100))
            except (FileNotFoundError, PathNotAllowedError):
                continue
    assert read <= {b"inside\n"}


@pytest.mark.parametrize("what", ["directory", "file"])
def test_no_exchange_makes_an_entry_leave_the_workspace(places, what):
    workspace, outside = places
    place, link = twins(workspace, outside, what)
    location = Location("memory/a.md", str(workspace), ("memory", "a.md"))
    with swapping(place, link) as rounds:
        for _ in rounds(100):
            try:
                append_entry(location, "an entry")
            except (FileUnwritableError, PathNotAllowedError):
                continue
    assert [path.name for path in outside.iterdir()] == ["a.md"]
    assert (outside / "a.md").read_text(encoding="utf-8") == OUTSIDE
