"""The record of what was recalled and whether it was of use."""

from __future__ import annotations

from gateway import recalled as use
from gateway.recalled import NoteUse, UseRecord


def test_what_was_recalled_and_used_is_counted_by_note():
    record = UseRecord()
    for path in ("a.md", "b.md", "a.md"):
        record.recalled(path)
    record.used("a.md")
    record.used("never.md")
    assert record.most(1) == (NoteUse("a.md", 2, 1),)
    assert record.totals() == (3, 1)


def test_what_was_written_down_before_is_added():
    before, record = UseRecord(), UseRecord()
    before.recalled("a.md")
    before.used("a.md")
    text = before.write()
    assert not before.is_new
    record.recalled("a.md")
    record.add(text)
    assert (record.most(9), record.is_new) == ((NoteUse("a.md", 2, 1),), True)
    record.add("no JSON")
    record.add(None)
    assert record.totals() == (2, 1)


def test_of_too_many_notes_those_recalled_last_stay(monkeypatch):
    monkeypatch.setattr(use, "MOST_NOTES", 2)
    record = UseRecord()
    for path in ("a.md", "b.md", "a.md", "c.md"):
        record.recalled(path)
    assert [note.path for note in record.notes()] == ["a.md", "c.md"]
