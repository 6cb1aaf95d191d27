"""The files that are transcripts, and the names that clients may use for them."""

from __future__ import annotations

import os

import pytest

from backends.transcripts.source import list_transcripts, location_of, transcript_path
from fakes.transcripts import Transcript


def test_only_regular_jsonl_files_directly_in_the_directory_are_transcripts(tmp_path):
    sessions = tmp_path / "sessions"
    one = Transcript(sessions, "one")
    Transcript(sessions / "archive", "deeper")
    (sessions / "sessions.json").write_text("{}", encoding="utf-8")
    (sessions / "one.jsonl.deleted.2026").write_text("", encoding="utf-8")
    (sessions / "link.jsonl").symlink_to(one.path)
    (sessions / "directory.jsonl").mkdir()
    os.mkfifo(sessions / "pipe.jsonl")
    (sessions / os.fsdecode(b"\xff.jsonl")).write_text("", encoding="utf-8")
    listing = list_transcripts(sessions)
    (found,) = listing.files
    assert found.path == "sessions/one.jsonl"
    assert (found.size, found.inode) == (one.path.stat().st_size, one.path.stat().st_ino)
    assert {skipped.path: skipped.reason.split(";")[0] for skipped in listing.skipped} == {
        "sessions/link.jsonl": "symbolic link",
        "sessions/directory.jsonl": "not a regular file",
        "sessions/pipe.jsonl": "not a regular file",
        "sessions/\\xff.jsonl": "its name is not valid UTF-8",
    }
    assert location_of(sessions, found.path).names == ("one.jsonl",)


def test_a_directory_that_is_missing_has_no_transcripts_and_one_that_is_locked_is_a_failure(
    tmp_path,
):
    assert list_transcripts(tmp_path / "missing").failure is None
    name = "x" * 300  # too long for any file system: an error that is not absence
    assert list_transcripts(tmp_path / name).failure


@pytest.mark.parametrize(
    "reference",
    ["one", "one.jsonl", "sessions/one.jsonl", "{dir}/one.jsonl", "{dir}/../sessions/one", " one "],
)
def test_every_spelling_of_a_transcript_means_the_same(tmp_path, reference):
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    assert transcript_path(sessions, reference.format(dir=sessions)) == "sessions/one.jsonl"
    (tmp_path / "link").symlink_to(sessions)
    assert transcript_path(sessions, f"{tmp_path}/link/one.jsonl") == "sessions/one.jsonl"


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "  ",
        ".",
        "..",
        "sessions/",
        "/etc/passwd",
        "../one",
        "sub/one.jsonl",
        "a\0b",
        "a/\ud800",
    ],
)
def test_what_lies_elsewhere_is_no_transcript(tmp_path, reference):
    assert transcript_path(tmp_path, reference) is None
