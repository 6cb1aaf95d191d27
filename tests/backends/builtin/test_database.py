"""Turns and snapshots, and what a running process does when its index file is damaged or gone."""

import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from backends.builtin.store.port import IndexDamagedError
from backends.builtin.store.sqlite.connections import index_unavailable
from backends.builtin.store.sqlite.store import MAX_TIMES_DAMAGED, READERS, SqliteStore
from backends.interface import IndexFullError, IndexUnavailableError


@pytest.fixture
def database(tmp_path):
    database = SqliteStore(tmp_path / "main.sqlite")
    yield database
    database.close()


def put(database: SqliteStore, key: str, value: str = "x", **options) -> None:
    with database.writing(**options) as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def put_and_fail(database: SqliteStore, failure: BaseException) -> None:
    with database.writing() as connection:
        connection.execute("INSERT INTO meta VALUES ('a', 'x')")
        raise failure


def put_twice(database: SqliteStore) -> None:
    with database.writing() as connection:
        connection.execute("INSERT INTO meta VALUES ('a', 'x')")
        connection.execute("INSERT INTO meta VALUES ('a', 'y')")


def keys(database: SqliteStore) -> list[str]:
    """Returns everything that was put."""
    with database.reading() as connection:
        rows = connection.execute("SELECT key FROM meta ORDER BY key")
        return [key for (key,) in rows]


@pytest.fixture
def damage(spoil):
    """Damages the file and lets the database find the damage."""

    def spoil_and_notice(database: SqliteStore) -> None:
        spoil(database.path)
        with pytest.raises(IndexDamagedError):
            keys(database)

    return spoil_and_notice


def test_a_transaction_is_published_whole(database):
    put(database, "a")
    assert keys(database) == ["a"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_an_exception_rolls_everything_back_and_reaches_the_caller(database, failure):
    with pytest.raises(failure):
        put_and_fail(database, failure())
    assert keys(database) == []
    put(database, "b")
    assert keys(database) == ["b"]


def test_an_error_of_sqlite_is_typed_and_rolls_back(database):
    with pytest.raises(IndexUnavailableError) as caught:
        put_twice(database)
    assert isinstance(caught.value.__cause__, apsw.ConstraintError)
    assert str(database.path) in caught.value.message
    assert keys(database) == []


def test_a_reader_sees_one_state_while_others_write(database):
    put(database, "a")
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM meta").get == 1
        put(database, "b")
        assert connection.execute("SELECT count(*) FROM meta").get == 1
    assert keys(database) == ["a", "b"]


def test_a_failing_reader_leaves_no_open_transaction_behind(database):
    for _ in range(3 * READERS):
        with pytest.raises(IndexUnavailableError), database.reading() as connection:
            connection.execute("SELECT * FROM absent")
    put(database, "a")
    assert keys(database) == ["a"]
    with database.writing() as connection:
        connection.execute("DROP TABLE file_languages")  # would be locked by a forgotten reader


def test_many_threads_read_and_write_at_once(database, in_threads):
    def work(number: int) -> None:
        for turn in range(25):
            put(database, f"{number}-{turn}")
            assert f"{number}-{turn}" in keys(database)

    in_threads(8, work)
    assert len(keys(database)) == 8 * 25


def test_descriptors_do_not_accumulate(database, in_threads, open_files):
    def read_at_once(count: int) -> int:
        gate = threading.Barrier(count)

        def work(_number: int) -> None:
            with database.reading() as connection:
                assert connection.execute("SELECT 1").get == 1
                gate.wait(60)

        in_threads(count, work)
        return len(open_files())

    first = read_at_once(3 * READERS)
    assert [read_at_once(3 * READERS) for _ in range(4)] == [first] * 4


def test_nothing_stays_open_after_closing(tmp_path, open_files):
    database = SqliteStore(tmp_path / "main.sqlite")
    put(database, "a")
    keys(database)
    assert any(str(tmp_path) in name for name in open_files())
    database.close()
    assert not any(str(tmp_path) in name for name in open_files())


def test_after_closing_every_use_is_a_typed_error(tmp_path):
    database = SqliteStore(tmp_path / "main.sqlite")
    database.close()
    database.close()
    with pytest.raises(IndexUnavailableError):
        put(database, "a")
    with pytest.raises(IndexUnavailableError):
        put(database, "a", patience_s=0)


def test_a_reader_in_the_middle_of_its_work_survives_the_closing(tmp_path):
    database = SqliteStore(tmp_path / "main.sqlite")
    put(database, "a")
    with database.reading() as connection:
        database.close()
        assert connection.execute("SELECT count(*) FROM meta").get == 1
    assert [file.name for file in tmp_path.iterdir()] == ["main.sqlite"]


def test_patience_ends_while_another_thread_writes(database):
    with database.writing(), pytest.raises(IndexUnavailableError) as caught:
        put(database, "a", patience_s=0.01)
    assert "another task is writing" in str(caught.value)
    put(database, "a", patience_s=0.01)


def test_patience_ends_while_another_process_writes(database, look):
    with look(database.path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexUnavailableError) as caught:
            put(database, "a", patience_s=0.01)
        assert "Somebody else holds the index" in str(caught.value)
        other.execute("ROLLBACK")
    put(database, "a")


def test_readers_are_not_kept_waiting_by_a_writer_of_another_process(database, look):
    put(database, "a")
    with look(database.path) as other:
        other.execute("BEGIN IMMEDIATE; DELETE FROM meta")
        assert keys(database) == ["a"]
        other.execute("ROLLBACK")


@pytest.mark.parametrize("is_made", [False, True])
def test_on_a_full_disk_no_search_is_promised_by_the_one_that_fails(tmp_path, is_made):
    if is_made:
        (tmp_path / "main.sqlite").write_bytes(b"x")
    for fault in (apsw.FullError("disk is full"), OSError(errno.ENOSPC, "No space left")):
        error = index_unavailable(tmp_path / "main.sqlite", fault)
        assert isinstance(error, IndexFullError)
        assert error.remedy == "The disk is full: free some space."


def test_an_io_error_is_a_full_disk_where_no_space_is_left(tmp_path, monkeypatch):
    index, fault = tmp_path / "main.sqlite", apsw.IOError("disk I/O error")
    assert not isinstance(index_unavailable(index, fault), IndexFullError)
    full = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert isinstance(index_unavailable(index, fault), IndexFullError)


def test_a_full_file_is_a_typed_error_and_reading_goes_on(database):
    put(database, "a")
    with database.writing() as connection:
        limit = connection.pragma("max_page_count", connection.pragma("page_count"))
    with pytest.raises(IndexUnavailableError) as caught:
        put(database, "b", "x" * 100_000)
    assert isinstance(caught.value.__cause__, apsw.FullError)
    assert caught.value.remedy == "The disk is full: free some space."
    assert keys(database) == ["a"]
    with database.writing() as connection:
        connection.pragma("max_page_count", limit + 1000)
    put(database, "b", "x" * 100_000)
    assert keys(database) == ["a", "b"]


@pytest.mark.parametrize("use", [put, lambda database, _key: keys(database)])
def test_a_file_that_was_taken_away_is_replaced_at_its_next_use(database, use):
    put(database, "a")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database.path}{suffix}").unlink()
    use(database, "b")
    assert database.generation == 1
    assert "a" not in keys(database)
    assert database.path.exists()
    assert "taken away" in database.notes[0]


def take_away(database):
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database.path}{suffix}").unlink()


def test_a_file_that_was_taken_away_is_not_made_anew_where_it_is_not_wanted_any_more(tmp_path):
    database = SqliteStore(tmp_path / "main.sqlite", may_make=lambda: False)
    put(database, "a")
    take_away(database)
    for use in (keys, lambda database: put(database, "b")):
        with pytest.raises(IndexUnavailableError, match="was deleted"):
            use(database)
    database.close()
    assert not database.path.exists()


def test_a_file_that_was_taken_away_is_not_made_anew_at_the_end(tmp_path):
    database = SqliteStore(tmp_path / "main.sqlite")
    put(database, "a")
    take_away(database)
    database.close()
    assert not database.path.exists()


def test_a_foreign_file_that_took_the_place_is_left_alone(database, tmp_path):
    put(database, "a")
    other = tmp_path / "theirs"
    other.write_text("not an index", encoding="utf-8")
    other.rename(database.path)
    assert keys(database) == []
    assert database.path.name == "main.memory-gateway.sqlite"
    assert (tmp_path / "main.sqlite").read_text(encoding="utf-8") == "not an index"


def test_an_index_that_another_process_replaced_is_taken_over(database, tmp_path):
    put(database, "a")
    database.path.rename(tmp_path / "away.sqlite")
    successor = SqliteStore(database.path)
    put(successor, "b")
    successor.close()
    assert keys(database) == ["b"]
    assert "another file than before" in database.notes[0]


def test_a_copy_by_another_program_that_took_the_place_is_set_aside_where_its_checksums_are_wrong(
    database, tmp_path
):
    put(database, "a")
    SqliteStore(tmp_path / "earlier.sqlite").close()
    copy = tmp_path / "copy"
    with (
        closing(sqlite3.connect(tmp_path / "earlier.sqlite")) as ours,
        closing(sqlite3.connect(copy)) as theirs,
    ):
        ours.backup(theirs)
    copy.rename(database.path)
    assert keys(database) == []
    put(database, "b")
    assert keys(database) == ["b"]
    assert len(list(tmp_path.glob("main.sqlite.damaged-*"))) == 1


def test_damage_met_at_work_is_set_aside_at_the_next_use(database, tmp_path, damage):
    put(database, "a")
    damage(database)
    assert keys(database) == []
    put(database, "b")
    assert keys(database) == ["b"]
    assert database.generation == 1
    assert len(list(tmp_path.glob("main.sqlite.damaged-*"))) == 1
    assert "damaged" in database.notes[0]


def test_a_reader_of_the_damaged_file_does_not_condemn_its_successor(database, damage):
    put(database, "a")

    def read_while_it_is_replaced() -> None:
        with database.reading():
            damage(database)
            put(database, "b")
            raise apsw.CorruptError("seen in the old file")

    with pytest.raises(IndexDamagedError):
        read_while_it_is_replaced()
    assert keys(database) == ["b"]
    assert database.generation == 1


def test_a_disk_that_damages_one_index_after_another_is_given_up_on(database, tmp_path, damage):
    for _ in range(MAX_TIMES_DAMAGED):
        put(database, "a")
        damage(database)
    put(database, "a")
    damage(database)
    for _ in range(2):
        with pytest.raises(IndexDamagedError) as caught:
            put(database, "b")
        assert "see the disk" in str(caught.value)
    assert len(list(tmp_path.glob("main.sqlite.damaged-*"))) == 1


def test_the_size_counts_the_log_and_no_missing_file(database):
    put(database, "a", "x" * 50_000)
    assert database.size_bytes() >= 50_000
    database.close()
    assert database.size_bytes() == database.path.stat().st_size
