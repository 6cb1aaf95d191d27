"""Opening an index: the files made, their permissions, and the treatment of an unusable one."""

import fcntl
import os
import stat
from contextlib import closing

import apsw
import numpy as np
import pytest

from backends.builtin.store.port import PreparedFile, ReadFile
from backends.builtin.store.sqlite import schema
from backends.builtin.store.sqlite.connections import connect_writer
from backends.builtin.store.sqlite.index_file import set_aside
from backends.builtin.store.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from backends.builtin.store.sqlite.store import SqliteStore
from backends.files.scan import FoundFile
from backends.interface import IndexUnavailableError
from providers.provider_interface import Fingerprint


@pytest.fixture
def place(tmp_path):
    return tmp_path / "state" / "memory" / "main.sqlite"


@pytest.fixture
def opened(place):
    """Opens the index at the place, any number of times, and closes everything at the end."""
    databases = []

    def open_index() -> SqliteStore:
        databases.append(SqliteStore(place))
        return databases[-1]

    yield open_index
    for database in databases:
        database.close()


def remember(database: SqliteStore, value: str) -> None:
    with database.writing() as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('remembered', ?)", (value,))


def remembered(database: SqliteStore) -> str | None:
    with database.reading() as connection:
        return connection.execute("SELECT value FROM meta WHERE key = 'remembered'").get


def rights(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def flip(path, offset: int, size: int = 64) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * size)


def test_an_index_is_made_with_its_directories_for_its_user_alone(opened, place):
    old = os.umask(0)
    try:
        remember(opened(), "yes")
    finally:
        os.umask(old)
    assert rights(place.parent) == 0o700
    files = sorted(place.parent.iterdir())
    assert {file.name for file in files} == {
        f"main.sqlite{end}" for end in ("", "-wal", "-shm", "-open")
    }
    assert all(rights(file) == 0o600 for file in files)


def test_a_directory_that_exists_keeps_its_rights(opened, place):
    place.parent.mkdir(parents=True)
    place.parent.chmod(0o755)
    opened()
    assert rights(place.parent) == 0o755
    assert rights(place) == 0o600


def test_an_index_carries_our_marks_and_all_tables(opened, place):
    opened()
    with closing(apsw.Connection(str(place))) as connection:
        assert connection.pragma("application_id") == APPLICATION_ID
        assert connection.pragma("user_version") == SCHEMA_VERSION
        assert schema.is_complete(connection)


def test_what_was_written_is_there_after_reopening(opened):
    database = opened()
    remember(database, "yes")
    database.close()
    again = opened()
    assert remembered(again) == "yes"
    assert again.notes == ()


def test_closing_folds_the_log_into_the_file(opened, place):
    database = opened()
    remember(database, "yes")
    assert remembered(database) == "yes"
    database.close()
    assert [file.name for file in place.parent.iterdir()] == ["main.sqlite"]


def test_an_empty_file_becomes_an_index(opened, place):
    place.parent.mkdir(parents=True)
    place.touch()
    database = opened()
    remember(database, "yes")
    assert database.path == place
    assert remembered(database) == "yes"


def as_of_version(place, version: int, *, without: str = "") -> None:
    with closing(apsw.Connection(str(place))) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        if without:
            connection.execute(f"DROP TABLE {without}")


def test_an_index_of_an_earlier_release_is_emptied_but_for_its_vectors_and_said_so(opened, place):
    fingerprint = Fingerprint(provider="test", model="directions", endpoint="loopback")
    database = opened()
    publish(database, "memory/a.md")
    with database.writer() as writer:
        writer.embeddings.put(fingerprint, [(b"text", np.array([1, 0], np.float32))])
        writer.remember("devices", "{}")
        writer.remember("learned", "all")
    database.close()
    as_of_version(place, SCHEMA_VERSION - 1, without="stamps")
    again = opened()
    assert (again.path, len(again.notes)) == (place, 1)
    assert "earlier release" in again.notes[0]
    with again.view() as view:
        assert view.files.indexed() == {}
        assert [key for key, _ in view.embeddings.vectors_of(fingerprint, [b"text"])] == [b"text"]
        assert view.remembered("learned") == "all"
        assert view.remembered("devices") is None
    publish(again, "memory/a.md")
    again.close()
    assert opened().notes == ()


@pytest.mark.parametrize(("back", "without"), [(SCHEMA_VERSION - 4, ""), (1, "embeddings")])
def test_of_an_index_whose_vectors_cannot_be_read_nothing_is_kept(opened, place, back, without):
    database = opened()
    remember(database, "old")
    database.close()
    as_of_version(place, SCHEMA_VERSION - back, without=without)
    again = opened()
    assert again.path == place
    assert remembered(again) is None
    assert "earlier release" in again.notes[0]


def publish(database: SqliteStore, path: str) -> None:
    found = FoundFile(path, 0, 5, 11, 12, 13)
    with database.writer() as writer:
        read = ReadFile(found, b"hash", read_at_ns=14)
        writer.files.publish(read, "pipeline", PreparedFile((), None, frozenset()))


def test_what_an_earlier_release_takes_in_beside_this_one_was_seen_by_nobody(place):
    with closing(SqliteStore(place)) as database:
        publish(database, "memory/a.md")
        with closing(apsw.Connection(str(place))) as earlier:
            earlier.execute("DELETE FROM stamps")
        with database.writer() as writer:
            assert writer.files.indexed()["memory/a.md"].seen == "nowhere"
            assert writer.files.holds("memory", "memory/a.md", b"hash", "pipeline")


@pytest.mark.parametrize("leftover", ["-wal", "-journal"])
def test_a_log_left_behind_by_a_deleted_index_is_not_taken_for_the_new_ones(
    opened, place, leftover
):
    database = opened()
    remember(database, "old")
    log = place.with_name("main.sqlite-wal").read_bytes()
    database.close()
    place.unlink()
    place.with_name(f"main.sqlite{leftover}").write_bytes(log)
    again = opened()
    assert remembered(again) is None
    remember(again, "new")
    assert remembered(again) == "new"


def test_a_damaged_first_page_is_set_aside_and_a_new_index_made(opened, place):
    database = opened()
    remember(database, "old")
    database.close()
    damaged = place.read_bytes()
    flip(place, 100, 2000)
    again = opened()
    assert remembered(again) is None
    (kept,) = place.parent.glob("main.sqlite.damaged-*")
    assert kept.stat().st_size == len(damaged)
    assert kept.name in again.notes[0] and "damaged" in again.notes[0]


@pytest.mark.parametrize("lost", [1, 8])
def test_an_index_whose_end_is_missing_counts_as_damaged(opened, place, lost):
    opened().close()
    os.truncate(place, place.stat().st_size - lost)
    assert "its end is missing" in opened().notes[0]


def test_the_end_of_an_index_may_stand_in_the_log_that_a_killed_process_left(opened, place):
    database = opened()
    remember(database, "much" * 10_000)
    left = {file: file.read_bytes() for file in place.parent.glob("main.sqlite*")}
    database.close()
    for file, data in left.items():
        file.write_bytes(data)
    again = opened()
    assert remembered(again) == "much" * 10_000
    assert again.notes == ()


def test_missing_tables_count_as_damage(opened, place):
    opened().close()
    with closing(apsw.Connection(str(place))) as connection:
        connection.execute("DROP TABLE embeddings")
    again = opened()
    assert "tables are missing" in again.notes[0]
    with again.reading() as connection:
        assert schema.is_complete(connection)


def test_of_damaged_indexes_only_the_newest_is_kept(opened, place):
    for day in (1, 2):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_name(f"main.sqlite.damaged-{day}").write_text("old", encoding="utf-8")
    bystander = place.with_name("other.sqlite.damaged-1")
    bystander.write_text("not ours", encoding="utf-8")
    opened().close()
    flip(place, 100, 2000)
    opened()
    assert len(list(place.parent.glob("main.sqlite.damaged-*"))) == 1
    assert bystander.exists()


def test_brackets_in_the_name_of_the_index_are_no_pattern(tmp_path):
    place = tmp_path / "a[b]*.sqlite"
    for _ in range(3):
        SqliteStore(place).close()
        flip(place, 100, 2000)
    SqliteStore(place).close()
    kept = [file for file in tmp_path.iterdir() if ".damaged-" in file.name]
    assert len(kept) == 1


@pytest.mark.parametrize("exists", [False, True])
def test_an_index_may_lie_behind_a_link(opened, place, tmp_path, exists):
    elsewhere = tmp_path / "disk" / "index.db"
    elsewhere.parent.mkdir()
    if exists:
        SqliteStore(elsewhere).close()
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    for turn in range(3):
        database = opened()
        remember(database, str(turn))
        database.close()
        if turn == 1:
            flip(elsewhere, 100, 2000)
    assert place.is_symlink()
    assert not place.parent.joinpath("main.sqlite-wal").exists()
    kept = [file.name for file in elsewhere.parent.iterdir() if ".damaged-" in file.name]
    assert len(kept) == 1


def test_a_new_index_may_be_opened_many_times_at_once(tmp_path, in_threads, monkeypatch):
    for module in ("connections", "store"):
        monkeypatch.setattr(f"backends.builtin.store.sqlite.{module}.PATIENCE_S", 60.0)
    monkeypatch.setattr("backends.builtin.store.sqlite.index_file._MAKING_PATIENCE_S", 60.0)
    for turn in range(12):
        place = tmp_path / str(turn) / "main.sqlite"
        databases = in_threads(8, lambda _number, place=place: SqliteStore(place))
        assert {(database.path, database.notes) for database in databases} == {(place, ())}
        for number, database in enumerate(databases):
            remember(database, str(number))
        assert {remembered(database) for database in databases} == {"7"}
        for database in databases:
            database.close()
        assert [file.name for file in place.parent.iterdir()] == ["main.sqlite"]


def test_what_a_killed_process_left_of_a_new_index_is_in_nobodys_way(opened, place):
    place.parent.mkdir(parents=True)
    place.with_name(".main.sqlite.new").write_bytes(b"half an index")
    place.with_name(".main.sqlite.new-journal").write_bytes(b"half a journal")
    database = opened()
    remember(database, "yes")
    assert not list(place.parent.glob(".main*"))


def test_somebody_who_never_ends_making_an_index_is_not_waited_for_for_ever(opened, place):
    place.parent.mkdir(parents=True)
    directory = os.open(place.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        with pytest.raises(IndexUnavailableError) as caught:
            opened()
        assert "another process" in str(caught.value)
    finally:
        os.close(directory)


def test_the_settings_of_a_connection_are_what_was_asked_for(opened, place):
    database = opened()
    with closing(connect_writer(place)) as writer:
        assert writer.pragma("journal_mode") == "wal"
        assert writer.pragma("synchronous") == 1
        assert writer.pragma("foreign_keys") == 1
    with database.reading() as reader, pytest.raises(apsw.ReadOnlyError):
        reader.execute("DELETE FROM meta")


def test_a_damaged_index_too_large_to_be_worth_its_space_is_deleted(opened, place, monkeypatch):
    monkeypatch.setattr("backends.builtin.store.sqlite.index_file.MAX_SET_ASIDE_BYTES", 10_000)
    opened().close()
    assert "deleted" in set_aside(place, "a test")
    assert list(place.parent.iterdir()) == []


def test_an_index_of_a_later_release_is_left_alone_and_another_one_made(opened, place):
    database = opened()
    remember(database, "future")
    database.close()
    with closing(apsw.Connection(str(place))) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = place.read_bytes()
    again = opened()
    assert again.path.name == "main.memory-gateway.sqlite"
    assert "later release" in again.notes[0]
    assert remembered(again) is None
    assert place.read_bytes() == before
