"""The kind of an existing file is recognised from its first hundred bytes; files of others are never changed."""

import os
import struct
from contextlib import closing

import apsw
import pytest

from backends.builtin.store.sqlite.index_file import FileVerdict, choose_path, judge
from backends.builtin.store.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from backends.builtin.store.sqlite.store import SqliteStore


@pytest.fixture
def place(tmp_path):
    return tmp_path / "main.sqlite"


def make_database(path, *, application_id: int, version: int, journal: str = "delete") -> bytes:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE notes (text)")
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute(f"PRAGMA journal_mode = {journal}")
    return path.read_bytes()


def test_no_file_and_an_empty_one_are_free_places(place):
    assert judge(place) is FileVerdict.ABSENT
    place.touch()
    assert judge(place) is FileVerdict.ABSENT


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize(
    ("application_id", "version", "verdict"),
    [
        (APPLICATION_ID, SCHEMA_VERSION, FileVerdict.OURS),
        (APPLICATION_ID, SCHEMA_VERSION + 1, FileVerdict.OURS_NEWER),
        (APPLICATION_ID, SCHEMA_VERSION - 1, FileVerdict.OURS_OLDER),
        (0, 0, FileVerdict.FOREIGN),
        (0, SCHEMA_VERSION, FileVerdict.FOREIGN),
        (APPLICATION_ID + 1, SCHEMA_VERSION, FileVerdict.FOREIGN),
    ],
)
def test_a_database_is_told_by_its_marks(place, application_id, version, verdict, journal):
    make_database(place, application_id=application_id, version=version, journal=journal)
    assert judge(place) is verdict


@pytest.mark.parametrize(
    "content",
    [
        b"# Notes\n\nplain text\n",
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" + b"\x00" * 83,
        b"SQLite format 2\x00" + struct.pack(">I", APPLICATION_ID) * 40,
        b"\x00",
        b"\x00" * 8192,
    ],
)
def test_text_truncated_headers_and_anything_else_are_foreign(place, content):
    place.write_bytes(content)
    assert judge(place) is FileVerdict.FOREIGN


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_at_all_is_foreign_and_is_not_waited_for(place, make):
    make(place)
    assert judge(place) is FileVerdict.FOREIGN
    assert choose_path(place)[0].name == "main.memory-gateway.sqlite"


def test_our_own_index_is_recognised_while_it_is_open_and_later(place):
    database = SqliteStore(place)
    assert judge(place) is FileVerdict.OURS
    database.close()
    assert judge(place) is FileVerdict.OURS


def test_siblings_are_numbered_until_one_is_free_and_each_refusal_is_noted(place, tmp_path):
    place.write_text("mine", encoding="utf-8")
    (tmp_path / "main.memory-gateway.sqlite").write_text("mine too", encoding="utf-8")
    newer = tmp_path / "main.memory-gateway-2.sqlite"
    make_database(newer, application_id=APPLICATION_ID, version=SCHEMA_VERSION + 5)
    path, verdict, notes = choose_path(place)
    assert (path.name, verdict) == ("main.memory-gateway-3.sqlite", FileVerdict.ABSENT)
    assert len(notes) == 3
    assert "another program" in notes[0] and "a later release" in notes[2]
    assert all(str(tmp_path) in note for note in notes)


@pytest.mark.parametrize(
    "foreign",
    [
        lambda place: make_database(place, application_id=0, version=0),
        lambda place: make_database(place, application_id=0, version=0, journal="wal"),
        lambda place: make_database(
            place, application_id=APPLICATION_ID, version=SCHEMA_VERSION + 1
        ),
        lambda place: place.write_bytes(b"SQLite format 3\x00 and no more"),
        lambda place: place.write_bytes(b"just a text"),
    ],
)
def test_a_foreign_file_is_left_byte_for_byte_and_its_sibling_is_used(place, foreign):
    foreign(place)
    before = (place.read_bytes(), place.stat().st_mtime_ns, place.stat().st_ino)
    for _ in range(2):
        database = SqliteStore(place)
        with database.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('key', 'value')")
        assert database.path.name == "main.memory-gateway.sqlite"
        assert any("left alone" in note for note in database.notes)
        database.close()
    assert (place.read_bytes(), place.stat().st_mtime_ns, place.stat().st_ino) == before
    assert not place.with_name("main.sqlite-wal").exists()
