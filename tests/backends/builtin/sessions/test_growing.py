"""Transcripts that grow: thresholds, appends, restarts, halves of lines."""

from __future__ import annotations

import os
import time

import pytest

from backends.builtin.syncing.sessions import SILENCE_NS
from backends.interface import SearchRequest, SyncRequest
from fakes.each import each

pytestmark = pytest.mark.every_store
AUTOMATIC = SyncRequest(reason="interval")


@pytest.mark.anyio
async def test_what_exists_when_transcripts_become_a_source_is_indexed(
    talking, transcript, paths_of
):
    transcript("old").say("An old boiler.")
    talking.configure()
    await talking.synced()
    talking.talking()
    transcript("young").say("A young boiler.")
    async with talking.open() as backend:
        report = await backend.sync(SyncRequest(reason="boot"))
        assert (report.added, report.changed) == (2, 0)
        assert len(await paths_of(backend, "boiler")) == 2


@pytest.mark.anyio
async def test_history_goes_on_after_a_restart_though_it_is_below_the_thresholds(
    talking, by_steps, transcript, paths_of
):
    """The first look records what is due; a process that dies after it leaves it due."""
    transcript().say("The boiler leaks.")
    async with by_steps() as (_, indexer):
        indexer.surveyor.survey()
    async with talking.open() as backend:
        assert (await backend.status()).sources[1].indexed == 0
        await backend.sync(AUTOMATIC)
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]


@pytest.mark.anyio
async def test_growth_below_the_thresholds_waits_also_across_restarts(
    talking, transcript, paths_of
):
    talking.talking(delta_messages=4)
    one = transcript()
    await talking.synced()
    for number in range(3):
        async with talking.open() as backend:
            one.say(f"The boiler leaks, part {number}.")
            assert not await backend.transcript_grew("one")
            await backend.sync(AUTOMATIC)
            assert await paths_of(backend, "boiler") == []
            status = await backend.status()
            assert (status.sources[1].pending, status.dirty) == (0, False)
            assert status.details.sessions.below_thresholds == 1
    async with talking.open() as backend:
        one.work("The fourth line is no turn and counts.")
        assert await backend.transcript_grew("one")
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]
        assert not await backend.transcript_grew("one")


@pytest.mark.anyio
async def test_bytes_count_as_well_and_a_new_transcript_waits_too(talking, transcript, paths_of):
    talking.talking(delta_bytes=2_000, delta_messages=0)
    await talking.synced()
    one = transcript()
    async with talking.open() as backend:
        one.say("The boiler leaks.")
        assert await paths_of(backend, "boiler") == []
        one.work("x" * 2_000)
        assert await backend.transcript_grew(str(one.path))
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]


@each(
    ("request_", "by_hand"),
    [
        (SyncRequest(), True),
        (SyncRequest(reason="cli"), True),
        (SyncRequest(reason="search, manual"), True),
        (SyncRequest(reason="interval", force=True), True),
        (SyncRequest(reason="boot, search"), False),
    ],
)
def test_a_sync_is_by_hand_when_one_of_its_reasons_is(request_, by_hand):
    assert request_.is_manual is by_hand


@pytest.mark.anyio
async def test_a_person_who_syncs_and_a_conversation_that_fell_silent_do_not_wait(
    talking, transcript, paths_of
):
    one, two = transcript("one"), transcript("two")
    await talking.synced()
    async with talking.open() as backend:
        one.say("The boiler leaks.")
        assert await paths_of(backend, "boiler") == []
        await backend.sync(SyncRequest(reason="manual"))
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]
        two.say("The boiler works.")
        assert len(await paths_of(backend, "boiler")) == 1
        long_ago = time.time_ns() - SILENCE_NS - 10**9
        os.utime(two.path, ns=(long_ago, long_ago))
        assert len(await paths_of(backend, "boiler")) == 2


@pytest.mark.anyio
async def test_an_append_changes_no_row_and_reads_nothing_before_it(
    talking, transcript, rows, check
):
    one = transcript()
    for number in range(200):
        one.say(f"Part {number} of the boiler was serviced, all is well.")
    async with talking.open() as backend:
        first = await backend.sync(SyncRequest())
        assert first.bytes_read == one.path.stat().st_size
        before = rows(talking.index)
        for number in range(5):
            size = one.path.stat().st_size
            one.answer(f"Then came visit {number}.")
            report = await backend.sync(SyncRequest())
            assert (report.changed, report.chunks_written) == (1, 1)
            assert report.bytes_read == one.path.stat().st_size - size
        after = rows(talking.index)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 5
    check(talking.index)


@pytest.mark.anyio
async def test_only_the_chunks_of_appended_turns_are_embedded(
    talking, transcript, vendor, embedded
):
    talking.embed_with(vendor)
    talking.configure(provider="openai", remote=talking.settings.search.remote,
                      sources=("memory", "sessions"), session_memory=True)  # fmt: skip
    one = transcript()
    for number in range(400):
        one.say(f"Old{number} part of the boiler was serviced, all is well with it.")
        one.work("noise " * 100)
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        before = len(vendor.embedded())
        assert before > 10
        for number in range(40):
            one.answer(f"New{number} part of the pump was serviced, all is well with it.")
        report = await backend.sync(SyncRequest())
        await embedded(backend)
    texts = vendor.embedded()[before:]
    assert len(texts) <= 3 * report.chunks_written
    assert not any("Old" in text for text in texts)
    assert all(sum(f"New{number} " in text for text in texts) == 1 for number in range(40))


@pytest.mark.anyio
async def test_half_a_line_at_the_end_is_no_error_and_is_taken_in_when_it_is_whole(
    talking, transcript, paths_of
):
    one = transcript()
    one.say("The boiler leaks.")
    one.half('{"type": "message", "message": {"role": "user", "content": "The pump')
    async with talking.open() as backend:
        report = await backend.sync(SyncRequest())
        assert (report.complete, report.skipped) == (True, ())
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]
        again = await backend.sync(SyncRequest())
        assert (again.bytes_read, again.unchanged) == (0, 1)
        one.half(' works."}}\n')
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "pump") == ["sessions/one.jsonl"]


@pytest.mark.anyio
async def test_a_search_takes_in_what_reached_the_thresholds(talking, transcript, paths_of):
    talking.talking(delta_bytes=0)
    one = transcript()
    async with talking.open() as backend:
        for number in range(20):
            one.say(f"It was unique{number} today.")
            assert await paths_of(backend, f"unique{number}") == ["sessions/one.jsonl"]


@pytest.mark.anyio
async def test_a_search_says_when_it_left_out_more_than_it_may_index(talking, transcript):
    talking.talking(budget_ms=100)
    one = transcript()
    for _ in range(1_500):
        one.work("noise " * 200)
    one.say("The boiler leaks.")
    async with talking.open() as backend:
        stale = (await backend.search(SearchRequest(query="boiler"))).stale
        assert stale is not None
        assert (stale.files, stale.reason) == (1, "more changed than one search may index")
        await backend.sync(SyncRequest(reason="search"))
        answer = await backend.search(SearchRequest(query="boiler"))
        assert (answer.stale, len(answer.hits)) == (None, 1)
