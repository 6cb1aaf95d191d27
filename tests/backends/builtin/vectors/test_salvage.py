"""Vectors move from a damaged index into its successor in short turns, and only while it is that."""

from __future__ import annotations

import hashlib
import threading
from contextlib import closing

import anyio
import apsw
import numpy as np
import pytest
import structlog

from backends.builtin.batch import claiming
from backends.builtin.storage import schema
from backends.builtin.storage.connections import IndexDamagedError, open_unchanging
from backends.builtin.storage.database import Database
from backends.builtin.vectors import salvage, store
from backends.builtin.vectors.salvage import Salvage, take_over
from backends.errors import IndexUnavailableError
from providers.batch.hosts import JobLimits
from providers.interface import Fingerprint

pytestmark = pytest.mark.anyio

FINGERPRINT = Fingerprint(provider="test", model="directions", endpoint="loopback")
COUNT = 500


def hash_of(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def vector_of(number: int, dimensions: int = 32) -> np.ndarray:
    vector = np.random.default_rng(number).standard_normal(dimensions)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def put(database: Database, numbers, dimensions: int = 32, offset: int = 0) -> None:
    vectors = [(hash_of(n), vector_of(n + offset, dimensions)) for n in numbers]
    with database.writing() as connection:
        store.put_vectors(connection, FINGERPRINT, vectors)


def stored(database: Database) -> dict[bytes, bytes]:
    with database.reading() as connection:
        return dict(connection.execute("SELECT text_hash, vector FROM embeddings"))


def wreck_of(database: Database) -> str | None:
    with database.reading() as connection:
        return schema.unread(connection)


def lose(database: Database) -> None:
    """Somebody notices damage; its next use is that of a new index."""
    with pytest.raises(IndexDamagedError), database.reading():
        raise apsw.CorruptError("noticed")


@pytest.fixture
def database(tmp_path):
    """An empty index that took the place of one with vectors."""
    database = Database(tmp_path / "main.sqlite")
    put(database, range(COUNT))
    lose(database)
    yield database
    database.close()


@pytest.fixture
def begun(database, monkeypatch):
    """A salvage that has had its first turn, of as many rows as a turn may have."""
    monkeypatch.setattr(salvage, "_TURN_S", 60.0)
    begun = Salvage(database, wreck_of(database), 60)
    assert begun.turn()
    yield begun
    begun.close()


async def test_everything_is_taken_over_once_and_said(database):
    assert stored(database) == {}
    with structlog.testing.capture_logs() as logs:
        assert await take_over(database)
        assert not await take_over(database)
    assert stored(database) == {hash_of(n): vector_of(n).tobytes() for n in range(COUNT)}
    (record,) = logs
    assert (record["log_level"], record["taken"], record["of"]) == ("info", COUNT, COUNT)
    assert database.notes[-1].startswith("500 of 500 embeddings were taken over from main.sqlite.")


async def test_what_the_new_index_has_already_is_kept(database):
    put(database, range(10), offset=1_000)
    await take_over(database)
    assert len(stored(database)) == COUNT
    assert stored(database)[hash_of(3)] == vector_of(1_003).tobytes()


async def test_vectors_of_a_host_that_changed_its_dimensions_are_left(database):
    put(database, range(10), dimensions=16)
    await take_over(database)
    assert len(stored(database)) == 10


async def test_the_damaged_file_is_not_touched(database, tmp_path):
    wreck = tmp_path / wreck_of(database)
    before = wreck.read_bytes(), wreck.stat().st_mtime_ns
    files = set(tmp_path.iterdir())
    await take_over(database)
    assert (wreck.read_bytes(), wreck.stat().st_mtime_ns) == before
    assert set(tmp_path.iterdir()) <= files | {tmp_path / "main.sqlite-shm"}


async def test_it_ends_when_the_new_index_is_replaced_as_well(database, begun):
    lose(database)
    assert not begun.turn()
    assert stored(database) == {}
    await take_over(database)
    assert len(stored(database)) == salvage.ROWS_A_TURN  # what the second index had by then


async def test_of_two_processes_the_slower_one_stops(database, begun, tmp_path):
    other = Database(tmp_path / "main.sqlite")
    assert await take_over(other)
    assert not begun.turn()
    assert len(stored(database)) == COUNT
    other.close()


async def test_one_that_was_cancelled_or_killed_is_done_by_the_next_process(database, tmp_path):
    with anyio.CancelScope() as scope:
        scope.cancel()
        await take_over(database)
    assert wreck_of(database)
    database.close()
    successor = Database(tmp_path / "main.sqlite")
    assert await take_over(successor)
    assert len(stored(successor)) == COUNT
    successor.close()


async def test_after_its_time_it_ends_with_what_it_has(database):
    assert await take_over(database, limit_s=0)
    assert len(stored(database)) < COUNT
    assert wreck_of(database) is None


async def test_an_index_that_cannot_be_written_is_tried_again(database, look, tmp_path):
    assert wreck_of(database)
    with look(tmp_path / "main.sqlite") as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexUnavailableError):
            await take_over(database)
        other.execute("ROLLBACK")
    await take_over(database)
    assert len(stored(database)) == COUNT


async def test_between_its_turns_anybody_may_write_and_read(database, begun):
    while begun.turn():
        with database.writing(patience_s=0) as connection:
            store.put_vectors(connection, FINGERPRINT, [(hash_of(COUNT), vector_of(COUNT))])
        assert len(stored(database)) > salvage.ROWS_A_TURN
    assert len(stored(database)) == COUNT + 1


async def test_a_file_that_is_gone_by_then_is_no_fault(database, tmp_path):
    (tmp_path / wreck_of(database)).unlink()
    assert await take_over(database)
    assert stored(database) == {}
    assert "No embedding could be taken over" in database.notes[-1]


async def test_an_index_without_vectors_is_not_worth_a_word(tmp_path):
    database = Database(tmp_path / "main.sqlite")
    lose(database)
    await take_over(database)
    assert len(database.notes) == 1
    database.close()


async def test_no_batch_job_is_made_of_texts_that_may_have_vectors(database):
    assert wreck_of(database)
    limits = JobLimits(max_items=10_000, max_bytes=10_000_000, window_s=60)
    with database.writing() as connection:
        connection.execute(
            "INSERT INTO files VALUES (1, 'memory', 'a.md', 0, 0, 0, 0, x'', '', NULL, 1, 0)"
        )
        connection.execute("INSERT INTO chunks VALUES (1, 1, 0, 1, 1, x'', '', '', '', '')")
        rows = [(hash_of(n),) for n in range(claiming.THRESHOLD)]
        connection.executemany("INSERT INTO excerpts VALUES (NULL, 1, 1, 0, 1, 0, ?)", rows)
        assert claiming.claim(connection, FINGERPRINT, limits) == 0
        schema.set_read(connection)
        assert claiming.claim(connection, FINGERPRINT, limits) == 1


def test_a_file_whose_log_could_not_be_folded_in_is_no_source(tmp_path):
    database = Database(tmp_path / "main.sqlite")
    put(database, range(COUNT))
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM embeddings").get == COUNT
        put(database, range(COUNT, 2 * COUNT))  # stays in the log while that reader is at work
        lose(database)
        assert wreck_of(database) is None
    database.close()


def test_a_reader_of_the_last_state_prevents_nothing(tmp_path):
    database = Database(tmp_path / "main.sqlite")
    put(database, range(COUNT))
    entered, left = threading.Event(), threading.Event()

    def read() -> None:
        with database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM embeddings").get == COUNT
            entered.set()
            left.wait(10)

    reader = threading.Thread(target=read)
    reader.start()
    assert entered.wait(10)
    lose(database)
    assert wreck_of(database)
    left.set()
    reader.join()
    database.close()


def test_an_index_found_damaged_while_its_log_is_in_use_is_no_source(tmp_path):
    path = tmp_path / "main.sqlite"
    Database(path).close()
    other = Database(path)
    put(other, range(COUNT))
    with closing(open_unchanging(path)) as connection:
        page = connection.execute(
            "SELECT max(pageno) - 1 FROM dbstat WHERE name = 'sqlite_schema'"
        ).get
    with path.open("r+b") as file:
        file.seek(page * 4096 + 2000)
        file.write(b"\xa5")
    database = Database(path)
    assert "was damaged" in database.notes[0]
    assert wreck_of(database) is None
    database.close()
    other.close()
