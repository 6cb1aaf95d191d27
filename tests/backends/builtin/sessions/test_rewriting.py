"""Transcripts that change in other ways than growing: deleted, rotated, shortened, replaced, touched, damaged."""

from __future__ import annotations

import os

import pytest

from backends.builtin.syncing.sessions import PART_BYTES
from backends.interface import SearchRequest, SyncRequest
from backends.transcripts import jsonl, turns
from config.settings import ChunkingSettings

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]
AUTOMATIC = SyncRequest(reason="interval")


def long_talk(transcript, megabytes: int, noise: int = 2_000) -> None:
    for number in range(megabytes * PART_BYTES // noise):
        transcript.say(f"Part{number} of the boiler.")
        transcript.work("n" * (noise - 190))


async def test_deleted_and_rotated_transcripts_leave_the_index(
    talking, transcript, paths_of, check
):
    for name in ("deleted", "rotated", "kept"):
        transcript(name).say("The boiler leaks.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        directory = talking.settings.sessions_dir
        (directory / "deleted.jsonl").unlink()
        (directory / "rotated.jsonl").rename(directory / "rotated.jsonl.1")
        assert await paths_of(backend, "boiler") == ["sessions/kept.jsonl"]
    check(talking.index)


async def test_a_transcript_that_is_gone_is_never_returned_whatever_the_index_holds(
    talking, transcript, paths_of
):
    talking.talking(budget_ms=0)
    for name in ("gone", "there"):
        transcript(name).say("The boiler leaks.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        (talking.settings.sessions_dir / "gone.jsonl").unlink()
        assert await paths_of(backend, "boiler") == ["sessions/there.jsonl"]


async def test_switched_off_every_trace_of_the_transcripts_leaves_the_index(
    talking, transcript, look, paths_of, check
):
    transcript().say("The boiler leaks.")
    await talking.synced()
    talking.configure()
    await talking.synced()
    with look(talking.index) as db:
        for table in ("files", "chunks", "transcript_parts"):
            assert db.execute(f"SELECT count(*) FROM {table}").get == 0
    check(talking.index)
    talking.talking()
    async with talking.open() as backend:
        await backend.sync(AUTOMATIC)
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]


async def test_a_transcript_that_was_rewritten_holds_only_what_it_holds_now(
    talking, transcript, paths_of, check
):
    one = transcript()
    one.say("The boiler leaks.")
    one.say("The pump works.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        text = one.path.read_text(encoding="utf-8")
        one.path.write_text(text.replace("boiler", "kettle"), encoding="utf-8")  # as many bytes
        assert await paths_of(backend, "boiler") == []
        assert await paths_of(backend, "kettle") == ["sessions/one.jsonl"]
        one.path.write_text(text[: text.index("\n") + 1], encoding="utf-8")
        assert await paths_of(backend, "kettle pump") == []
        one.path.write_text("", encoding="utf-8")
        await backend.sync(SyncRequest())
        one.path.write_text(text + text, encoding="utf-8")
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]
    check(talking.index)


async def test_a_rewrite_that_also_grew_is_told_from_an_append(
    talking, transcript, paths_of, check
):
    one = transcript()
    one.say("The boiler leaks.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        text = one.path.read_text(encoding="utf-8").replace("boiler", "tea kettle")
        with one.path.open("r+", encoding="utf-8") as file:  # the same inode
            file.write(text)
        one.say("And the pump works.")
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler") == []
        assert await paths_of(backend, "kettle") == ["sessions/one.jsonl"]
        assert await paths_of(backend, "pump") == ["sessions/one.jsonl"]
    check(talking.index)


async def test_what_a_replaced_file_still_holds_keeps_its_rows(talking, transcript, rows, check):
    """Compaction and rotation write a new file that begins like the old one."""
    one = transcript()
    async with talking.open() as backend:
        for round_ in range(6):
            for number in range(20):
                one.say(f"Round {round_} part {number} of the boiler, all is well with it.")
            await backend.sync(SyncRequest())
        before = rows(talking.index)
        lines = one.path.read_text(encoding="utf-8").splitlines(keepends=True)
        other = one.path.with_suffix(".tmp")
        other.write_text("".join(lines[:85]), encoding="utf-8")
        other.replace(one.path)
        await backend.sync(SyncRequest())
        after = rows(talking.index)
    kept = [row for row in after if row in before]
    assert len(kept) == sum("Round 4" not in row[2] and "Round 5" not in row[2] for row in before)
    assert "Round 4 part 3" in after[-1][2]
    assert not any("Round 5" in text or "Round 4 part 4" in text for *_, text in after)
    check(talking.index)


async def test_a_touched_transcript_is_compared_once_and_no_row_changes(
    talking, transcript, rows, check
):
    one = transcript()
    long_talk(one, 2)
    async with talking.open() as backend:
        first = await backend.sync(SyncRequest())
        assert (first.added, first.complete) == (1, True)
        before = rows(talking.index)
        os.utime(one.path, ns=(10**18, 10**18))
        report = await backend.sync(AUTOMATIC)
        assert (report.changed, report.unchanged, report.chunks_written) == (0, 1, 0)
        assert rows(talking.index) == before
        assert (await backend.status()).dirty is False
    check(talking.index)


async def test_a_long_transcript_is_taken_in_by_parts_that_survive_a_stop_between_them(
    talking, by_steps, transcript, paths_of, rows, check
):
    one = transcript()
    long_talk(one, 4)
    async with by_steps() as (_, indexer):
        parts = indexer.surveyor.survey().sessions.parts
        assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
        for part in parts[:2]:
            indexer.apply(part)
        half = rows(talking.index)
    async with talking.open() as backend:
        report = await backend.sync(SyncRequest())
        assert 0 < report.bytes_read < one.path.stat().st_size - PART_BYTES
        assert rows(talking.index)[: len(half)] == half
        assert await paths_of(backend, "Part7") == ["sessions/one.jsonl"]
    check(talking.index)


async def test_a_step_whose_predecessor_was_left_out_takes_in_nothing(
    talking, by_steps, transcript, rows
):
    one = transcript()
    long_talk(one, 3)
    async with by_steps() as (_, indexer):
        last = indexer.surveyor.survey().sessions.parts[-1]
        assert indexer.apply(last).change.name == "LATER"
        assert rows(talking.index) == []


async def test_two_steps_at_the_same_time_publish_once(
    talking, by_steps, transcript, in_threads, rows, check
):
    one = transcript()
    for number in range(300):
        one.say(f"Part {number} of the boiler.")
    async with by_steps() as (backend, indexer):
        (part,) = indexer.surveyor.survey().sessions.parts
        outcomes = in_threads(4, lambda _: indexer.apply(part).change.name)
        assert sorted(outcomes) == ["SAME", "SAME", "SAME", "WRITTEN"]
        await backend.sync(SyncRequest())
        assert len({text for *_, text in rows(talking.index)}) == len(rows(talking.index))
    check(talking.index)


@pytest.mark.parametrize("force", [False, True])
async def test_a_new_pass_over_a_long_transcript_never_empties_it(
    talking, by_steps, transcript, paths_of, hits_of, rows, check, force
):
    """With other chunk limits or force, the old chunks answer, at the right lines, until the new ones are there.

    A search has no time to index the rest.
    """
    talking.talking(budget_ms=0)
    one = transcript()
    long_talk(one, 3)
    last = one.say("At last the kingfisher came.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        before = rows(talking.index)
    if not force:
        talking.talking(budget_ms=0, chunking=ChunkingSettings(tokens=200, overlap=0))
    async with by_steps() as (backend, indexer):
        parts = indexer.surveyor.survey(force=force).sessions.parts
        assert len(parts) > 2
        for part in parts:
            indexer.apply(part)
            (hit,) = await hits_of(backend, "kingfisher", max_results=1)
            assert hit.start_line <= last == hit.end_line
            assert await paths_of(backend, "Part3") == ["sessions/one.jsonl"]
            check(talking.index)
        report = await backend.sync(AUTOMATIC)
        assert (report.changed, report.unchanged) == (0, 1)
        if force:
            assert rows(talking.index) == before
        else:
            assert len(rows(talking.index)) > len(before)


async def test_a_directory_that_cannot_be_listed_keeps_its_rows_and_is_named(
    talking, transcript, paths_of
):
    transcript().say("The boiler leaks.")
    directory = talking.settings.sessions_dir
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        aside = directory.rename(directory.with_name("aside"))
        directory.symlink_to(directory)  # a loop: neither listed nor absent
        assert await paths_of(backend, "boiler") == ["sessions/one.jsonl"]
        status = await backend.status()
        assert status.sources[1].skipped == 1
        assert any(skipped.path == "sessions" for skipped in status.skipped)
        assert status.weaknesses
        directory.unlink()
        aside.rename(directory)
        assert (await backend.status()).weaknesses == ()


async def test_a_transcript_that_became_a_link_leaves_the_index(
    talking, by_steps, transcript, paths_of
):
    one = transcript()
    one.say("The boiler leaks.")
    async with by_steps() as (backend, indexer):
        await backend.sync(SyncRequest())
        one.say("The pump works.")
        (part,) = indexer.surveyor.survey(eager=True).sessions.parts
        elsewhere = one.path.rename(one.path.with_suffix(".moved"))
        one.path.symlink_to(elsewhere)
        assert indexer.apply(part).skipped.path == "sessions/one.jsonl"
        assert await paths_of(backend, "boiler") == []
        one.path.unlink()
        assert indexer.apply(part).change.name == "GONE"


async def test_what_was_indexed_with_former_masking_is_masked_again_once(
    talking, transcript, paths_of, monkeypatch
):
    transcript().say("The boiler's key is sk-proj-4f9Jq2Lw8ZxTb7Vn3RmKc6Yd1Hs5Pg0A.")
    with monkeypatch.context() as former:
        former.setattr(turns, "redact", lambda text: text)
        former.setattr(jsonl, "RENDERING_VERSION", "turns 1, redaction 1")
        async with talking.open() as backend:
            await backend.sync(SyncRequest())
            (hit,) = (await backend.search(SearchRequest(query="boiler key"))).hits
            assert "sk-proj-4f9Jq" in hit.snippet
    async with talking.open() as backend:
        report = await backend.sync(AUTOMATIC)
        assert report.chunks_written > 0
        (hit,) = (await backend.search(SearchRequest(query="boiler key"))).hits
        assert "4f9Jq2Lw8ZxTb7Vn3RmKc6Yd1Hs5Pg0A" not in hit.snippet
        assert (await backend.sync(AUTOMATIC)).chunks_written == 0
