"""The host's database as a source of transcripts: the choice of conversations, and reads that disturb nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from backends.files.safe_open import RefusedFileError
from backends.transcripts.agent_transcripts import AgentTranscripts, is_conversation
from backends.transcripts.host_database import HostTranscripts
from backends.transcripts.source import BEGINNING
from fakes.each import each
from fakes.host_database import HostDatabase


@pytest.fixture
def host(tmp_path):
    database = HostDatabase(tmp_path)
    yield database
    database.close()


@pytest.fixture
def transcripts(tmp_path, host):
    return HostTranscripts(tmp_path, "main")


def names(listing):
    return [found.path.removeprefix("sessions/") for found in listing.files]


def test_an_agent_without_a_database_has_no_conversations_and_no_problem(tmp_path):
    listing = HostTranscripts(tmp_path, "main").listing()
    assert (listing.files, listing.database, listing.failures) == ((), None, ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "window", "why"),
    [
        ("agent:main:main", {}, None),
        ("agent:main:telegram:direct:anna", {}, None),
        ("agent:main:telegram:group:-1", {}, None),
        ("agent:main:subagent:x", {}, None),
        ("agent:main:cron:daily:run:7", {}, "cron"),
        ("agent:main:subagent:y", {"spawned_by": "agent:main:cron:daily:run:7"}, "cron"),
        ("agent:main:dreaming-narrative-1", {}, "dreaming"),
        ("agent:main:subagent:z", {"spawned_by": "agent:main:dreaming-narrative-1"}, "dreaming"),
        ("agent:main:main:heartbeat", {}, "heartbeat"),
        ("agent:main:main:active-memory:0123456789ab", {}, "active memory"),
        ("agent:main:dashboard:incognito-1", {}, "incognito"),
        ("agent:main:hook:mail", {"hook_external_content_source": "gmail"}, "external"),
        ("agent:main:main", {"archived_at": 1}, "archived"),
    ],
)
def test_what_no_person_said_is_no_conversation(host, transcripts, key, window, why):
    host.session("one", key, **window).say("Hello.")
    listing = transcripts.listing()
    assert names(listing) == ([] if why else ["one"])
    assert listing.database.left_out == ({why: 1} if why else {})


def test_sessions_that_a_timer_began_through_others_are_none_either(host, transcripts):
    host.session("a", "agent:main:cron:daily:run:7")
    host.session("b", "agent:main:subagent:b", spawned_by="agent:main:cron:daily:run:7")
    host.session("c", "agent:main:subagent:c", spawned_by="agent:main:subagent:b")
    host.session("d", "agent:main:subagent:d", spawned_by="agent:main:subagent:d")
    assert names(transcripts.listing()) == ["d"]
    with pytest.raises(FileNotFoundError), transcripts.open("sessions/c", None):
        pass
    assert transcripts.is_gone("sessions/c")
    assert not transcripts.is_gone("sessions/d")


def test_an_earlier_window_of_a_conversation_stays_unless_a_plugin_owns_it(host, transcripts):
    host.session("first").say("Hello.")
    host.session("of a plugin", plugin_owner_id="x").say("Hello.")
    host.session("second").say("Hello.")
    assert names(transcripts.listing()) == ["first", "second"]


def test_a_session_id_that_could_not_be_a_name_is_skipped_and_said(host, transcripts):
    host.session("../../secret").say("Hello.")
    host.session("fine").say("Hello.")
    listing = transcripts.listing()
    assert names(listing) == ["fine"]
    assert [one.path for one in listing.skipped] == ["sessions/'../../secret'"]


def test_an_unchanged_database_is_not_looked_into_again(host, transcripts, monkeypatch):
    host.session("one").say("Hello.")
    for name in (host.path, Path(f"{host.path}-wal")):
        os.utime(name, ns=(1, 1))
    first = transcripts.listing()
    assert transcripts.listing() is first
    host.session("two", "agent:main:other").say("Hello.")
    assert names(transcripts.listing()) == ["one", "two"]


@pytest.mark.parametrize("value", ["x'ff'", "CAST(x'ff' AS TEXT)"])
def test_values_that_are_no_names_are_said_and_not_taken(tmp_path, value):
    host = HostDatabase(tmp_path)
    host.session("one").say("Hello.")
    host.db.execute("PRAGMA writable_schema = ON")
    host.db.execute("UPDATE sqlite_schema SET sql = replace(sql, ' STRICT', '')")
    host.close()
    host = HostDatabase(tmp_path)
    host.db.execute("PRAGMA foreign_keys = OFF")
    host.db.execute("PRAGMA ignore_check_constraints = ON")
    host.db.execute(f"UPDATE session_windows SET session_id = {value}")
    host.close()
    listing = HostTranscripts(tmp_path, "main").listing()
    assert (listing.files, listing.database.failure is None) == ((), False)


@pytest.mark.parametrize("what", ["file", "log", "directory"])
def test_links_are_not_followed(tmp_path, host, transcripts, what):
    host.session("one").say("Hello.")
    host.close()
    linked = {
        "file": host.path, "log": Path(f"{host.path}-wal"), "directory": host.path.parent,
    }[what]  # fmt: skip
    target = tmp_path / "elsewhere"
    if linked.exists():
        linked.rename(target)
    linked.symlink_to(target)
    listing = transcripts.listing()
    assert listing.files == ()
    assert "link" in listing.database.failure


@pytest.mark.parametrize("why", ["permission", "loop"])
def test_a_database_that_cannot_be_looked_at_is_not_one_that_is_gone(
    tmp_path, host, transcripts, unprivileged, why
):
    host.session("one").say("Hello.")
    host.close()
    directory = host.path.parent
    if why == "loop":
        directory.rename(tmp_path / "elsewhere")
        directory.symlink_to(directory.name)
    else:
        directory.chmod(0)
    with unprivileged():
        listing = transcripts.listing()
    if why == "permission":
        directory.chmod(0o700)
    assert listing.files == ()
    assert listing.database.failure
    assert not listing.covers("sessions/one")


def test_a_database_that_is_a_directory_or_a_pipe_is_refused(tmp_path):
    path = HostDatabase(tmp_path).path
    path.unlink()
    os.mkfifo(path)
    transcripts = HostTranscripts(tmp_path, "main")
    assert "not a regular file" in transcripts.listing().database.failure
    with pytest.raises(RefusedFileError), transcripts.open("sessions/one", None):
        pass


def test_a_database_of_another_user_is_left_alone(transcripts, host, monkeypatch):
    host.session("one").say("Hello.")
    monkeypatch.setattr(os, "geteuid", lambda: host.path.stat().st_uid + 1)
    assert transcripts.listing().database.failure == "it belongs to another user"


def test_a_locked_database_is_tried_again_and_its_files_do_not_come_back(tmp_path, host):
    host.session("one").say("Hello.")
    sessions = tmp_path / "agents/main/sessions"
    sessions.mkdir()
    (sessions / "one.jsonl").write_text("{}\n")
    both = AgentTranscripts(sessions, tmp_path, "main")
    assert names(both.listing()) == ["one"]
    assert host.db.execute("PRAGMA journal_mode = DELETE").get == "delete"
    host.db.execute("BEGIN EXCLUSIVE")
    listing = both.listing()
    assert names(listing) == []
    assert listing.failures == ((str(host.path), "the host keeps it locked.", True),)
    assert listing.covers("sessions/two.jsonl")
    assert not listing.covers("sessions/one")
    host.db.execute("ROLLBACK")
    assert names(both.listing()) == ["one"]


def test_reading_by_steps_gives_the_same_as_reading_at_once(host, transcripts):
    session = host.session("one")
    for number in range(60):
        session.say(f"Turn {number}. " + "word " * 100, packed=number % 2 == 0)
    with transcripts.open("sessions/one", None) as opened:
        whole = opened.read(BEGINNING, 10**9)
        assert (whole.is_last, opened.found.size, whole.numbers[0]) == (True, whole.end.byte, 2)
        place, lines = BEGINNING, []
        while place != whole.end:
            part = opened.read(place, place.byte + 1_000)
            assert opened.digest(place, part.end) == part.digest
            assert opened.tail(part.end) != opened.tail(place)
            lines += part.lines
            place = part.end
        assert tuple(lines) == whole.lines
        assert opened.is_current(whole.end)
        session.rewind(5)
        assert not opened.is_current(whole.end)


def test_a_host_that_writes_and_checkpoints_is_never_kept_waiting(tmp_path):
    """This host does not wait for locks at all: one lock of ours would end it with an error."""
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", "fakes.host_database", str(tmp_path), "400"]
    transcripts = HostTranscripts(tmp_path, "main")
    seen = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    ) as writer:
        output = iter(writer.stdout)
        for line in output:
            if line.startswith("longest"):
                break
            committed = int(line)
            (found,) = transcripts.listing().files
            with transcripts.open(found.path, None) as opened:
                entries = opened.read(BEGINNING, 10**9)
            assert len(entries.lines) > committed
            assert all(entries.lines)
            seen += 1
        assert writer.wait() == 0
    assert seen == 400


def test_a_closed_database_is_read_without_its_log(tmp_path, host, transcripts):
    host.session("one").say("Hello.")
    host.close()
    assert not Path(f"{host.path}-wal").exists()
    assert names(transcripts.listing()) == ["one"]
    again = HostDatabase(tmp_path)
    again.session("two", "agent:main:other").say("Hello.")
    assert names(transcripts.listing()) == ["one", "two"]
    again.close()
    assert apsw.Connection(str(host.path)).execute("PRAGMA integrity_check").get == "ok"


@each(
    ("path", "expected"),
    [
        ("sessions/0a1b", True),
        (" sessions/0a1b ", True),
        ("sessions/0a1b.jsonl", False),
        ("sessions/notes.md", False),
        ("sessions/a/b", False),
        ("sessions/", False),
        ("memory/sessions/a", False),
    ],
)
def test_which_paths_mean_a_conversation_of_the_database(path, expected):
    assert is_conversation(path) is expected
