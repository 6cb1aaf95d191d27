"""Whatever page of an index is damaged, what is read out of the rest is what was stored."""

from __future__ import annotations

import hashlib
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random

import apsw
import numpy as np
import pytest

from backends.builtin.storage import schema
from backends.builtin.storage.connections import open_unchanging
from backends.builtin.storage.database import Database
from backends.builtin.storage.schema import SCHEMA_VERSION
from backends.builtin.vectors import store
from backends.builtin.vectors.salvage import Wreck
from providers.interface import Fingerprint

PAGE = 4096
SMALL = Fingerprint(provider="test", model="small", endpoint="loopback")
LONG = Fingerprint(provider="test", model="long", endpoint="loopback")
COUNTS = {SMALL: 400, LONG: 60}
DIMENSIONS = {SMALL: 48, LONG: 1536}
"""The vectors of one model share pages, those of the other need two each."""
TOTAL = sum(COUNTS.values())


def hash_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def vector_of(fingerprint: Fingerprint, number: int) -> np.ndarray:
    rng = np.random.default_rng([DIMENSIONS[fingerprint], number])
    vector = rng.standard_normal(DIMENSIONS[fingerprint])
    return (vector / np.linalg.norm(vector)).astype(np.float32)


STORED = {
    (fingerprint, hash_of(str(number))): vector_of(fingerprint, number).tobytes()
    for fingerprint, count in COUNTS.items()
    for number in range(count)
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """An index that nobody has open."""
    path = tmp_path_factory.mktemp("sound") / "main.sqlite"
    with closing(Database(path)) as database:
        for fingerprint, count in COUNTS.items():
            pairs = [(hash_of(str(n)), vector_of(fingerprint, n)) for n in range(count)]
            with database.writing() as connection:
                store.put_vectors(connection, fingerprint, pairs)
    return path


@pytest.fixture
def read(tmp_path):
    """What can be read of a file with these bytes; none of it may be wrong."""

    def salvage(data: bytes) -> int:
        path = tmp_path / "damaged #1?.sqlite"
        path.write_bytes(data)
        with closing(Wreck(path)) as wreck:
            found = [one for one in wreck.vectors() if one is not None]
        for one in found:
            assert STORED[one.fingerprint, one.text_hash] == one.vector.tobytes()
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        assert path.read_bytes() == data
        return len({(one.fingerprint, one.text_hash) for one in found})

    return salvage


def pages_of(path: Path, table: str) -> set[int]:
    """Pages of a table counted from 0, without those in its middle, which lead to others."""
    with closing(open_unchanging(path)) as connection:
        rows = connection.execute(
            "SELECT pageno - 1 FROM dbstat WHERE name = ? AND pagetype != 'internal'", (table,)
        )
        return {page for (page,) in rows}


def with_page(data: bytes, page: int, content: bytes) -> bytes:
    return data[: page * PAGE] + content + data[(page + 1) * PAGE :]


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def test_of_a_sound_file_everything_is_read(sound, read):
    assert read(sound.read_bytes()) == TOTAL


def test_a_flipped_bit_costs_the_vectors_of_its_page_and_no_other(sound, read):
    data = sound.read_bytes()
    for page in sorted(pages_of(sound, "embeddings")):
        lost = TOTAL - read(flipped(data, page * PAGE + 2000))
        assert 1 <= lost <= 20


def test_damage_outside_of_the_vectors_costs_none(sound, read):
    data = sound.read_bytes()
    ours = {"embeddings", "fingerprints", "sqlite_schema"}
    with closing(open_unchanging(sound)) as connection:
        others = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")} - ours
    pages = {page for name in others for page in pages_of(sound, name)}
    assert len(pages) > 20
    for page in sorted(pages):
        assert read(flipped(data, page * PAGE + 2000)) == TOTAL


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_to_pages_nothing_wrong_is_read(sound, read, seed):
    rng = Random(seed)
    data = sound.read_bytes()
    pages = sorted(pages_of(sound, "embeddings"))
    for _ in range(rng.choice([1, 3, 10])):
        one, other = rng.choice(pages), rng.choice(pages)
        lost_write = data[other * PAGE : (other + 1) * PAGE]
        content = rng.choice([bytes(PAGE), rng.randbytes(PAGE), lost_write])
        data = with_page(data, one, content)
    assert read(data) > 0


@pytest.mark.parametrize("count", [2, 10, 30])
@pytest.mark.parametrize("content", [bytes(PAGE), Random(7).randbytes(PAGE)])
def test_each_lost_page_costs_its_own_vectors(sound, read, count, content):
    data = sound.read_bytes()
    for page in Random(count).sample(sorted(pages_of(sound, "embeddings")), count):
        data = with_page(data, page, content)
    assert read(data) >= TOTAL - count * 20


def test_the_page_that_leads_to_all_others_costs_all_and_takes_no_time(sound, read):
    data = sound.read_bytes()
    with closing(open_unchanging(sound)) as connection:
        root = connection.execute(
            "SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'embeddings'"
        ).get
    assert read(with_page(data, root, bytes(PAGE))) == 0


def test_pages_that_were_exchanged_mix_no_vectors(sound, read):
    data = sound.read_bytes()
    with closing(open_unchanging(sound)) as connection:
        rows = connection.execute("SELECT pageno - 1 FROM dbstat WHERE pagetype = 'overflow'")
        overflows = [page for (page,) in rows]
    assert len(overflows) >= COUNTS[LONG]
    for one, other in pairwise(overflows):
        first, second = (data[page * PAGE : (page + 1) * PAGE] for page in (one, other))
        assert read(with_page(with_page(data, one, second), other, first)) == TOTAL - 2


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_of_a_file_without_its_end_the_rest_is_read(sound, read, share):
    data = sound.read_bytes()
    kept = int(len(data) / PAGE * share)
    assert read(data[: kept * PAGE]) > 0


def test_nothing_is_read_of_a_page_that_is_not_whole(sound, read):
    with pytest.raises(apsw.CorruptError, match="not whole"):
        read(sound.read_bytes()[:-100])


@pytest.mark.parametrize("data", [b"", b"no index", bytes(5 * PAGE), Random(1).randbytes(5 * PAGE)])
def test_what_is_no_index_is_an_error_of_sqlite(read, data):
    with pytest.raises(apsw.Error):
        read(data)


def test_an_index_of_another_schema_is_not_read(sound, read, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(sound.read_bytes())
    with closing(apsw.Connection(str(other))) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    data = other.read_bytes()
    other.unlink()
    with pytest.raises(apsw.NotADBError, match="release"):
        read(data)


def test_without_checksums_nothing_is_believed(tmp_path):
    plain = tmp_path / "plain"
    with closing(apsw.Connection(str(plain), vfs="unix")) as connection:
        schema.create(connection)
    with pytest.raises(apsw.CorruptError, match="checksums"):
        Wreck(plain)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text_hash", b"short"),
        ("vector", b""),
        ("vector", np.zeros(48, "<f4").tobytes()),
        ("vector", np.full(48, np.nan, "<f4").tobytes()),
        ("vector", (vector_of(SMALL, 7) * np.float32(1.001)).tobytes()),
        ("vector", vector_of(LONG, 7).tobytes()),
        ("fingerprint_id", 2),
    ],
)
def test_a_row_that_cannot_be_right_is_left_out(sound, tmp_path, column, value):
    path = tmp_path / "main.sqlite"
    path.write_bytes(sound.read_bytes())
    with closing(Database(path)) as database, database.writing() as connection:
        connection.execute(
            f"UPDATE embeddings SET {column} = ? WHERE fingerprint_id = 1 AND text_hash = ?",
            (value, hash_of("399")),
        )
    with closing(Wreck(path)) as wreck:
        found = [one for one in wreck.vectors() if one is not None]
    assert len(found) == TOTAL - 1
