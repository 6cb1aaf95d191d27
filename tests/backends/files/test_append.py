"""Appending to a note."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

import pytest

from backends.files.appending import Appended, append_entry
from backends.files.reading import decode, encoding_of
from backends.files.roots import MemoryRoots
from backends.interface import FileUnwritableError, PathNotAllowedError
from config.runtime.files import try_lock


@pytest.fixture
def append(tmp_path):
    def append(entry, path="memory/2026-02-08.md", **options):
        (location,) = MemoryRoots(tmp_path).locate(path)
        return append_entry(location, entry, **options)

    return append


@pytest.fixture
def log(tmp_path):
    return tmp_path / "memory/2026-02-08.md"


def test_the_first_entry_makes_the_directory_and_the_file(append, log):
    assert append("- one\n- two", heading="# 2026-02-08") == Appended(
        "memory/2026-02-08.md", 3, 4, created=True
    )
    assert log.read_text(encoding="utf-8") == "# 2026-02-08\n\n- one\n- two\n"


def test_later_entries_follow_as_lines_of_their_own(append, log):
    append("- one")
    assert append("- two\n\n", heading="# 2026-02-08") == Appended(
        "memory/2026-02-08.md", 2, 2, created=False
    )
    assert log.read_text(encoding="utf-8") == "- one\n- two\n"


def test_an_unended_last_line_is_ended_first(append, log):
    log.parent.mkdir()
    log.write_text("- one", encoding="utf-8")
    assert append("- two").first_line == 2
    assert log.read_text(encoding="utf-8") == "- one\n- two\n"


def test_lines_of_a_large_file_are_counted(append, log):
    log.parent.mkdir()
    log.write_text("x" * 99 + "\n" + "- line\n" * 200_000, encoding="utf-8")
    assert append("- last").first_line == 200_002


@pytest.mark.parametrize("place", ["memory", "memory/2026-02-08.md"])
def test_links_are_never_followed(append, tmp_path, place):
    outside = tmp_path / "outside.d"
    outside.mkdir()
    target = outside if place == "memory" else outside / "file.md"
    link = tmp_path / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(PathNotAllowedError):
        append("- one")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("put", "cause"),
    [
        (lambda log: log.symlink_to("elsewhere.md"), "it is a symbolic link"),
        (os.mkfifo, "it is not a regular file"),
    ],
)
def test_a_note_that_is_a_link_or_a_pipe_is_told_as_what_could_not_be_written(
    append, log, put, cause
):
    log.parent.mkdir()
    put(log)
    with pytest.raises(
        PathNotAllowedError, match=f"'memory/2026-02-08.md' cannot be written: {cause}"
    ):
        append("- one")


def test_what_is_no_file_is_refused(append, log):
    log.mkdir(parents=True)
    with pytest.raises((PathNotAllowedError, FileUnwritableError)):
        append("- one")


WRITER = """
import sys
from pathlib import Path
from backends.files import appending
from backends.files.appending import append_entry
from backends.files.roots import MemoryRoots
appending.LOCK_TIMEOUT_S = 240.0  # a disk that takes its time is nobody's fault
(location,) = MemoryRoots(Path(sys.argv[1])).locate("memory/2026-02-08.md")
for number in range(200):
    added = append_entry(location, f"- {sys.argv[2]} {number}\\n  more of it", heading="# day")
    print(added.first_line)
"""


def test_writers_in_many_processes_lose_nothing_and_know_their_lines(tmp_path, log):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name], stdout=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    said = {
        name: one.communicate(timeout=240)[0].split()
        for name, one in zip("abc", writers, strict=True)
    }
    assert [one.returncode for one in writers] == [0, 0, 0]
    lines = log.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "# day"
    assert lines.count("# day") == 1
    for name, first_lines in said.items():
        for number, line in enumerate(map(int, first_lines)):
            assert lines[line - 1] == f"- {name} {number}"
            assert lines[line] == "  more of it"
    assert len(lines) == 2 + 3 * 200 * 2 + 1


def test_nobody_waits_for_the_disk_on_which_another_entry_is_being_written(
    append, log, monkeypatch
):
    append("- one")
    is_free, to_disk = [], os.fsync

    def slowly(descriptor):
        with log.open("rb") as other:
            is_free.append(try_lock(other.fileno()))
        to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", slowly)
    append("- two")
    assert is_free == [True]


def test_an_entry_that_does_not_fit_leaves_the_file_as_it_was(append, log):
    append("- one")
    before = log.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(FileUnwritableError, match="File too large"):
            append("- a long entry that does not fit")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert log.read_bytes() == before


def test_what_is_made_is_not_writable_for_others_whatever_the_umask(append, log):
    before = os.umask(0)
    try:
        append("- one")
    finally:
        os.umask(before)
    assert not (log.stat().st_mode | log.parent.stat().st_mode) & 0o022


def test_a_note_that_is_too_large_to_be_remembered_is_refused_at_once(append, log):
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(FileUnwritableError, match=r"has 10,000,000,000 bytes.*split it"):
        append("- one")
    assert log.stat().st_size == 10_000_000_000


def test_an_entry_that_nobody_waits_for_any_more_is_not_written(append, log):
    append("- one")
    with pytest.raises(FileUnwritableError):
        append("- two", is_wanted=lambda: False)
    assert log.read_text(encoding="utf-8") == "- one\n"


def saves(log, change=lambda text: text + "- of the editor\n"):
    """An editor that saves as most do: a new file replaces the one that it has read."""
    text = log.read_text(encoding="utf-8")
    draft = log.with_name(".draft")
    draft.write_text(change(text), encoding="utf-8")
    draft.replace(log)


def test_an_entry_is_in_the_note_that_an_editor_saved_after_it_was_opened(append, log):
    append("- one")
    turns = []

    def is_wanted():
        turns.append(1)
        if len(turns) < 3:
            saves(log)
        return True

    assert append("- two", is_wanted=is_wanted) == Appended(
        "memory/2026-02-08.md", 4, 4, created=False
    )
    assert log.read_text(encoding="utf-8") == "- one\n- of the editor\n- of the editor\n- two\n"


def test_an_entry_that_an_editor_took_over_while_it_was_written_is_not_written_twice(
    append, log, monkeypatch
):
    append("- two\n  more")
    to_disk, turns = os.fsync, []

    def slowly(descriptor):
        to_disk(descriptor)
        if not turns:
            turns.append(1)
            saves(log, lambda text: f"# day\n{text}- end\n")

    monkeypatch.setattr(os, "fsync", slowly)
    assert append("- two\n  more").first_line == 4
    assert log.read_text(encoding="utf-8") == "# day\n- two\n  more\n- two\n  more\n- end\n"


def test_an_entry_that_an_editor_wrote_over_in_place_is_written_again(append, log, monkeypatch):
    append("- one")
    to_disk, turns = os.fsync, []

    def slowly(descriptor):
        to_disk(descriptor)
        if not turns:
            turns.append(1)
            log.write_text("- of the editor\n", encoding="utf-8")

    monkeypatch.setattr(os, "fsync", slowly)
    assert append("- two").first_line == 2
    assert log.read_text(encoding="utf-8") == "- of the editor\n- two\n"


def test_a_note_that_was_moved_away_meanwhile_is_begun_anew(append, log):
    append("- one")
    added = append("- two", heading="# day", is_wanted=lambda: _moved_away(log))
    assert added == Appended("memory/2026-02-08.md", 3, 3, created=True)
    assert log.read_text(encoding="utf-8") == "# day\n\n- two\n"


def _moved_away(log):
    away = log.with_name("away.md")
    if not away.exists():
        log.rename(away)
    return True


def test_a_note_that_is_replaced_all_the_time_is_told_and_nothing_is_promised(
    append, log, monkeypatch
):
    monkeypatch.setattr("backends.files.appending.REPLACED_TIMEOUT_S", 0.2)
    append("- one")

    def is_wanted():
        saves(log, lambda _: "- of the editor\n")
        return True

    with pytest.raises(FileUnwritableError, match="replaces it again and again"):
        append("- two", is_wanted=is_wanted)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be", "utf-16-le", "windows-1252", "utf-8-sig"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_an_entry_is_written_in_the_encoding_of_the_note(append, log, codec, end):
    log.parent.mkdir()
    before = f"# Café\n- crème brûlée für später{end}"
    log.write_bytes(before.encode(codec))
    assert append("- für später: ½ Melone\n  süß").first_line == 3
    data = log.read_bytes()
    assert data.decode(codec) == f"{before.rstrip()}\n- für später: ½ Melone\n  süß\n"
    assert decode(data).endswith("- für später: ½ Melone\n  süß\n")


@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
@pytest.mark.parametrize("end", ["", "\r\n"])
def test_an_entry_ends_its_lines_as_the_last_line_of_the_note_ends(append, log, codec, end):
    log.parent.mkdir()
    log.write_bytes(f"- one\n# Day\r\n- two{end}".encode(codec))
    assert append("- three\n  four").last_line == 5
    assert append("- five").first_line == 6
    text = log.read_bytes().decode(codec)
    assert text == "- one\n# Day\r\n- two\r\n- three\r\n  four\r\n- five\r\n"


def test_an_entry_with_letters_that_the_encoding_of_the_note_lacks_is_refused(append, log):
    log.parent.mkdir()
    log.write_bytes("# Café\n- crème brûlée für später\n".encode("windows-1252"))
    before = log.read_bytes()
    with pytest.raises(FileUnwritableError, match=r"windows-1252, which has no '日本'.*UTF-8"):
        append("- 日本")
    assert log.read_bytes() == before


def test_a_note_in_an_unknown_encoding_gets_no_entry_that_nobody_would_find(append, log):
    log.parent.mkdir()
    log.write_bytes("# 記憶\n- これは古い文字コードのメモです。\n".encode("shift_jis") * 5)
    before = log.read_bytes()
    assert encoding_of(before) == "unknown"
    with pytest.raises(FileUnwritableError, match="could be read again"):
        append("- one")
    assert log.read_bytes() == before


def test_a_note_with_damage_takes_an_entry_all_the_same(append, log):
    log.parent.mkdir()
    log.write_bytes("# Überschrift: größer, schöner\n- naïve\n".encode() + b"- \xff broken\n")
    append("- süß")
    assert decode(log.read_bytes()).endswith("broken\n- süß\n")
