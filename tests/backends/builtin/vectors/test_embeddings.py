"""The stored vectors: those that are missing, refused, in use, and free to go."""

import numpy as np
import pytest

from backends.builtin.store.port import LONGEST_RETRY_MS
from backends.builtin.store.sqlite.embeddings import (
    SqliteEmbeddings,
    current_serial,
    fingerprint_id,
    reserve_ids,
    vector_bytes_per_chunk,
)
from providers.provider_interface import Fingerprint

OTHER = Fingerprint(provider="other", model="m", endpoint="e")


def read(library, method, *arguments, **options):
    with library.database.view() as view:
        return method(view.embeddings, *arguments, **options)


def write(library, method, *arguments, **options):
    with library.database.writer() as writer:
        return method(writer.embeddings, *arguments, **options)


def of_file(library, function, *arguments):
    with library.database.writing() as connection:
        return function(connection, *arguments)


def pending(library, limit=100, fingerprint=None):
    rows = read(library, SqliteEmbeddings.pending, fingerprint or library.fingerprint, limit=limit)
    return [text for _, text in rows]


def stored(library):
    with library.database.reading() as connection:
        return {row[0] for row in connection.execute("SELECT text_hash FROM embeddings")}


def fail(library, text, key, reason="refused"):
    write(library, SqliteEmbeddings.record_failures, library.fingerprint, [(key(text), reason)])


def test_texts_without_a_vector_come_once_each_the_newest_files_first(library):
    library.write("memory/old.md", "one", "two")
    library.write("memory/mid.md", "three", "two")
    library.write("memory/new.md", "four", "one")
    assert pending(library) == ["four", "one", "three", "two"]
    assert pending(library, limit=2) == ["four", "one"]
    library.embed("four", "two")
    assert pending(library) == ["one", "three"]
    assert pending(library, fingerprint=OTHER) == ["four", "one", "three", "two"]


def test_a_refused_text_is_left_out_until_its_time(library, key):
    library.write("memory/a.md", "one", "two")
    fail(library, "one", key)
    assert pending(library) == ["two"]
    with library.database.writing() as connection:
        connection.execute(
            "UPDATE embedding_failures SET retry_at_ms = retry_at_ms - ?",
            (LONGEST_RETRY_MS + 1000,),
        )
    assert pending(library) == ["one", "two"]


def test_a_vector_ends_the_failure_of_its_text(library, key):
    library.write("memory/a.md", "one", "two")
    fail(library, "one", key)
    fail(library, "one", key, "again")
    with library.database.reading() as connection:
        assert list(connection.execute("SELECT reason, attempts FROM embedding_failures")) == [
            ("again", 2)
        ]
    library.embed("one")
    assert read(library, SqliteEmbeddings.coverage, library.fingerprint).failed == 0


def test_coverage_counts_different_texts_of_the_index(library, key):
    library.write("memory/a.md", "one", "two", "three")
    library.write("memory/b.md", "one")
    library.embed("one", "not in the index")
    fail(library, "two", key)
    fail(library, "not in the index either", key)
    coverage = read(library, SqliteEmbeddings.coverage, library.fingerprint)
    assert (coverage.total, coverage.embedded, coverage.failed) == (3, 1, 1)
    assert (coverage.stored, coverage.dimensions) == (2, 48)
    assert read(library, SqliteEmbeddings.coverage, OTHER).embedded == 0


@pytest.mark.parametrize(
    "unfit",
    [
        np.zeros(48, np.float32),
        np.full(48, np.nan, np.float32),
        np.ones(48, np.float32),
        np.ones(12, np.float32) / np.sqrt(np.float32(12)),
    ],
    ids="zero nan long short".split(),
)
def test_a_vector_that_is_none_is_a_failure_of_its_text_and_spoils_no_other(library, unfit):
    library.write("memory/a.md", "one", "two")
    library.embed("one", vectors={"two": unfit})
    coverage = read(library, SqliteEmbeddings.coverage, library.fingerprint)
    assert (coverage.embedded, coverage.failed) == (1, 1)
    assert pending(library) == []


def test_vectors_are_stored_as_little_endian_float32(library, vector, key):
    library.embed(vectors={"one": vector("one").astype(">f4")})
    with library.database.reading() as connection:
        blob = connection.execute("SELECT vector FROM embeddings").get
    assert blob == vector("one").astype("<f4").tobytes()


def test_a_changed_number_of_dimensions_drops_the_vectors_of_before(library, vector):
    library.write("memory/a.md", "one", "two")
    library.embed()
    library.embed(vectors={"one": vector("one", 16)})
    coverage = read(library, SqliteEmbeddings.coverage, library.fingerprint)
    assert (coverage.embedded, coverage.stored, coverage.dimensions) == (1, 1, 16)


def test_pruning_takes_first_what_came_out_of_use_first(library, key):
    library.write("memory/a.md", "a")
    library.write("memory/b.md", "b")
    library.write("memory/c.md", "c")
    library.embed()
    library.remove("memory/b.md")
    library.tidy(None)
    with library.database.writing() as connection:  # some time ago
        connection.execute("UPDATE embeddings SET used_at_ms = 1 WHERE used_at_ms > 0")
    library.remove("memory/a.md")
    assert library.tidy(3) == 0
    assert library.tidy(2) == 1
    assert stored(library) == {key("a"), key("c")}
    assert library.tidy(0) == 1
    assert stored(library) == {key("c")}
    assert library.tidy(0) == 0


def test_a_vector_that_came_back_into_use_counts_from_its_next_end(library, key):
    library.write("memory/a.md", "a")
    library.write("memory/b.md", "b")
    library.embed()
    library.remove("memory/a.md")
    library.tidy(None)
    with library.database.writing() as connection:
        connection.execute("UPDATE embeddings SET used_at_ms = 1 WHERE used_at_ms > 0")
    library.write("memory/a.md", "a")
    library.remove("memory/b.md")
    library.tidy(None)
    library.remove("memory/a.md")
    with library.database.writing() as connection:
        connection.execute("UPDATE embeddings SET used_at_ms = 2 WHERE used_at_ms > 2")
    library.tidy(1)
    assert stored(library) == {key("a")}


def test_without_a_bound_nothing_is_pruned(library):
    library.embed("one", "two")
    assert library.tidy(None) == 0
    assert len(stored(library)) == 2


def test_noting_what_is_in_use_writes_only_what_changed(library):
    library.write("memory/a.md", "one", "two", "three")
    library.write("memory/b.md", "four")
    library.embed()
    with library.database.writing() as connection:
        before = connection.total_changes()
        SqliteEmbeddings(connection).refresh_use(SqliteEmbeddings(connection).fallen_out_of_use())
        assert connection.total_changes() == before
    library.remove("memory/b.md")
    with library.database.writing() as connection:
        before = connection.total_changes()
        SqliteEmbeddings(connection).refresh_use(SqliteEmbeddings(connection).fallen_out_of_use())
        SqliteEmbeddings(connection).refresh_use(SqliteEmbeddings(connection).fallen_out_of_use())
        assert connection.total_changes() == before + 1


def test_superseded_providers_go_with_all_of_their_vectors(library, vector, key):
    library.write("memory/a.md", "one")
    library.embed()
    write(library, SqliteEmbeddings.put, OTHER, [(key("one"), vector("one", 16))])
    write(library, SqliteEmbeddings.drop_superseded, [OTHER])
    assert of_file(library, fingerprint_id, library.fingerprint) is None
    coverage = read(library, SqliteEmbeddings.coverage, OTHER)
    assert (coverage.embedded, coverage.stored) == (1, 1)


def test_numbers_of_vectors_are_never_given_again(library):
    first = of_file(library, reserve_ids, 3)
    assert list(first) == [1, 2, 3]
    assert list(of_file(library, reserve_ids, 2)) == [4, 5]
    assert of_file(library, current_serial).last == 5
    library.embed("one")
    assert library.tidy(0) == 1
    assert list(of_file(library, reserve_ids, 1)) == [7]


def test_two_index_files_never_share_an_epoch(library, tmp_path):
    other = type(library)(tmp_path / "other.sqlite")
    epochs = {of_file(each, current_serial).epoch for each in (library, other)}
    assert epochs == {""}
    for each in (library, other):
        of_file(each, reserve_ids, 1)
    assert len({of_file(each, current_serial).epoch for each in (library, other)}) == 2
    other.database.close()


def test_the_vector_bytes_of_a_chunk_are_those_of_all_numbers(library, vector, key):
    assert of_file(library, vector_bytes_per_chunk) is None
    library.write("memory/a.md", "one", "two", "three", "four")
    assert of_file(library, vector_bytes_per_chunk) == 0
    library.embed("one", "two")
    write(library, SqliteEmbeddings.put, OTHER, [(key("one"), vector("one", 16))])
    assert of_file(library, vector_bytes_per_chunk) == (2 * 48 * 4 + 16 * 4) / 4


def test_a_vector_that_came_back_into_use_meanwhile_is_not_noted_as_unused(library):
    library.write("memory/a.md", "one", "two")
    library.embed()
    library.remove("memory/a.md")
    fallen = read(library, SqliteEmbeddings.fallen_out_of_use)
    assert len(fallen) == 2
    library.write("memory/b.md", "one")
    write(library, SqliteEmbeddings.refresh_use, fallen)
    assert len(read(library, SqliteEmbeddings.fallen_out_of_use)) == 0
    assert write(library, SqliteEmbeddings.prune, 0) == 1
