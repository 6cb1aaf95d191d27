"""The properties of every engine, and the agreement of all of them."""

import numpy as np
import pytest

from backends.builtin.store.port import VectorAnswer
from backends.builtin.store.sqlite.vector_engines import (
    Extension,
    NumpyScan,
    SqliteScan,
    VectorQuery,
)
from providers.provider_interface import Fingerprint

TEXTS = [f"text {number}" for number in range(400)]


@pytest.fixture
def filled(library):
    """40 files of ten chunks, all embedded."""
    for start in range(0, len(TEXTS), 10):
        library.write(f"memory/{start:03d}.md", *TEXTS[start : start + 10])
    library.embed()
    return library


def answer_of(library, engine, query, **options):
    number = library.number
    with library.database.reading() as connection:
        return engine.search(VectorQuery(connection, number, query, **{"limit": 10} | options))


def test_all_engines_find_the_same_chunks_with_the_same_cosines(filled, loaded, vector):
    engines = loaded()
    stored = np.stack([vector(text) for text in TEXTS]).astype(np.float64)
    for number in range(20):
        query = vector(f"query {number}")
        exact = stored @ query
        best = np.argsort(-exact)[:10]
        for engine in engines:
            answer = answer_of(filled, engine, query)
            assert answer.engine == engine.name
            assert answer.reason is None
            assert filled.texts(answer.hits) == [TEXTS[place] for place in best]
            cosines = [hit.cosine for hit in answer.hits]
            np.testing.assert_allclose(cosines, exact[best], atol=1e-6)


def test_a_text_finds_itself_first_with_a_cosine_of_one(filled, engine, vector):
    hits = answer_of(filled, engine, vector("text 77"), limit=1).hits
    assert filled.texts(hits) == ["text 77"]
    assert hits[0].cosine == pytest.approx(1.0, abs=1e-6)
    assert hits[0].cosine <= 1.0


def test_a_limit_beyond_the_number_of_chunks_gives_all_of_them(filled, engine):
    found = filled.nearest(engine, "anything", limit=1000)
    assert sorted(found) == sorted(TEXTS)


def test_a_filter_limits_the_search_and_not_its_result(filled, engine, vector):
    paths = ["memory/050.md", "memory/390.md"]
    permitted = TEXTS[50:60] + TEXTS[390:400]
    query = vector("text 0")
    expected = sorted(permitted, key=lambda text: -float(vector(text) @ query))
    found = filled.nearest(engine, "text 0", limit=15, file_ids=filled.file_ids(*paths))
    assert found == expected[:15]


def test_a_filter_that_permits_no_file_finds_nothing(filled, engine):
    assert filled.nearest(engine, "text 0", file_ids=[]) == []
    assert filled.nearest(engine, "text 0", file_ids=[12345]) == []


def test_every_chunk_of_a_shared_text_is_a_hit_in_the_order_of_the_ids(library, engine, vector):
    library.write("memory/a.md", "same", "other")
    library.write("memory/b.md", "same")
    library.write("memory/c.md", "same", "more")
    library.embed()
    hits = answer_of(library, engine, vector("same"), limit=3).hits
    assert library.texts(hits) == ["same", "same", "same"]
    ids = [hit.excerpt_id for hit in hits]
    assert ids == sorted(ids)
    only = library.nearest(engine, "same", file_ids=library.file_ids("memory/b.md"))
    assert only == ["same"]


def test_equal_vectors_of_many_texts_come_in_the_order_of_the_chunks(library, engine, vector):
    texts = [f"twin {number}" for number in range(300)]
    library.write("memory/twins.md", *texts)
    library.embed(vectors=dict.fromkeys(reversed(texts), vector("twin")))
    assert library.nearest(engine, "twin", limit=7) == texts[:7]
    assert library.nearest(engine, "elsewhere", limit=7) == texts[:7]


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x00",
        np.zeros(48, np.float32).tobytes(),
        np.full(48, np.nan, np.float32).tobytes(),
        np.full(48, np.inf, np.float32).tobytes(),
        np.full(48, -np.inf, np.float32).tobytes(),
        np.r_[np.nan, np.ones(47)].astype(np.float32).tobytes(),
        np.full(48, 1e-30, np.float32).tobytes(),
        np.ones(47, np.float32).tobytes(),
        np.ones(49, np.float32).tobytes(),
        np.ones(48, np.float64).tobytes(),
    ],
    ids="empty byte zero nan inf -inf one-nan tiny short long double".split(),
)
def test_a_broken_vector_in_the_table_never_ranks(filled, engine, blob):
    filled.spoil("text 5", blob)
    found = filled.nearest(engine, "text 5", limit=1000)
    assert sorted(found) == sorted(set(TEXTS) - {"text 5"})
    some = filled.file_ids("memory/000.md")
    assert sorted(filled.nearest(engine, "text 5", file_ids=some)) == sorted(
        set(TEXTS[:10]) - {"text 5"}
    )


@pytest.mark.parametrize("scan", [SqliteScan(Extension()), NumpyScan()], ids=lambda one: one.name)
def test_the_cosines_of_some_chunks_are_those_of_the_search(filled, vector, scan):
    query = vector("a question")
    filled.spoil("text 5", b"short")
    everything = answer_of(filled, scan, query, limit=1000).hits
    number = filled.number
    with filled.database.reading() as connection:
        assert scan.problem(connection, number) is None
        asked = VectorQuery(connection, number, query)

        def measured(ids):
            return scan.cosines(asked._replace(excerpt_ids=ids))

        cosines = measured([hit.excerpt_id for hit in everything[:20]])
        assert cosines == {hit.excerpt_id: hit.cosine for hit in everything[:20]}
        broken = connection.execute(
            "SELECT x.id FROM excerpts AS x JOIN chunks AS c ON c.id = x.chunk_id"
            " WHERE c.text = 'text 5'"
        ).get
        assert measured([broken, 123_456]) == {}
        assert measured([]) == {}


def test_when_every_vector_is_broken_nothing_is_found(library, engine):
    library.write("memory/a.md", "one", "two")
    library.embed()
    library.spoil("one", b"")
    library.spoil("two", np.zeros(48, np.float32).tobytes())
    assert library.nearest(engine, "one") == []


def test_a_vector_of_another_length_than_one_ranks_by_its_direction(filled, engine, vector):
    filled.spoil("text 5", (vector("text 5") * 1000).tobytes())
    assert filled.nearest(engine, "text 5", limit=1) == ["text 5"]


def test_a_query_of_other_dimensions_gives_no_hits_and_a_reason(filled, engine, vector):
    answer = answer_of(filled, engine, vector("text 0", 32))
    assert isinstance(answer, VectorAnswer)
    assert answer.hits == []
    assert answer.reason == "the query has 32 dimensions and the stored vectors have 48"


def test_a_provider_without_vectors_gives_no_hits(library, resident, engine, vector):
    library.write("memory/a.md", "one")
    answer = answer_of(library, engine, vector("one"))
    reason = answer.reason or ""
    assert "no vectors of this provider" in reason or "not loaded" in reason


def test_what_changed_in_the_index_is_followed(library, engine):
    library.write("memory/a.md", "one", "two", "three")
    library.write("memory/b.md", "four")
    library.embed()
    assert library.nearest(engine, "two", limit=1) == ["two"]
    library.write("memory/a.md", "one", "three", "five")
    assert library.nearest(engine, "two", limit=9) == library.nearest(engine, "two", limit=3)
    library.embed()
    assert library.nearest(engine, "five", limit=1) == ["five"]
    assert len(library.nearest(engine, "two", limit=9)) == 4
    library.remove("memory/b.md")
    assert sorted(library.nearest(engine, "four", limit=9)) == ["five", "one", "three"]
    library.write("memory/c.md", "four")
    assert library.nearest(engine, "four", limit=1) == ["four"]


def test_vectors_of_another_provider_take_no_part(filled, engine, vector, blend):
    mine = filled.fingerprint
    filled.fingerprint = Fingerprint(provider="other", model="m", endpoint="e")
    filled.embed(vectors={text: vector("text 0") for text in TEXTS[:50]})
    found = filled.nearest(engine, "text 0", limit=1000)
    assert sorted(found) == sorted(TEXTS[:50])
    filled.fingerprint = mine
    assert filled.nearest(engine, blend("text 7", "text 0", 0.1), limit=1) == ["text 7"]


def test_a_host_that_changed_its_dimensions_starts_anew(filled, engine, vector):
    filled.nearest(engine, "text 0")
    filled.embed(vectors={text: vector(text, 32) for text in TEXTS[:20]})
    answer = answer_of(filled, engine, vector("text 3", 32), limit=1000)
    assert sorted(filled.texts(answer.hits)) == sorted(TEXTS[:20])
    assert filled.texts(answer.hits)[0] == "text 3"


def test_a_vector_that_no_chunk_uses_is_not_found(filled, engine):
    filled.embed("an orphan")
    assert "an orphan" not in filled.nearest(engine, "an orphan", limit=1000)
    assert len(filled.nearest(engine, "an orphan", limit=1000)) == len(TEXTS)
