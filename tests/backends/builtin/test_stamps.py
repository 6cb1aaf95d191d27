"""Stamps that no signed number of 64 bits can represent, and faults of ours in general, are always reported."""

from __future__ import annotations

import os

import pytest

from backends.builtin.syncing.preparing import Preparer
from backends.builtin.syncing.surveying import Surveyor
from backends.files import reading, scan
from backends.interface import SyncRequest
from fakes.each import each
from fakes.freshness import stale_of

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

FAR_NS = 10_413_792_000 * 10**9
"""The year 2300, in more nanoseconds than a signed number of 64 bits can represent."""


async def test_a_note_of_the_year_2300_is_found_and_so_is_what_replaces_it(home, paths_of, settled):
    note = home.write("memory/far.md", "the boiler\n")
    os.utime(note, ns=(FAR_NS, FAR_NS))
    if note.stat().st_mtime_ns < 2**63:
        pytest.skip("this file system has no such times")
    async with home.open() as backend:
        assert await paths_of(backend, "boiler") == ["memory/far.md"]
        assert await stale_of(backend) is None
        await settled(backend)
        assert (await backend.sync(SyncRequest())).unchanged == 1
        note.write_text("the valve\n")
        os.utime(note, ns=(FAR_NS, FAR_NS))
        assert await paths_of(backend, "valve") == ["memory/far.md"]
        assert (await backend.status()).sources[0].pending == 0


@each("value", [0, 1, -1, 2**63 - 1, 2**63, 2**64 - 1, FAR_NS])
def test_every_stamp_fits_and_the_usual_ones_stay_as_they_are(value):
    fitting = scan.stamp(value)
    assert -(2**63) <= fitting < 2**63
    assert (fitting - value) % 2**64 == 0
    assert fitting == value or value >= 2**63


async def test_an_inode_of_a_network_file_system_is_indexed(home, paths_of, monkeypatch, settled):
    """The highest bit of such an inode may be set (overlayfs with xino, CIFS, FUSE); no test can make one."""
    original = scan.stamp

    def high(value: int) -> int:
        return original(value + 2**63)

    for module in (scan, reading):
        monkeypatch.setattr(module, "stamp", high)
    monkeypatch.setattr("backends.builtin.syncing.indexing.stamp", high)
    home.write("MEMORY.md", "the boiler\n")
    async with home.open() as backend:
        assert await paths_of(backend, "boiler") == ["MEMORY.md"]
        assert await stale_of(backend) is None


async def test_a_fault_in_one_file_makes_answers_stale_names_it_and_is_logged_once(
    home, paths_of, capfd, monkeypatch
):
    prepare = Preparer.prepare

    def fail(self, path, text, **options):
        if path == "memory/bad.md":
            raise OverflowError("too large for us")
        return prepare(self, path, text, **options)

    home.write("memory/bad.md", "the boiler\n")
    home.write("memory/good.md", "a boiler in the cellar\n")
    with monkeypatch.context() as broken:
        broken.setattr(Preparer, "prepare", fail)
        async with home.open() as backend:
            for _ in range(5):
                assert await paths_of(backend, "boiler") == ["memory/good.md"]
                stale = await stale_of(backend)
                assert stale is not None and stale.files == 1
                assert "'memory/bad.md'" in stale.reason and "OverflowError" in stale.reason
            await backend.sync(SyncRequest())
            await backend.sync(SyncRequest())
            broken.undo()
            await backend.sync(SyncRequest())
            assert await stale_of(backend) is None
            assert len(await paths_of(backend, "boiler")) == 2
    assert capfd.readouterr().out.count("file not indexed") == 1


async def test_a_fault_while_disk_and_index_are_compared_is_said_by_each_answer_and_logged_once(
    home, paths_of, capfd, monkeypatch
):
    home.write("MEMORY.md", "the boiler\n")
    async with home.open() as backend:
        assert await stale_of(backend) is None

        def fail(self, *_, **__):
            raise ValueError("a fault")

        monkeypatch.setattr(Surveyor, "compare", fail)
        for _ in range(3):
            assert await paths_of(backend, "boiler") == ["MEMORY.md"]
            stale = await stale_of(backend)
            assert stale is not None and "internal fault" in stale.reason
    assert capfd.readouterr().out.count("not compared") == 1
