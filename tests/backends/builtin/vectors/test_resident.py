"""The life of the resident vectors: loading, precision, refusal, release, many threads."""

import gc
import threading
import weakref

import numpy as np
import pytest
from structlog.testing import capture_logs

from backends.builtin.store.port import Unavailable
from backends.builtin.store.sqlite.resident import ResidentEngine
from backends.builtin.store.sqlite.vector_engines import VectorQuery

TEXTS = [f"text {number}" for number in range(300)]


def test_a_search_before_the_first_refresh_is_refused(filled, resident, vector):
    answer = filled.search(resident, vector("text 1"))
    assert answer == Unavailable("the vectors are not loaded yet")
    assert resident.resident_bytes == 0
    assert filled.refresh(resident)
    assert filled.nearest(resident, "text 1", limit=1) == ["text 1"]


def test_a_quarter_of_the_memory_of_float32_is_enough(library, resident, vector):
    texts = TEXTS[:100]
    library.write("memory/a.md", *texts)
    library.embed(vectors={text: vector(text, 1536) for text in texts})
    library.refresh(resident)
    assert resident.resident_vectors == 100
    assert resident.resident_bytes <= 0.3 * 100 * 1536 * 4


@pytest.mark.parametrize("outliers", [0, 3], ids=["even", "outliers"])
def test_int8_with_rescoring_finds_what_float32_finds(library, resident, outliers):
    """This also holds where a few numbers are far larger than the others, as in many models."""
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((3000, 256)).astype(np.float32)
    vectors[:, :outliers] *= 25
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [f"row {number}" for number in range(len(vectors))]
    library.write("memory/a.md", *texts)
    library.embed(vectors=dict(zip(texts, vectors, strict=True)))
    library.refresh(resident)
    found = 0
    for query in vectors[rng.integers(0, 3000, 40)] + rng.normal(0, 0.03, (40, 256)):
        unit = (query / np.linalg.norm(query)).astype(np.float32)
        exact = {texts[place] for place in np.argsort(-(vectors @ unit))[:10]}
        found += len(exact & set(library.nearest(resident, unit, limit=10)))
    assert found / 400 >= 0.98


def test_a_scan_ahead_serves_its_own_query_and_only_while_its_snapshot_is_in_use(
    filled, resident, vector
):
    filled.refresh(resident)
    query, same = vector("text 1"), vector("text 1")
    resident.scan_ahead(query)
    assert filled.search(resident, query) == filled.search(resident, same)
    resident.scan_ahead(query)
    filled.write("memory/late.md", "late")
    filled.embed()
    filled.refresh(resident)
    resident.scan_ahead(vector("late"))
    assert filled.nearest(resident, "late", limit=1) == ["late"]
    assert filled.search(resident, query) == filled.search(resident, same)


def test_a_scan_of_a_search_that_was_given_up_holds_no_vectors_that_are_not_in_use(
    filled, resident, vector
):
    filled.refresh(resident)
    resident.scan_ahead(vector("given up"))
    before = weakref.ref(resident._snapshot)
    filled.write("memory/late.md", "late")
    filled.embed()
    filled.refresh(resident)
    gc.collect()
    assert before() is None


def test_scanning_ahead_without_vectors_or_with_others_does_nothing(filled, resident, vector):
    resident.scan_ahead(vector("text 1"))
    filled.refresh(resident)
    resident.scan_ahead(vector("text 1", 7))
    assert filled.nearest(resident, "text 1", limit=1) == ["text 1"]


def test_more_than_the_permitted_memory_is_refused_with_numbers_and_said_once(filled):
    engine = ResidentEngine(10_000)
    with capture_logs() as records:
        assert not filled.refresh(engine)
        assert not filled.refresh(engine)
    assert [record["event"] for record in records] == ["vectors not held in memory"]
    number = filled.number
    with filled.database.reading() as connection:
        problem = engine.problem(connection, number)
    assert problem == "1 MiB are needed and store.vector.maxResidentMB permits 0"
    assert engine.resident_bytes == 0


def test_an_index_that_outgrows_the_memory_is_let_go_and_taken_back_when_it_fits(library, vector):
    engine = ResidentEngine(12_000)
    library.write("memory/a.md", *TEXTS[:100])
    library.embed()
    assert library.refresh(engine)
    library.write("memory/b.md", *TEXTS[100:])
    library.embed()
    assert not library.refresh(engine)
    assert engine.resident_bytes == 0
    assert isinstance(library.search(engine, vector("text 1")), Unavailable)
    library.remove("memory/b.md")
    assert library.refresh(engine)
    assert library.nearest(engine, "text 1", limit=1) == ["text 1"]


def test_released_vectors_are_loaded_again_by_the_next_refresh(filled, resident, vector):
    filled.refresh(resident)
    resident.release()
    assert resident.resident_bytes == 0
    assert isinstance(filled.search(resident, vector("text 1")), Unavailable)
    assert filled.refresh(resident)
    assert filled.nearest(resident, "text 1", limit=1) == ["text 1"]


def during(library, engine, action):
    """Refreshes, and does something in the middle of it. Returns the result of the refresh."""
    number, done = library.number, []

    def interrupt():
        if not done:
            done.append(action())
        return False

    with library.database.reading() as connection:
        connection.set_progress_handler(interrupt, 500)
        result = engine.refresh(connection, number)
        connection.set_progress_handler(None)
    assert done
    return result


def test_a_release_during_a_refresh_wins(filled, resident):
    assert not during(filled, resident, resident.release)
    assert resident.resident_bytes == 0
    assert filled.refresh(resident)


def test_a_release_at_the_last_moment_of_a_refresh_wins_too(filled, resident):
    number = filled.number

    def release(_cursor, sql, _bindings):
        if "max(id)" in sql:  # asked last, when all vectors are there
            resident.release()
        return True

    with filled.database.reading() as connection:
        connection.exec_trace = release
        assert not resident.refresh(connection, number)
        connection.exec_trace = None
    assert resident.resident_bytes == 0


def test_a_search_during_the_first_refresh_is_refused_and_during_a_later_one_answered(
    filled, resident, vector
):
    answers = []
    ask = lambda: answers.append(filled.search(resident, vector("text 1"), limit=1))  # noqa: E731
    assert during(filled, resident, ask)
    filled.write("memory/new.md", *(f"more {number}" for number in range(100)))
    filled.embed()
    assert during(filled, resident, ask)
    first, second = answers
    assert isinstance(first, Unavailable)
    assert filled.texts(second.hits) == ["text 1"]


def test_a_second_refresh_at_the_same_time_does_nothing_and_does_not_wait(filled, resident):
    second = []
    assert during(filled, resident, lambda: second.append(filled.refresh(resident)))
    assert second == [False]


def test_another_provider_takes_the_place_of_the_first(filled, resident, vector):
    filled.refresh(resident)
    first = filled.number
    filled.fingerprint = type(filled.fingerprint)(provider="other", model="m", endpoint="e")
    filled.embed(vectors={text: vector(text, 16) for text in TEXTS[:40]})
    assert filled.refresh(resident)
    assert resident.resident_vectors == 40
    with filled.database.reading() as connection:
        answer = resident.search(VectorQuery(connection, first, vector("text 1"), limit=1))
    assert isinstance(answer, Unavailable)


@pytest.fixture
def while_others_read(filled, resident, vector):
    """Does some work while eight threads search and one refreshes; returns their wrong results."""

    def run(work):
        stop, faults = threading.Event(), []
        number_of = filled.number

        def read(name):
            while not stop.is_set():
                with filled.database.reading() as connection:
                    answer = resident.search(
                        VectorQuery(connection, number_of, vector(name), limit=3)
                    )
                    best = connection.execute(
                        "SELECT text FROM chunks JOIN excerpts AS x ON x.chunk_id = chunks.id"
                        " WHERE x.id = ?",
                        (answer.hits[0].excerpt_id,),
                    ).get
                if best != name or len(answer.hits) != 3:
                    faults.append((name, best, answer))

        def follow():
            while not stop.is_set():
                filled.refresh(resident)

        threads = [threading.Thread(target=read, args=(text,)) for text in TEXTS[:80:10]]
        threads.append(threading.Thread(target=follow))
        for thread in threads:
            thread.start()
        try:
            work()
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        return faults

    return run


def test_readers_find_what_is_there_while_a_writer_adds_and_a_refresher_follows(
    filled, resident, while_others_read
):
    def work():
        for number in range(25):
            filled.write(f"memory/new {number}.md", f"new {number} a", f"new {number} b")
            filled.embed()
            if number % 5 == 4:
                filled.remove(f"memory/new {number - 2}.md")
                filled.tidy(0)

    filled.refresh(resident)
    assert while_others_read(work) == []
    filled.refresh(resident)
    for number in (0, 24):
        assert filled.nearest(resident, f"new {number} b", limit=1) == [f"new {number} b"]
    assert resident.resident_vectors >= 300 + 40


def test_chunks_that_came_since_the_last_refresh_are_found(filled, resident, vector):
    filled.refresh(resident)
    filled.write("memory/new.md", "a new text", "text 7")
    assert filled.nearest(resident, "text 7", limit=2) == ["text 7", "text 7"]
    filled.embed()
    assert filled.nearest(resident, "a new text", limit=1) == ["a new text"]
    only = filled.file_ids("memory/new.md")
    assert filled.nearest(resident, "a new text", file_ids=only) == ["a new text", "text 7"]


def test_a_text_embedded_anew_since_the_last_refresh_has_its_new_vector(filled, resident, vector):
    filled.refresh(resident)
    filled.embed(vectors={"text 7": vector("elsewhere")})
    assert filled.nearest(resident, "elsewhere", limit=1) == ["text 7"]


def test_deleted_chunks_neither_return_nor_crowd_out_others(filled, resident, vector):
    filled.refresh(resident)
    for start in range(0, 290, 10):
        filled.remove(f"memory/{start:03d}.md")
    found = filled.nearest(resident, "text 7", limit=10)
    assert sorted(found) == sorted(TEXTS[290:])


def test_the_number_of_a_deleted_chunk_is_not_given_to_another(filled, resident, vector):
    filled.refresh(resident)
    filled.remove("memory/290.md")
    filled.write("memory/renamed.md", *TEXTS[290:])
    assert filled.nearest(resident, "text 295", limit=1) == ["text 295"]


def test_an_engine_that_is_far_behind_leaves_the_search_to_others(filled, resident, vector):
    filled.refresh(resident)
    filled.write("memory/new.md", *(f"new {number}" for number in range(2_001)))
    assert isinstance(filled.search(resident, vector("text 7")), Unavailable)
    filled.refresh(resident)
    assert filled.nearest(resident, "text 7", limit=1) == ["text 7"]
