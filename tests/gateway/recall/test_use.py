"""The record of recalled notes and of their use."""

from __future__ import annotations

import anyio
import pytest

from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import IndexUnavailableError
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


@pytest.mark.anyio
async def test_what_could_not_be_read_at_first_is_not_written_over(tmp_path, monkeypatch):
    monkeypatch.setattr(use, "_EVERY_S", 0.01)
    before = UseRecord()
    before.recalled("a.md")
    store = SqliteStore(tmp_path / "index.sqlite")
    with store.writer() as writer:
        writer.remember(use.RECORD_KEY, before.write())
    answers = iter([IndexUnavailableError("The server is away.")])
    view = store.view

    def away_at_first():
        for error in answers:
            raise error
        return view()

    def written():
        with view() as now:
            return now.remembered(use.RECORD_KEY) or ""

    monkeypatch.setattr(store, "view", away_at_first)
    record = UseRecord()
    record.recalled("a.md")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use.keep_record, store, record)
        with anyio.fail_after(60):
            while '"recalled":2' not in (text := written()):
                assert '"recalled":1' in text
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    store.close()
