"""The files of several hosts that share one index: they share the contents, but not the stamps."""

from __future__ import annotations

import pytest

from backends.builtin.store.port import (
    ARRIVAL_MS,
    ARRIVALS_TO_FORGET,
    START,
    Checkpoint,
    TranscriptPiece,
    Word,
)

NOTE = "The boiler hums.\n"
MEMO = ("memory", "memory/a.md")


@pytest.fixture
def store(opened):
    return opened("one")


@pytest.fixture
def other(store, opened):
    return opened("other")


def note(store):
    with store.view() as view:
        return view.files.indexed()["memory/a.md"]


def touch(store, shelf, text=NOTE, **how):
    with store.writer() as writer:
        writer.files.touch(shelf.read("memory/a.md", text, **how))


def holds(store, text):
    with store.view() as view:
        return view.files.holds(*MEMO, text.encode(), "test")


def remove(store, **how):
    with store.writer() as writer:
        return writer.files.remove(*MEMO, **how)


def test_contents_are_for_all_and_stamps_for_one(store, other, shelf):
    shelf.write("memory/a.md", NOTE, at=5)
    assert (note(store).mtime_ns, note(store).seen) == (5, "here")
    known = note(other)
    assert (known.seen, known.pipeline) == ("elsewhere", "test")
    assert (known.size, known.mtime_ns, known.ctime_ns, known.inode, known.read_at_ns) == (0,) * 5
    assert holds(other, NOTE)
    with other.view() as view:
        assert view.keywords.count([Word("boiler", is_prefix=False)]) == [1]
        assert view.files.only_elsewhere("memory") == 1
    touch(other, shelf, at=8, inode=9)
    assert (note(other).mtime_ns, note(other).inode, note(other).seen) == (8, 9, "here")
    assert (note(store).mtime_ns, note(store).inode, note(store).seen) == (5, 7, "here")
    with other.view() as view:
        assert view.files.only_elsewhere("memory") == 0


def test_what_is_unchanged_here_is_not_published_over_a_later_change_of_another(
    store, other, shelf
):
    shelf.write("memory/a.md", NOTE, at=5)
    shelf.of(other).write("memory/a.md", "The pump rattles.\n", at=8)
    assert (note(store).mtime_ns, note(other).mtime_ns) == (5, 8)
    assert holds(store, NOTE)  # its copy is as it was
    assert holds(store, "The pump rattles.\n")
    assert not holds(store, "The valve leaks.\n")
    assert not holds(other, NOTE)  # its copy was changed back


def test_a_copy_takes_the_place_of_what_nobody_holds_any_more(store, other, shelf):
    shelf.write("memory/a.md", NOTE, at=5)
    shelf.of(other).write("memory/a.md", "The pump rattles.\n", at=8)
    forget_others(store)
    assert not holds(store, NOTE)


def test_only_who_saw_a_file_takes_it_out_and_takes_it_out_for_all(store, other, shelf):
    shelf.write("memory/a.md", NOTE, at=5)
    assert not remove(other)
    assert not remove(other, read_at_ns=0)
    with other.view() as view:
        assert view.files.seen([MEMO]) == frozenset()
    touch(other, shelf, at=8)
    with other.view() as view:
        assert view.files.seen([MEMO, ("memory", "memory/b.md")]) == {MEMO}
    assert not remove(other, read_at_ns=5)
    assert remove(other, read_at_ns=8)
    with store.view() as view:
        assert view.files.indexed() == {}
    shelf.write("memory/a.md", NOTE, at=5)  # a host that still has it puts it back
    assert note(other).seen == "elsewhere"
    assert not remove(other)


def forget_others(store):
    for _ in range(ARRIVALS_TO_FORGET):
        with store.writer() as writer:
            writer.arrive(life_ms=-ARRIVAL_MS)


def test_a_viewpoint_that_nobody_uses_is_forgotten_with_its_stamps_and_memories(
    store, other, opened, shelf
):
    shelf.of(other).write("memory/a.md", NOTE, at=8)
    for one in (store, other):
        with one.writer() as writer:
            writer.arrive()
            writer.remember("devices", one.viewpoint, here=True)
    with store.view() as view:
        assert {(one.name, one.is_here) for one in view.viewpoints()} == {
            ("one", True),
            ("other", False),
        }
    forget_others(store)
    with store.view() as view:
        assert [one.name for one in view.viewpoints()] == ["one"]
        assert view.remembered("devices", here=True) == "one"
    with other.view() as view:
        assert view.remembered("devices", here=True) is None
    assert note(store).seen == note(other).seen == "nowhere"
    assert not remove(store, read_at_ns=8)
    assert remove(store, read_at_ns=0)


def test_what_is_remembered_here_is_no_business_of_others(store, other):
    with store.writer() as writer:
        writer.remember("devices", "mine", here=True)
        writer.remember("switch", "all")
    with other.view() as view:
        assert view.remembered("devices", here=True) is None
        assert view.remembered("devices") is None
        assert view.remembered("switch") == "all"
    with store.view() as view:
        assert view.remembered("devices", here=True) == "mine"
        assert view.remembered("switch", here=True) is None


END = Checkpoint(100, 4, 1, len(NOTE), b"tail", b"digest")


def take_in(store, shelf):
    piece = TranscriptPiece(
        path="sessions/a.jsonl",
        stamps=(100, 1, 1, 7),
        pipeline="test",
        read_at_ns=1,
        begin=START,
        end=END,
        numbers=(4,),
        prepared=shelf.prepare("a", NOTE),
        is_last=True,
        is_rewritten=False,
    )
    with store.writer() as writer:
        writer.transcripts.publish(piece)


def test_a_transcript_is_taken_in_for_all_and_stamped_for_one(store, other, shelf):
    take_in(store, shelf)
    with other.view() as view:
        known = view.transcripts.one("sessions/a.jsonl")
        assert (known.seen, known.stamps, known.read_at_ns) == ("elsewhere", (0, 0, 0, 0), 0)
        assert (known.end_byte, known.end_line, known.pipeline) == (100, 4, "test")
        assert view.transcripts.checkpoints(known.file_id) == [START, END]
    with other.writer() as writer:
        writer.transcripts.touch("sessions/a.jsonl", (90, 2, 2, 9), 3)
    for one, stamps in ((store, (100, 1, 1, 7)), (other, (90, 2, 2, 9))):
        with one.view() as view:
            known = view.transcripts.indexed()["sessions/a.jsonl"]
            assert (known.seen, known.stamps) == ("here", stamps)
            assert known.end_byte == 100


def test_a_source_of_transcripts_is_enrolled_by_each_viewpoint(store, other, shelf):
    take_in(store, shelf)
    with store.writer() as writer:
        writer.transcripts.enrol("sessions", ["sessions/a.jsonl"])
        assert writer.transcripts.one("sessions/a.jsonl").stamps == (100, 1, 1, 7)
    with other.writer() as writer:
        assert writer.transcripts.enrolled(["sessions"]) == frozenset()
        writer.transcripts.enrol("sessions", ["sessions/a.jsonl", "sessions/b.jsonl"])
        indexed = writer.transcripts.indexed()
        assert {path: one.seen for path, one in indexed.items()} == {
            "sessions/a.jsonl": "elsewhere",  # until it was looked at
            "sessions/b.jsonl": "here",
        }
        assert {one.stamps for one in indexed.values()} == {(0, 0, 0, 0)}
    with store.writer() as writer:
        writer.transcripts.disenrol(["sessions"])
        assert writer.transcripts.one("sessions/b.jsonl").seen == "elsewhere"
    with other.view() as view:
        assert view.transcripts.enrolled(["sessions"]) == {"sessions"}


def test_a_new_viewpoint_of_the_same_disk_takes_stamps_over(store, other, opened, shelf):
    for name in "abc":
        shelf.write(f"memory/{name}.md", NOTE, at=5)
    copy = shelf.read("memory/a.md", NOTE, at=5, inode=8).found
    same = shelf.read("memory/a.md", NOTE, at=5).found
    touch(other, shelf, at=8)
    with opened("new").writer() as writer:
        assert writer.files.twin("memory", [copy]) is None
        assert writer.files.twin("sessions", [same]) is None
        assert writer.files.twin("memory", [copy, same]) == "one"
        writer.files.copy_stamps("one", "memory", ["memory/a.md", "memory/b.md"])
        known = writer.files.indexed()
        assert known["memory/a.md"] == note(store)
        assert {path: one.seen for path, one in known.items()} == {
            "memory/a.md": "here",
            "memory/b.md": "here",
            "memory/c.md": "elsewhere",
        }
    with other.writer() as writer:
        writer.files.copy_stamps("one", "memory", ["memory/a.md"])
        assert writer.files.indexed()["memory/a.md"].mtime_ns == 8
