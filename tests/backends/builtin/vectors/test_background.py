"""The distribution of a query's cosines, from a sample that is read again only when it changed."""

import numpy as np
import pytest

from backends.builtin.store.sqlite.vector_engines import (
    Extension,
    NumpyScan,
    SqliteScan,
    VectorQuery,
)
from backends.builtin.store.sqlite.vectors import background_of


@pytest.fixture
def measure(library):
    """Returns the measure of a query by a scan, by default a new one."""

    def of(query, scan=None):
        number = library.number
        with library.database.reading() as connection:
            scan = scan or NumpyScan()
            assert scan.problem(connection, number) is None
            return background_of(scan.sample(VectorQuery(connection, number, query)), len(query))

    return of


def test_without_vectors_there_is_no_background(library, measure, vector):
    library.write("memory/a.md", "text 1")
    assert measure(vector("text 1")) is None


def test_vectors_that_came_meanwhile_change_the_sample(library, measure, vector):
    scan = NumpyScan()
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.embed()
    before = measure(vector("text 1"), scan)
    library.write("memory/b.md", *(f"more {number}" for number in range(20)))
    library.embed()
    after = measure(vector("text 1"), scan)
    assert before != after == measure(vector("text 1"))


def test_vectors_that_are_gone_leave_the_sample(library, measure, vector):
    scan = NumpyScan()
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.write("memory/b.md", *(f"more {number}" for number in range(20)))
    library.embed()
    before = measure(vector("text 1"), scan)
    library.remove("memory/b.md")
    library.tidy(0)
    after = measure(vector("text 1"), scan)
    assert before != after == measure(vector("text 1"))


def test_an_unchanged_sample_is_kept_for_other_queries(library, measure, vector):
    scan = NumpyScan()
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.embed()
    measure(vector("text 1"), scan)
    assert measure(vector("text 2"), scan) == measure(vector("text 2"))
    assert measure(vector("text 2")) != measure(vector("text 1"))


def test_sqlite_vec_measures_the_same_background_as_numpy(library, measure, vector):
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.embed()
    library.spoil("text 3", b"short")
    library.spoil("text 4", np.zeros(48, np.float32).tobytes())
    library.spoil("text 5", np.full(48, np.inf, np.float32).tobytes())
    query = vector("a question")
    one, other = measure(query), measure(query, SqliteScan(Extension()))
    assert other.mean == pytest.approx(one.mean, abs=1e-6)
    assert other.deviation == pytest.approx(one.deviation, abs=1e-6)
    assert other.dimensions == one.dimensions == 48


def test_few_vectors_are_joined_by_one_at_a_right_angle():
    assert background_of([0.5, None, float("nan"), 0.7], 48).mean == pytest.approx(0.4)
    assert background_of([None, float("inf")], 48) is None
