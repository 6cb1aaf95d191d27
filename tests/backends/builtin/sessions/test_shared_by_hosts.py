"""Transcripts in an index that several hosts share."""

from __future__ import annotations

import shutil

import pytest
from msgspec.structs import replace

from backends.interface import SyncRequest
from config.settings import SessionSyncSettings, SyncSettings

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


def look_from(home, shared, name) -> None:
    """Opens the index of the home `shared`."""
    search = replace(home.settings.search, store=replace(shared.store, view=name))
    home.settings = replace(home.settings, search=search)


@pytest.fixture
def first(talking):
    look_from(talking, talking, "first")
    return talking


@pytest.fixture
def host(first, new_home):
    """Another host with a copy of the transcripts."""

    def start(name: str, **search):
        other = new_home(name)
        thresholds = SessionSyncSettings(delta_bytes=10**9, delta_messages=10**6)
        sync = SyncSettings(sessions=thresholds, search_budget_ms=20_000)
        ours = {"sources": ("memory", "sessions"), "session_memory": True, "sync": sync}
        other.configure(**ours | search)
        if first.settings.sessions_dir.is_dir():
            shutil.copytree(first.settings.sessions_dir, other.settings.sessions_dir)
        look_from(other, first, name)
        return other

    return start


async def test_a_copy_is_read_once_and_what_grows_on_either_host_is_taken_in(
    first, host, transcript, rows, check
):
    talk = transcript("one")
    talk.say("The boiler leaks.")
    await first.synced()
    copy = host("copy")
    before = rows(first.index)
    await copy.synced()
    assert (await copy.synced()).bytes_read == 0
    assert (await first.synced()).bytes_read == 0
    assert rows(first.index) == before
    talk.say("The pump rattles.")
    shutil.copy(talk.path, copy.settings.sessions_dir / "one.jsonl")
    await copy.synced()
    assert "pump" in rows(first.index)[-1][2]
    assert (await first.synced()).chunks_written == 0
    check(first.index)


async def test_an_old_copy_shortens_nothing_and_is_not_read_again(
    first, host, transcript, rows, check
):
    talk = transcript("one")
    talk.say("The boiler leaks.")
    old = host("old")
    talk.say("The pump rattles.")
    await first.synced()
    before = rows(first.index)
    await old.synced()
    assert rows(first.index) == before
    assert (await old.synced()).bytes_read == 0
    talk.say("The valve is stuck.")
    await first.synced()
    assert "valve" in rows(first.index)[-1][2]
    check(first.index)


async def test_a_host_without_transcripts_takes_none_out_and_one_that_deletes_does(
    first, host, transcript, rows
):
    for name in ("one", "other"):
        transcript(name).say("The boiler leaks.")
    await first.synced()
    empty = host("empty")
    shutil.rmtree(empty.settings.sessions_dir)
    report = await empty.synced()
    assert report.removed == 0
    assert len(rows(first.index)) == 2
    (first.settings.sessions_dir / "one.jsonl").unlink()
    await first.synced()
    assert [path for _, path, _ in rows(first.index)] == ["sessions/other.jsonl"]


async def test_switched_off_on_one_host_they_stay_with_the_others(first, host, transcript, rows):
    transcript("one").say("The boiler leaks.")
    await first.synced()
    off = host("off", sources=("memory",))
    async with off.open() as backend:
        assert (await backend.sync(SyncRequest())).removed == 0
    assert len(rows(first.index)) == 1
    first.configure()
    look_from(first, first, "first")
    await first.synced()
    assert rows(first.index) == []


async def test_a_renamed_host_reads_no_transcript_again(first, transcript, rows):
    for name in ("one", "other"):
        transcript(name).say("The boiler leaks.")
    await first.synced()
    look_from(first, first, "renamed")
    (first.settings.sessions_dir / "one.jsonl").unlink()
    report = await first.synced()
    assert (report.bytes_read, report.removed) == (0, 1)
    assert [path for _, path, _ in rows(first.index)] == ["sessions/other.jsonl"]
