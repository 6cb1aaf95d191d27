"""Keeping the resident vectors up to date with the index: the reads, and the mistakes that must not happen."""

from collections import Counter

import pytest

from backends.builtin.store.sqlite.vector_engines import NumpyScan

TEXTS = [f"text {number}" for number in range(300)]


def statements_of(library, engine):
    """Returns how often a refresh ran each kind of statement."""
    number = library.number
    seen = Counter()
    with library.database.reading() as connection:

        def note(_cursor, sql, _bindings):
            seen[" ".join(sql.split()[:3])] += 1
            return True

        connection.exec_trace = note
        assert engine.refresh(connection, number)
        connection.exec_trace = None
    return seen


def test_a_refresh_after_no_change_reads_neither_files_nor_vectors(filled, resident):
    filled.refresh(resident)
    assert statements_of(filled, resident) == {
        "SELECT digest, dimensions": 1,
        "SELECT value FROM": 1,
        'pragma "data_version"': 1,
    }


def test_a_refresh_reads_only_the_vectors_that_are_new(filled, resident):
    filled.refresh(resident)
    before = resident.resident_vectors
    filled.write("memory/new.md", "text 3", "fresh 1", "fresh 2")
    filled.embed()
    with filled.database.reading() as connection:
        loaded = []
        number = filled.number

        def note(_cursor, sql, bindings):
            if "SELECT id, vector" in sql:
                loaded.append(bindings)
            return True

        connection.exec_trace = note
        resident.refresh(connection, number)
        connection.exec_trace = None
    assert len(loaded) == 1
    assert resident.resident_vectors == before + 2
    assert filled.nearest(resident, "fresh 2", limit=1) == ["fresh 2"]
    assert filled.nearest(resident, "text 3", limit=2) == ["text 3", "text 3"]


def test_what_is_gone_is_given_back(filled, resident):
    filled.refresh(resident)
    full = resident.resident_bytes
    for start in range(0, 200, 10):
        filled.remove(f"memory/{start:03d}.md")
    filled.refresh(resident)
    assert resident.resident_vectors == 100
    assert resident.resident_bytes < 0.4 * full
    for start in range(200, 300, 10):
        filled.remove(f"memory/{start:03d}.md")
    filled.refresh(resident)
    assert resident.resident_vectors == 0
    assert filled.nearest(resident, "text 1") == []


def test_between_two_refreshes_nothing_wrong_is_found(filled, resident, vector):
    filled.refresh(resident)
    filled.write("memory/000.md", *TEXTS[1:10], "late")  # "text 0" goes, its row id may come back
    filled.embed()
    query = vector("text 0")
    stale = filled.search(resident, query, limit=300).hits
    now = {hit.excerpt_id: hit.cosine for hit in filled.search(NumpyScan(), query, limit=300).hits}
    assert len(stale) >= 299
    assert all(hit.cosine == pytest.approx(now[hit.excerpt_id]) for hit in stale)
    only = filled.search(resident, query, limit=300, file_ids=filled.file_ids("memory/000.md"))
    assert "text 0" not in filled.texts(only.hits)


def test_a_chunk_that_took_the_number_of_another_stays_behind_the_filter(filled, resident, vector):
    filled.write("memory/old.md", "kept", "dropped")
    filled.embed()
    filled.refresh(resident)
    filled.write("memory/old.md", "kept")
    filled.write("memory/new.md", "arrived")  # SQLite gives it the free number
    filled.embed()
    old = filled.file_ids("memory/old.md")
    hits = filled.search(resident, vector("arrived"), limit=10, file_ids=old).hits
    assert filled.texts(hits) == ["kept"]


def test_a_vector_that_takes_the_place_of_a_pruned_one_is_not_mistaken_for_it(
    filled, resident, vector
):
    filled.write("memory/new.md", "two")
    filled.embed(vectors={"two": -vector("three")})
    filled.refresh(resident)
    filled.write("memory/new.md", "three")
    assert filled.tidy(0) == 1  # the vector of "two", the newest
    filled.embed()
    filled.refresh(resident)
    assert filled.nearest(resident, "three", limit=1) == ["three"]


def test_a_new_index_in_the_place_of_the_old_one_is_read_anew(filled, resident, vector):
    filled.refresh(resident)
    paths = [f"memory/{start:03d}.md" for start in range(0, len(TEXTS), 10)]
    with filled.database.writing() as connection:
        for table in ("chunk_terms", "chunks", "files", "fingerprints", "meta"):
            connection.execute(f"DELETE FROM {table}")
    others = [f"other {number}" for number in range(10)]
    for number, path in enumerate(paths[:-1]):
        filled.write(path, *TEXTS[number * 10 : number * 10 + 10])
    filled.write(paths[-1], *others)
    filled.embed(*others, *TEXTS[:-10])  # the same numbers for other texts
    filled.refresh(resident)
    assert [filled.nearest(resident, text, limit=1) for text in others] == [
        [text] for text in others
    ]
