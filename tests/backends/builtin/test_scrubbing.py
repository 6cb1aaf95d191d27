"""A bit that flips anywhere in an index is noticed by any reader of its page, or by the next scrub."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from random import Random

import pytest

from backends.builtin.store.port import IndexDamagedError
from backends.builtin.store.sqlite.index_file import restore_checksums
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest, SyncRequest

pytestmark = pytest.mark.anyio

PAGE = 8192


def flip(path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (old,) = file.read(1)
        file.seek(place)
        file.write(bytes([old ^ 4]))


@pytest.fixture
async def index(home, long_note):
    """An index that is whole on the disk and not open anywhere."""
    for number in range(12):
        home.write(f"memory/{number}.md", long_note(number, number + 100))
    await home.synced()
    return home.index


async def test_a_sound_index_passes(index):
    database = SqliteStore(index)
    assert database.scrub()
    assert not database.scrub(limit_s=-1)
    database.close()


async def test_words_that_were_merged_since_a_reader_looked_at_them_are_no_damage(index):
    database = SqliteStore(index)
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM chunk_terms('boiler')").get
    with database.writing() as connection:
        connection.execute("INSERT INTO chunk_terms (chunk_terms) VALUES ('optimize')")
    assert database.scrub()
    assert database.notes == ()
    database.close()


async def test_a_page_is_read_from_the_disk_though_a_reader_remembers_it(index):
    database = SqliteStore(index)
    with database.reading() as connection:
        connection.execute("PRAGMA quick_check(1)").fetchall()
    for page in range(1, index.stat().st_size // PAGE):
        flip(index, page * PAGE + 2000)
    with pytest.raises(IndexDamagedError):
        database.scrub()
    database.close()


@pytest.mark.parametrize("seed", range(12))
async def test_one_flipped_bit_anywhere_is_found(index, seed):
    rng = Random(seed)
    pages = index.stat().st_size // PAGE
    flip(index, rng.randrange(1, pages) * PAGE + rng.randrange(PAGE))
    database = SqliteStore(index)
    try:
        if database.notes:  # a page of the schema, which is read when the file is opened
            assert "was damaged" in database.notes[0]
        else:
            with pytest.raises(IndexDamagedError):
                database.scrub()
    finally:
        database.close()


@pytest.fixture
def killed(index, tmp_path):
    """The files of a gateway that ended uncleanly, with a log."""
    left = tmp_path / "left" / index.name
    left.parent.mkdir()
    with closing(SqliteStore(index)) as database:
        with database.writing() as connection:
            rows = [(f"row {number}", "x" * 20) for number in range(5_000)]
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)", [*rows, ("last", "x" * 40_000)]
            )
        for end in ("", "-wal", "-open"):
            shutil.copy(f"{index}{end}", f"{left}{end}")
    return left


def read_by_another_program(path) -> None:
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT value FROM meta WHERE key = 'last'").fetchone()
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name, f"{path.name}-open"]


async def test_an_index_that_another_program_read_after_an_unclean_end_is_sound(killed):
    read_by_another_program(killed)
    with closing(SqliteStore(killed)) as database:
        assert database.notes == ()
        assert database.scrub()
        with database.reading() as connection:
            assert connection.execute("SELECT length(value) FROM meta WHERE key = 'last'").get
    assert [one.name for one in killed.parent.iterdir()] == [killed.name]


async def test_broken_structure_is_found_though_checksums_would_be_written_again(killed):
    read_by_another_program(killed)
    with killed.open("r+b") as file:
        for page in range(2, killed.stat().st_size // PAGE):
            file.seek(page * PAGE)
            file.write(b"\xa5" * 64)
    with closing(SqliteStore(killed)) as database:
        if not database.notes:
            with pytest.raises(IndexDamagedError):
                database.scrub()


async def test_a_flipped_bit_is_found_after_an_unclean_end_that_nobody_else_touched(killed):
    pages = killed.stat().st_size // PAGE
    for page in range(pages // 2, pages):
        flip(killed, page * PAGE + 2000)
    with closing(SqliteStore(killed)) as database:
        if not database.notes:
            with pytest.raises(IndexDamagedError):
                database.scrub()


async def test_a_file_that_takes_too_long_to_write_anew_stays_as_it_is(killed):
    read_by_another_program(killed)
    before = killed.read_bytes()
    restore_checksums(killed, limit_s=-1)
    assert killed.read_bytes() == before


async def test_a_garbled_word_of_a_note_is_never_shown(home, index):
    data = index.read_bytes()
    flip(index, data.index(b"The boiler of part 7 was serviced"))
    async with home.open() as backend:
        answer = await backend.search(SearchRequest(query="boiler part 7", max_results=50))
        assert answer.hits
        assert all("The boiler of part" in hit.snippet for hit in answer.hits)
        notes = (await backend.status()).issues
    assert any("was damaged" in note for note in notes)


@pytest.mark.parametrize("kind", ["force", "verify"])
async def test_a_thorough_sync_replaces_an_index_that_nobody_has_read_yet(home, index, kind):
    flip(index, (index.stat().st_size // PAGE - 1) * PAGE + 2000)
    async with home.open() as backend:
        report = await backend.sync(SyncRequest(**{kind: True}))
        assert report.added == 12
        assert any("was damaged" in note for note in (await backend.status()).issues)
