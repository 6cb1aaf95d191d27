"""Conversations in the host's database: found, kept up to date, read back, and removed when they are gone."""

from __future__ import annotations

import apsw
import pytest
from msgspec.structs import replace

from backends.interface import ReadRequest, SearchRequest, SyncRequest
from config.errors import MemoryGatewayError
from fakes.host_database import HostDatabase

pytestmark = pytest.mark.every_store
AUTOMATIC = SyncRequest(reason="interval")
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def host(talking):
    database = HostDatabase(talking.settings.state_dir)
    yield database
    database.close()


@pytest.fixture
def session(host):
    return host.session()


@pytest.mark.anyio
async def test_a_hit_names_the_lines_of_the_conversation_and_its_events_and_can_be_read_on(
    talking, session, hits_of
):
    session.say("Where is the ladder?")
    session.work("a tool looked into the shed")
    session.answer("Behind the\n\nboiler.", packed=True)
    session.say("Thanks, now I see it, the ladder.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        (hit,) = await hits_of(backend, "ladder boiler")
        assert (hit.path, hit.start_line, hit.events) == ("sessions/one", 1, (1, 4))
        read = await backend.read(ReadRequest(path=hit.path, first_line=1, line_count=2))
        assert read.text == "User: Where is the ladder?\nAssistant: Behind the boiler."
        whole = await backend.read(ReadRequest(path=hit.path))
        assert (whole.text.splitlines()[2], whole.line_count) == (
            "User: Thanks, now I see it, the ladder.",
            3,
        )
        beyond = await backend.read(ReadRequest(path=hit.path, first_line=9))
        assert (beyond.status, beyond.text) == ("ok", "")


@pytest.mark.anyio
async def test_secrets_are_masked_in_the_index_and_in_what_is_read(talking, session, hits_of, rows):
    session.say(f"The boiler key is {SECRET}.")
    session.say(f"Again, packed: {SECRET}. " + "boiler " * 200, packed=True)
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        hits = await hits_of(backend, "boiler")
        read = await backend.read(ReadRequest(path="sessions/one"))
        assert hits and "boiler" in read.text
        assert SECRET not in read.text + "".join(hit.snippet for hit in hits)
    assert SECRET not in str(rows(talking.index))
    if talking.store.driver == "sqlite":
        assert SECRET.encode() not in talking.index.read_bytes()


@pytest.mark.anyio
async def test_only_what_is_new_is_read_and_written(talking, session, rows):
    for number in range(40):
        session.say(f"Turn number {number} about the boiler. " + "word " * 60)
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        before = rows(talking.index)
        session.say("One more turn about the boiler.")
        report = await backend.sync(SyncRequest())
        assert 0 < report.bytes_read < 500
        assert (report.changed, report.chunks_written) == (1, 1)
        assert rows(talking.index)[: len(before)] == before
        assert (await backend.sync(SyncRequest())).bytes_read == 0


@pytest.mark.anyio
async def test_growth_waits_for_the_thresholds_and_silence(talking, host, session, paths_of):
    talking.talking(delta_messages=3)
    async with talking.open() as backend:
        await backend.sync(AUTOMATIC)
        for number in range(2):
            session.say(f"The boiler leaks, part {number}.")
            assert not await backend.transcript_grew("one")
        await backend.sync(AUTOMATIC)
        assert await paths_of(backend, "boiler") == []
        assert (await backend.status()).details.sessions.below_thresholds == 1
        session.say("The boiler leaks, part 3.")
        assert await backend.transcript_grew("one")
        assert await paths_of(backend, "boiler") == ["sessions/one"]
        session.say("The chimney smokes.")
        assert await paths_of(backend, "chimney") == []
        session.fall_silent()
        assert await paths_of(backend, "chimney") == ["sessions/one"]


@pytest.mark.anyio
async def test_a_database_that_appears_later_is_taken_in_as_a_whole(talking, transcript, paths_of):
    transcript("old").say("The boiler of the file.")
    async with talking.open() as backend:
        await backend.sync(AUTOMATIC)
        host = HostDatabase(talking.settings.state_dir)
        host.session().say("The boiler of the database.")
        host.close()
        await backend.sync(AUTOMATIC)
        found = await paths_of(backend, "boiler")
        assert sorted(found) == ["sessions/old.jsonl", "sessions/one"]


@pytest.mark.anyio
async def test_a_conversation_that_is_in_both_is_taken_once_from_the_database(
    talking, transcript, host, paths_of
):
    transcript("one").say("The boiler leaks.")
    transcript("old").say("The boiler is old.")
    async with talking.open() as backend:
        await backend.sync(AUTOMATIC)
        host.session("one").say("The boiler leaks.")
        host.session("old", key="agent:main:other").archive()
        await backend.sync(AUTOMATIC)
        assert await paths_of(backend, "boiler") == ["sessions/one"]


@pytest.mark.anyio
async def test_what_was_rewound_leaves_the_index_and_what_was_before_stays(
    talking, session, rows, paths_of
):
    kept = session.say("The boiler is sound. " + "word " * 400)
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        before = rows(talking.index)
        session.say("The chimney is on fire.")
        await backend.sync(SyncRequest())
        session.rewind(kept)
        assert await paths_of(backend, "chimney") == []
        assert [row[0] for row in rows(talking.index)] == [row[0] for row in before]
        session.say("The ladder is long.")
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "ladder") == ["sessions/one"]
        read = await backend.read(ReadRequest(path="sessions/one", first_line=2))
        assert read.text == "User: The ladder is long."


@pytest.mark.anyio
async def test_an_event_that_the_host_rewrote_is_found_as_it_is_now(talking, session, paths_of):
    first = session.say("The boiler is sound.")
    session.say("The ladder is long.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        session.rewrite(first, "The furnace is sound, and much longer to tell than before it was.")
        assert await paths_of(backend, "boiler") == []
        assert await paths_of(backend, "furnace ladder") == ["sessions/one"]


@pytest.mark.anyio
@pytest.mark.parametrize("leave", ["archive", "cool", "delete"])
async def test_a_session_that_the_host_puts_away_leaves_the_index(
    talking, session, paths_of, leave
):
    session.say("The boiler leaks.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler") == ["sessions/one"]
        getattr(session, leave)()
        assert await paths_of(backend, "boiler") == []
        assert (await backend.read(ReadRequest(path="sessions/one"))).status == "not_found"
        assert (await backend.status()).sources[1].on_disk == 0


@pytest.mark.anyio
async def test_what_a_person_had_forgotten_leaves_the_index(talking, host, session, paths_of):
    session.say("The boiler leaks.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        host.forget("one")
        assert await paths_of(backend, "boiler") == []
        assert (await backend.status()).details.sessions.database.left_out == {"forgotten": 1}


@pytest.mark.anyio
async def test_while_the_host_works_out_a_conversation_the_index_keeps_what_it_has(
    talking, session, paths_of
):
    kept = session.say("The boiler is sound.")
    session.say("The chimney is on fire.")
    session.rewind(kept)
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        session.rebuilding(True)
        session.say("The ladder is long.")
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "chimney ladder") == []
        session.rebuilding(False)
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "ladder") == ["sessions/one"]
        assert await paths_of(backend, "chimney") == []


@pytest.mark.anyio
async def test_a_long_conversation_is_taken_in_by_steps_and_every_turn_is_found(
    talking, session, hits_of
):
    with session.host.db:
        for number in range(2_000):
            session.say(
                f"Turn number{number} of the boiler. " + "word " * 300, packed=number % 3 == 0
            )
    async with talking.open() as backend:
        steps = []
        await backend.sync(SyncRequest(), progress=steps.append)
        assert steps[-1].total >= 3
        for number in (0, 700, 1_400, 1_999):
            (hit, *_) = await hits_of(backend, f"number{number}")
            read = await backend.read(
                ReadRequest(path=hit.path, first_line=hit.start_line, line_count=1)
            )
            lines = range(hit.start_line, hit.end_line + 1)
            assert number + 1 in lines
            assert f"number{hit.start_line - 1} " in read.text
            assert hit.events[0] == hit.start_line  # the header is event 0


@pytest.mark.anyio
async def test_an_event_that_is_broken_or_far_too_long_costs_only_itself(
    talking, host, session, paths_of
):
    session.say("The boiler leaks.")
    broken = session.say("never mind " * 200, packed=True)
    bomb = session.say("never mind " * 200, packed=True)
    host.db.execute(
        "UPDATE transcript_events SET event_zstd = x'00112233' WHERE seq = ?", (broken,)
    )
    host.db.execute("UPDATE transcript_events SET event_utf8_bytes = 7 WHERE seq = ?", (bomb,))
    session.say("x" * (9 * 1024 * 1024))
    session.add({"type": "message", "message": "no object"})
    session.say("The ladder is long.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "boiler ladder") == ["sessions/one"]
        read = await backend.read(ReadRequest(path="sessions/one"))
        assert read.text.splitlines() == ["User: The boiler leaks.", "User: The ladder is long."]


@pytest.mark.anyio
async def test_a_database_that_cannot_be_read_is_said_and_its_conversations_are_kept(
    talking, host, session, paths_of
):
    session.say("The boiler leaks.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        host.close()
        whole = host.path.read_bytes()
        host.path.write_bytes(b"no database at all" * 100)
        await backend.sync(SyncRequest())
        status = await backend.status()
        assert [one.path for one in status.skipped] == [str(host.path)]
        assert "damaged" in status.skipped[0].reason
        assert await paths_of(backend, "boiler") == ["sessions/one"]
        host.path.write_bytes(whole)
        await backend.sync(SyncRequest())
        assert (await backend.status()).skipped == ()
        assert await paths_of(backend, "boiler") == ["sessions/one"]


@pytest.mark.anyio
async def test_no_conversation_found_beside_a_database_that_cannot_be_read_is_not_an_empty_answer(
    talking, host, session
):
    session.say("The boiler leaks.")
    host.close()
    host.path.write_bytes(b"no database at all" * 100)
    async with talking.open() as backend:
        asked = SearchRequest(query="boiler", sources=("sessions",))
        answer = await backend.search(asked)
        assert (answer.hits, answer.outcome) == ((), "partial")
        assert "damaged" in answer.stale.reason
        notes = await backend.search(replace(asked, sources=("memory",)))
        assert (notes.hits, notes.outcome) == ((), "empty")


@pytest.mark.anyio
async def test_why_a_conversation_cannot_be_read_names_what_was_asked_for(talking, host, session):
    session.say("The boiler leaks.")
    host.close()
    host.path.rename(host.path.with_suffix(".moved"))
    host.path.symlink_to(host.path.with_suffix(".moved"))
    async with talking.open() as backend:
        with pytest.raises(MemoryGatewayError, match=r"'sessions/one' cannot be read: .*link"):
            await backend.read(ReadRequest(path="sessions/one"))


@pytest.mark.anyio
async def test_a_database_without_what_is_needed_is_never_guessed_at(talking, host, session):
    session.say("The boiler leaks.")
    host.db.execute("PRAGMA user_version = 99")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        database = (await backend.status()).details.sessions.database
        assert (database.version, database.known, database.failure) == (99, False, None)
        host.db.execute("ALTER TABLE session_nodes RENAME COLUMN current_session_id TO other")
        await backend.sync(SyncRequest())
        database = (await backend.status()).details.sessions.database
        assert "session_nodes.current_session_id" in database.failure
        with pytest.raises(MemoryGatewayError, match="current_session_id"):
            await backend.read(ReadRequest(path="sessions/one"))


@pytest.mark.anyio
async def test_a_database_without_the_optional_tables_is_read_event_by_event(
    talking, host, session, paths_of
):
    kept = session.say("The boiler is sound.")
    session.say("The chimney is on fire.", packed=True)
    session.rewind(kept)
    for table in (
        "session_transcript_active_events", "session_transcript_index_state",
        "transcript_rewrite_watermarks", "memory_session_tombstones",
    ):  # fmt: skip
        host.db.execute(f"DROP TABLE {table}")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "chimney boiler") == ["sessions/one"]


@pytest.mark.anyio
async def test_transcripts_that_are_no_source_are_not_read_back(talking, session):
    session.say("The boiler leaks.")
    talking.configure()
    async with talking.open() as backend:
        with pytest.raises(MemoryGatewayError, match="not allowed"):
            await backend.read(ReadRequest(path="sessions/one"))


@pytest.mark.anyio
async def test_conversations_that_qmd_answers_from_can_be_read_on(talking, session):
    session.say("The boiler leaks.")
    talking.configure()
    qmd = replace(
        talking.settings.qmd, sessions=replace(talking.settings.qmd.sessions, enabled=True)
    )
    talking.settings = replace(talking.settings, backend="qmd", qmd=qmd)
    async with talking.open() as backend:
        read = await backend.read(ReadRequest(path="sessions/one"))
        assert read.text == "User: The boiler leaks."


@pytest.mark.anyio
async def test_switching_the_source_off_removes_every_trace(talking, session, rows):
    session.say("The boiler leaks.")
    await talking.synced()
    assert rows(talking.index)
    talking.configure()
    await talking.synced()
    assert rows(talking.index) == []


@pytest.mark.anyio
async def test_a_search_that_asks_the_sessions_alone_gets_them(talking, session):
    session.say("The boiler leaks.")
    talking.write("memory/a.md", "The boiler leaks.\n")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        asked = SearchRequest(query="boiler", min_score=0, sources=("sessions",))
        assert [hit.path for hit in (await backend.search(asked)).hits] == ["sessions/one"]


@pytest.mark.anyio
async def test_nothing_of_the_host_is_changed_and_no_lock_is_left(talking, host, session):
    session.say("The boiler leaks.")
    content = host.path.read_bytes(), host.path.with_name(f"{host.path.name}-wal").read_bytes()
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        now = host.path.read_bytes(), host.path.with_name(f"{host.path.name}-wal").read_bytes()
        assert now == content
        assert host.db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE) == (0, 0)
        await backend.sync(SyncRequest())
        host.close()
        beside = {file.name for file in host.path.parent.iterdir()}
        assert beside == {host.path.name}  # the host was the last to close it


def removed(host):
    host.close()
    for file in host.path.parent.glob(f"{host.path.name}*"):
        file.unlink()


@pytest.fixture
def replaced(talking, host):
    """Replaces the host's database by another one, by a rename or after removing the former one."""

    def replace_it(*names: str, by_rename: bool = False) -> None:
        if by_rename:
            elsewhere = talking.settings.state_dir / "elsewhere"
            other = HostDatabase(elsewhere)
        else:
            removed(host)
            other = HostDatabase(talking.settings.state_dir)
        for name in names:
            other.session(name, key=f"agent:main:{name}").say(f"Where is the drill of {name}?")
        other.close()
        if by_rename:
            other.path.replace(host.path)
            for log in host.path.parent.glob(f"{host.path.name}-*"):
                log.unlink()

    return replace_it


@pytest.mark.anyio
@pytest.mark.parametrize("by_rename", [False, True])
async def test_a_database_that_another_one_replaced_is_told_as_such(
    talking, host, session, replaced, transcript, paths_of, by_rename
):
    session.say("Where is the ladder?")
    transcript("old").say("The ladder of the file.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        replaced("two", by_rename=by_rename)
        report = await backend.sync(SyncRequest())
        weak = await backend.weaknesses()
        assert await paths_of(backend, "ladder drill") == ["sessions/two", "sessions/old.jsonl"]
    message = f"the host's database {host.path} has none of 1 indexed conversations: another one is"
    assert message in (report.error or "") and any(message in one for one in weak)
    assert "directory of transcripts" not in str((report, weak))


@pytest.mark.anyio
async def test_a_database_that_was_removed_is_told_as_missing_and_no_directory_is(
    talking, host, session
):
    session.say("Where is the ladder?")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        removed(host)
        report = await backend.sync(SyncRequest())
    assert f"the host's database {host.path} is missing" in (report.error or "")
    assert "directory of transcripts" not in str(report)


@pytest.mark.anyio
@pytest.mark.parametrize("leave", ["archive", "forget", "delete"])
async def test_one_of_two_conversations_that_goes_waits_for_nothing(
    talking, host, session, rows, leave
):
    """There never was a directory of transcripts here."""
    session.say("Where is the ladder?")
    host.session("two", key="agent:main:two").say("Where is the drill?")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        if leave == "forget":
            host.forget("one")
        else:
            getattr(session, leave)()
        report = await backend.sync(SyncRequest())
        assert (report.complete, report.error) == (True, None)
        assert {path for _, path, _ in rows(talking.index)} == {"sessions/two"}


@pytest.mark.anyio
@pytest.mark.parametrize("leave", ["archive", "forget"])
async def test_what_the_database_still_knows_and_was_put_away_goes_at_once(
    talking, host, rows, leave
):
    """This holds for the only conversation and for many at once: this database is the one that was indexed."""
    sessions = [host.session(f"s{n}", key=f"agent:main:{n}") for n in range(12)]
    for one in sessions:
        one.say("Where is the ladder?")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        for one in sessions:
            host.forget(one.name) if leave == "forget" else one.archive()
        report = await backend.sync(SyncRequest())
        assert (report.complete, report.error) == (True, None)
        assert rows(talking.index) == []


@pytest.mark.anyio
async def test_files_whose_conversations_moved_to_the_database_are_no_vanished_files(
    talking, transcript, rows
):
    for number in range(12):
        transcript(f"s{number}").say("Where is the ladder?")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        host = HostDatabase(talking.settings.state_dir)
        for number in range(12):
            host.session(f"s{number}", key=f"agent:main:{number}").say("Where is the ladder?")
        host.close()
        report = await backend.sync(SyncRequest())
        assert (report.complete, report.error) == (True, None)
        assert {path for _, path, _ in rows(talking.index)} == {f"sessions/s{n}" for n in range(12)}


@pytest.mark.anyio
async def test_conversations_of_two_kinds_that_vanish_at_once_are_told_each_with_its_place(
    talking, host, transcript, rows
):
    for number in range(12):
        transcript(f"file{number}").say("Where is the ladder?")
        host.session(f"s{number}", key=f"agent:main:{number}").say("Where is the drill?")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        before = rows(talking.index)
        for number in range(9):
            (talking.settings.sessions_dir / f"file{number}.jsonl").unlink()
            host.db.execute("DELETE FROM session_windows WHERE session_id = ?", (f"s{number}",))
        report = await backend.sync(SyncRequest())
        assert rows(talking.index) == before
    assert report.error is not None
    assert f"9 of 12 files of {talking.settings.sessions_dir} are gone at once" in report.error
    assert f"9 of 12 conversations of {host.path} are gone at once" in report.error
