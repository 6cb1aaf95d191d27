"""The choice of the engine that answers, and the reports on those that do not."""

import apsw
import numpy as np
import pytest
from structlog.testing import capture_logs

from backends.builtin.store.port import Unavailable
from backends.builtin.store.sqlite.vectors import SqliteVectorMemory
from config.settings import VectorStoreSettings


@pytest.fixture
def filled(library):
    library.write("memory/a.md", *(f"text {number}" for number in range(30)))
    library.embed()
    return library


def search_with(library, settings, vector, *, refresh=True, times=1):
    """Returns the engine that answered and the status after it."""
    vectors = SqliteVectorMemory(settings)
    for _ in range(times):
        with library.database.reading() as connection:
            space = vectors.space(connection, library.fingerprint)
            if refresh:
                space.refresh()
            answer = space.search(vector("text 7"), limit=3)
            assert not isinstance(answer, Unavailable)
            assert library.texts(answer.hits)[0] == "text 7"
            status = space.status()
    assert status.engine == answer.engine
    return answer.engine, status


@pytest.mark.parametrize("configured", ["auto", "resident"])
def test_the_resident_engine_is_preferred(filled, vector, configured):
    engine, status = search_with(filled, VectorStoreSettings(engine=configured), vector)
    assert engine == "resident"
    assert status.unavailable == {}
    assert status.configured == configured
    assert status.resident_vectors == 30
    assert status.resident_bytes > 30 * 48
    assert (status.dimensions, status.bytes_per_chunk) == (48, 48 * 4)


@pytest.mark.parametrize("configured", ["sqlite-vec", "numpy"])
def test_another_engine_answers_when_it_is_configured_and_takes_no_memory(
    filled, vector, configured
):
    engine, status = search_with(filled, VectorStoreSettings(engine=configured), vector)
    assert engine == configured
    assert status.resident_bytes == 0
    assert status.unavailable == {}


def test_until_the_vectors_are_loaded_sqlite_vec_answers(filled, vector):
    engine, status = search_with(filled, VectorStoreSettings(), vector, refresh=False)
    assert engine == "sqlite-vec"
    assert status.unavailable == {"resident": "the vectors are not loaded yet"}


def test_an_index_beyond_the_permitted_memory_is_searched_by_sqlite_vec(filled, vector):
    engine, status = search_with(filled, VectorStoreSettings(max_resident_mb=0), vector)
    assert engine == "sqlite-vec"
    assert "maxResidentMB" in status.unavailable["resident"]


def test_a_missing_extension_is_logged_once_shown_and_replaced(filled, vector, tmp_path):
    path = tmp_path / "absent.so"
    settings = VectorStoreSettings(engine="sqlite-vec", extension_path=path)
    with capture_logs() as records:
        engine, status = search_with(filled, settings, vector, times=3)
    assert engine == "numpy"
    assert str(path) in status.unavailable["sqlite-vec"]
    assert "No such file" in status.unavailable["sqlite-vec"]
    assert [record["event"] for record in records] == ["sqlite-vec not loaded"]
    assert records[0]["reason"] == status.unavailable["sqlite-vec"]


@pytest.mark.parametrize("content", [b"no library at all", b""])
def test_a_file_that_is_no_extension_is_refused_with_its_cause(filled, vector, tmp_path, content):
    path = tmp_path / "vec0.so"
    path.write_bytes(content)
    settings = VectorStoreSettings(engine="sqlite-vec", extension_path=path)
    engine, status = search_with(filled, settings, vector)
    assert engine == "numpy"
    assert str(path) in status.unavailable["sqlite-vec"]


def test_a_library_without_the_entry_point_is_refused(filled, vector):
    import _ctypes

    settings = VectorStoreSettings(engine="sqlite-vec", extension_path=_ctypes.__file__)
    engine, status = search_with(filled, settings, vector)
    assert engine == "numpy"
    assert "sqlite3_vec_init" in status.unavailable["sqlite-vec"]


def test_a_copy_of_the_library_elsewhere_is_loaded_by_its_path(filled, vector, tmp_path):
    import importlib.util
    from pathlib import Path

    package = Path(importlib.util.find_spec("sqlite_vec").submodule_search_locations[0])
    (bundled,) = package.glob("vec0.*")
    copy = tmp_path / "my-own-name.so"
    copy.write_bytes(bundled.read_bytes())
    settings = VectorStoreSettings(engine="sqlite-vec", extension_path=copy)
    assert search_with(filled, settings, vector)[0] == "sqlite-vec"


def test_extensions_cannot_be_loaded_by_sql_afterwards(filled, vector):
    vectors = SqliteVectorMemory(VectorStoreSettings(engine="sqlite-vec"))
    with filled.database.reading() as connection:
        vectors.space(connection, filled.fingerprint).search(vector("text 7"), limit=1)
        with pytest.raises(apsw.SQLError, match="not authorized"):
            connection.execute("SELECT load_extension('/nowhere')")


def test_every_reader_connection_gets_the_extension(filled, vector, in_threads):
    vectors = SqliteVectorMemory(VectorStoreSettings(engine="sqlite-vec"))

    def ask(_):
        with filled.database.reading() as connection:
            space = vectors.space(connection, filled.fingerprint)
            return space.search(vector("text 7"), limit=1)

    assert {answer.engine for answer in in_threads(8, ask)} == {"sqlite-vec"}


def test_a_released_resident_engine_is_replaced_until_the_next_refresh(filled, vector):
    vectors, engines = SqliteVectorMemory(VectorStoreSettings()), []
    with filled.database.reading() as connection:
        space = vectors.space(connection, filled.fingerprint)
        for step in (space.refresh, vectors.release, space.refresh):
            step()
            engines.append(space.search(vector("text 7"), limit=1).engine)
    assert engines == ["resident", "sqlite-vec", "resident"]


def test_without_vectors_in_the_store_there_is_no_vector_search(library):
    assert library.database.open_vectors(VectorStoreSettings(enabled=False)) is None


def test_before_the_first_vector_the_status_knows_no_dimensions(library):
    library.write("memory/a.md", "one")
    with library.database.reading() as connection:
        vectors = SqliteVectorMemory(VectorStoreSettings())
        status = vectors.space(connection, library.fingerprint).status()
    assert (status.dimensions, status.bytes_per_chunk) == (None, 0)


def test_all_chunks_are_covered_until_one_comes_without_a_vector(filled):
    vectors = SqliteVectorMemory(VectorStoreSettings())

    def covers_all(dimensions=48):
        with filled.database.reading() as connection:
            return vectors.space(connection, filled.fingerprint).covers_all(dimensions)

    assert covers_all()
    assert covers_all()
    assert not covers_all(dimensions=32)
    filled.write("memory/b.md", "a new text")
    assert not covers_all()
    filled.embed()
    assert covers_all()
    filled.remove("memory/b.md")
    assert covers_all()
    filled.embed(vectors={"text 1": np.ones(32, np.float32) / np.sqrt(np.float32(32))})
    assert not covers_all()
    assert not covers_all(dimensions=32)
