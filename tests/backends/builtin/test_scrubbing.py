"""A bit that flips anywhere in an index is noticed by whoever reads its page, or by the next scrub."""

from __future__ import annotations

from random import Random

import pytest

from backends.builtin.store.port import IndexDamagedError
from backends.builtin.store.sqlite.store import SqliteStore, scrub
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
    """An index that lies on the disk whole, with nobody in it."""
    for number in range(12):
        home.write(f"memory/{number}.md", long_note(number, number + 100))
    await home.synced()
    return home.index


async def test_a_sound_index_passes(index):
    database = SqliteStore(index)
    assert scrub(database)
    assert not scrub(database, limit_s=-1)
    database.close()


async def test_words_that_were_merged_since_a_reader_looked_at_them_are_no_damage(index):
    database = SqliteStore(index)
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM chunk_terms('boiler')").get
    with database.writing() as connection:
        connection.execute("INSERT INTO chunk_terms (chunk_terms) VALUES ('optimize')")
    assert scrub(database)
    assert database.notes == ()
    database.close()


async def test_a_page_is_read_from_the_disk_though_a_reader_remembers_it(index):
    database = SqliteStore(index)
    with database.reading() as connection:
        connection.execute("PRAGMA quick_check(1)").fetchall()
    for page in range(1, index.stat().st_size // PAGE):
        flip(index, page * PAGE + 2000)
    with pytest.raises(IndexDamagedError):
        scrub(database)
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
                scrub(database)
    finally:
        database.close()


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
