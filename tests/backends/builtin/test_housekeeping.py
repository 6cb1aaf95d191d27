"""The space of deleted rows is returned to the disk where that is worth the writes."""

import pytest

from backends.builtin.store.sqlite import store as store_module
from backends.builtin.store.sqlite.store import (
    MAX_LOG_BYTES,
    MIN_UNUSED_PAGES,
    PAGES_A_STEP,
    SqliteStore,
    give_back_unused,
)
from backends.interface import SyncRequest
from benchmarks.notes import NoteWriter


@pytest.fixture
def database(tmp_path):
    database = SqliteStore(tmp_path / "index.sqlite")
    yield database
    database.close()


def leave_unused(database, pages):
    """Writes rows of one page each and deletes them again."""
    with database.writing() as connection:
        rows = [(f"row {number}", "x" * 7_900) for number in range(pages)]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    with database.writing() as connection:
        connection.execute("DELETE FROM meta")


def sizes(database):
    with database.reading() as connection:
        return connection.pragma("page_count"), connection.pragma("freelist_count")


def test_much_unused_space_is_given_back(database):
    leave_unused(database, 3 * MIN_UNUSED_PAGES)
    pages, unused = sizes(database)
    assert unused >= 3 * MIN_UNUSED_PAGES
    given = give_back_unused(database)
    assert given >= 2 * MIN_UNUSED_PAGES
    left, still_unused = sizes(database)
    assert left <= pages - given
    assert still_unused == unused - given
    assert give_back_unused(database) == 0


def test_little_unused_space_is_kept_for_new_rows(database):
    leave_unused(database, MIN_UNUSED_PAGES // 2)
    before = sizes(database)
    assert give_back_unused(database) == 0
    assert sizes(database) == before


def test_one_call_writes_a_bounded_amount(database, monkeypatch):
    monkeypatch.setattr(store_module, "MAX_STEPS", 2)
    leave_unused(database, 4 * MIN_UNUSED_PAGES)
    assert give_back_unused(database) == 2 * PAGES_A_STEP


@pytest.mark.anyio
async def test_a_sync_that_removes_notes_shortens_the_file(home, look):
    notes = [
        home.write(f"memory/{number}.md", f"- boiler {number} of many\n" * 40_000)
        for number in range(8)
    ]
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        with look(home.index) as db:
            before = db.pragma("page_count")
        for note in notes:
            note.unlink()
        await backend.sync(SyncRequest())
        with look(home.index) as db:
            assert db.pragma("page_count") < before / 2


@pytest.mark.anyio
async def test_the_rows_of_chunks_leave_little_of_their_pages_empty(home):
    writer = NoteWriter()
    writer.workspace(home.workspace, 100, bullets=30)
    notes = sum(file.stat().st_size for file in home.workspace.rglob("*.md"))
    await home.synced()
    assert home.settings.search.store.path.stat().st_size < 5.2 * notes  # 5.7 on pages of 4 kB


def log_of(database):
    return database.path.with_name(f"{database.path.name}-wal").stat().st_size


def test_a_long_log_is_emptied_unless_somebody_reads_or_writes(database):
    leave_unused(database, 2 * MIN_UNUSED_PAGES)
    assert log_of(database) > MAX_LOG_BYTES
    with database.reading() as reader:
        assert reader.execute("SELECT count(*) FROM meta").get == 0
        with database.writing() as connection:
            connection.execute("INSERT INTO meta VALUES ('later', 'yes')")
        database.tidy()
        assert log_of(database) > MAX_LOG_BYTES
    with database.alone():
        database.tidy()  # does not wait
    assert log_of(database) > MAX_LOG_BYTES
    database.tidy()
    assert log_of(database) == 0
