"""Transcripts as files for QMD: those that are written, left alone, and free to be deleted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from backends.qmd import collections
from backends.qmd.collections import Exports, write_record
from backends.transcripts.agent_transcripts import AgentTranscripts
from backends.transcripts.jsonl import JsonlTranscripts
from config.settings import QmdSessionsSettings
from fakes.host_database import HostDatabase
from fakes.transcripts import Transcript

DAY_S = 24 * 3600


class Place:
    """A sessions directory and the directory to which it is exported."""

    def __init__(self, root: Path) -> None:
        self.sessions = root / "sessions"
        self.target = root / "exported"
        self.ledger = root / "ledger"
        self.talk = Transcript(self.sessions, "talk")
        self.talk.say("Where is the ladder?")
        self.talk.work("ls /shed")
        self.talk.answer("Behind the shed.")

    def export(self, **settings: object) -> Exports:
        """Exports as a gateway that was just started."""
        chosen = {"enabled": True, "export_dir": self.target, **settings}
        exports = Exports(
            JsonlTranscripts(self.sessions), QmdSessionsSettings(**chosen), self.ledger
        )
        exports.refresh()
        return exports

    @property
    def exported(self) -> Path:
        return self.target / "talk.md"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_turns_are_exported_one_a_line_and_nothing_else(place):
    exports = place.export()
    assert exports.issues == ()
    text = place.exported.read_text(encoding="utf-8")
    assert text == "# Session talk\n\nUser: Where is the ladder?\nAssistant: Behind the shed.\n"
    assert place.exported.stat().st_mode & 0o777 == 0o600


def test_lines_of_an_export_lead_back_to_the_transcript(place):
    record = place.export().of_export("talk.md")
    assert [record.transcript_line(line) for line in (1, 2, 3, 4)] == [2, 2, 2, 4]


def test_secrets_are_masked_before_anything_is_written(place):
    place.talk.say("API_KEY=sk-abcdefghijklmnopqrstuvwxyz123456")
    place.export()
    stored = b"".join(
        file.read_bytes() for root in (place.target, place.ledger) for file in root.iterdir()
    )
    assert b"abcdefghijklmnopqrstuvwxyz123456" not in stored
    assert b"API_KEY=" in stored


def test_an_unchanged_transcript_leaves_its_export_untouched(place):
    place.export()
    before = place.exported.stat()
    place.export()
    after = place.exported.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_growth_without_turns_leaves_the_export_untouched(place):
    place.export()
    before = place.exported.stat()
    place.talk.work("another tool")
    place.talk.half('{"type": "mess')
    place.export()
    assert place.exported.stat().st_ino == before.st_ino


def test_a_new_turn_is_exported_with_its_line(place):
    exports = place.export()
    line = place.talk.say("And the saw?")
    exports.refresh()
    assert place.exported.read_text(encoding="utf-8").endswith("User: And the saw?\n")
    assert exports.of_export("talk.md").transcript_line(5) == line


def test_old_transcripts_are_neither_exported_nor_kept(place):
    old = Transcript(place.sessions, "old")
    old.say("Long ago.")
    place.export()
    assert (place.target / "old.md").exists()
    long_ago = time.time() - 40 * DAY_S
    os.utime(old.path, (long_ago, long_ago))
    place.export(retention_days=30)
    assert [file.name for file in place.target.iterdir()] == ["talk.md"]


def test_a_deleted_transcript_takes_its_export_along_and_no_foreign_file(place):
    place.export()
    foreign = place.target / "mine.md"
    foreign.write_text("Not from here.\n", encoding="utf-8")
    place.talk.path.unlink()
    exports = place.export()
    assert list(place.target.iterdir()) == [foreign]
    assert list(place.ledger.iterdir()) == []
    assert exports.of_export("mine.md") is None


def test_a_foreign_file_with_the_name_of_an_export_is_neither_replaced_nor_deleted(place):
    place.target.mkdir()
    place.exported.write_text("My own notes.\n", encoding="utf-8")
    exports = place.export()
    assert "left alone" in exports.issues[0]
    place.talk.path.unlink()
    exports.refresh()
    assert place.exported.read_text(encoding="utf-8") == "My own notes.\n"


def test_an_export_that_was_changed_by_hand_stays_and_is_reported(place):
    exports = place.export()
    place.exported.write_text("Edited.\n", encoding="utf-8")
    place.talk.path.unlink()
    exports.refresh()
    assert place.exported.read_text(encoding="utf-8") == "Edited.\n"
    assert "left" in exports.issues[0]


def test_a_link_in_the_place_of_an_export_is_not_followed(place, tmp_path):
    victim = tmp_path / "victim.md"
    victim.write_text("Precious.\n", encoding="utf-8")
    place.target.mkdir()
    place.exported.symlink_to(victim)
    assert place.export().issues
    assert victim.read_text(encoding="utf-8") == "Precious.\n"


def test_an_export_that_vanished_is_written_again(place):
    exports = place.export()
    place.exported.unlink()
    exports.refresh()
    assert place.exported.exists()


def test_switching_the_export_off_removes_what_was_exported(place):
    place.export()
    place.export(enabled=False)
    assert not place.exported.exists()


def test_another_place_takes_the_exports_along(place, tmp_path):
    place.export()
    place.export(export_dir=tmp_path / "elsewhere")
    assert not place.exported.exists()
    assert (tmp_path / "elsewhere/talk.md").exists()


def test_a_conversation_without_turns_gives_no_file(place):
    Transcript(place.sessions, "silent").work("nothing said")
    place.export()
    assert [file.name for file in place.target.iterdir()] == ["talk.md"]


def test_nothing_is_deleted_while_the_transcripts_cannot_be_listed(place):
    exports = place.export()
    place.sessions.rename(place.sessions.with_name("away"))
    place.sessions.symlink_to(place.sessions)
    exports.refresh()
    assert place.exported.exists()
    assert "cannot be listed" in exports.issues[0]


def test_transcripts_that_cannot_be_listed_do_not_count_as_gone(place):
    for number in range(11):
        Transcript(place.sessions, f"talk{number}").say("Where is the ladder?")
    exports = place.export()
    place.sessions.rename(place.sessions.with_name("away"))
    place.sessions.symlink_to(place.sessions)
    exports.refresh()
    (issue,) = exports.issues
    assert "cannot be listed" in issue


def test_a_gateway_that_was_killed_between_its_steps_still_owns_the_export(place):
    first = place.export().of_export("talk.md")
    place.talk.say("More.")
    second = place.export().of_export("talk.md")
    both = msgspec.structs.replace(second, digests=first.digests + second.digests, stamp=None)
    write_record(place.ledger, both)
    exports = place.export()
    assert exports.issues == ()
    assert exports.of_export("talk.md").is_written


def test_sessions_of_the_hosts_database_are_exported_with_their_lines_and_events(place, tmp_path):
    host = HostDatabase(tmp_path)
    session = host.session("0a1b")
    session.say("Where is the ladder?")
    session.work("ls /shed")
    session.answer("Behind the shed.", packed=True)
    transcripts = AgentTranscripts(place.sessions, tmp_path, "main")
    settings = QmdSessionsSettings(enabled=True, export_dir=place.target)
    exports = Exports(transcripts, settings, place.ledger)
    exports.refresh()
    assert sorted(file.name for file in place.target.iterdir()) == ["0a1b.md", "talk.md"]
    record = exports.of_hit("sessions/0a1b")
    assert record is exports.of_export("0a1b.md")
    assert (record.transcript_line(3), record.transcript_line(4)) == (1, 2)
    assert record.events(3, 4) == (1, 3)
    assert exports.of_hit("sessions/talk.jsonl").events(3, 4) is None
    written = record.stamp
    exports.refresh()
    assert exports.of_hit("sessions/0a1b").stamp == written
    host.db.execute("ALTER TABLE session_nodes RENAME COLUMN current_session_id TO other")
    place.talk.say("Thanks.")
    exports.refresh()
    assert "current_session_id" in exports.issues[0]
    assert len(list(place.target.iterdir())) == 2
    assert "Thanks" in place.exported.read_text(encoding="utf-8")
    host.db.execute("ALTER TABLE session_nodes RENAME COLUMN other TO current_session_id")
    session.archive()
    exports.refresh()
    assert [file.name for file in place.target.iterdir()] == ["talk.md"]
    host.close()


def test_a_conversation_that_moved_into_the_database_keeps_one_export(place, tmp_path):
    transcripts = AgentTranscripts(place.sessions, tmp_path, "main")
    settings = QmdSessionsSettings(enabled=True, export_dir=place.target)
    exports = Exports(transcripts, settings, place.ledger)
    exports.refresh()
    assert exports.of_export("talk.md").transcript == "talk.jsonl"
    host = HostDatabase(tmp_path)
    host.session("talk").say("Where is the ladder now?")
    exports.refresh()
    assert (exports.of_export("talk.md").transcript, exports.issues) == ("talk", ())
    assert "now?" in place.exported.read_text(encoding="utf-8")
    host.close()


def test_many_transcripts_that_are_gone_at_once_keep_their_exports_until_a_second_look(
    place, monkeypatch
):
    for number in range(11):
        Transcript(place.sessions, f"talk{number}").say("Where is the ladder?")
    exports = place.export()
    exported = sorted(place.target.iterdir())
    assert len(exported) == 12
    place.sessions.rename(place.sessions.with_name("moved"))
    for _ in range(2):
        exports.refresh()
        assert sorted(place.target.iterdir()) == exported
        assert "12 of 12 exported transcripts are gone at once" in exports.issues[0]
    monkeypatch.setattr(collections, "SECOND_LOOK_S", 0.0)
    exports.refresh()
    assert list(place.target.iterdir()) == []
    assert exports.issues == ()


def test_exports_that_are_switched_off_go_at_once_however_many(place):
    for number in range(11):
        Transcript(place.sessions, f"talk{number}").say("Where is the ladder?")
    place.export()
    place.export(enabled=False)
    assert list(place.target.iterdir()) == []
