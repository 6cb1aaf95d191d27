"""How high a query's cosines are at large, by a sample that is read again only when it changed."""

import pytest

from backends.builtin.store.sqlite.vectors.select import Sampler


@pytest.fixture
def measure(library):
    """What a sampler, by default a new one, says of a query."""

    def of(query, sampler=None):
        number = library.number
        with library.database.reading() as connection:
            return (sampler or Sampler()).background(connection, number, query)

    return of


def test_without_vectors_there_is_no_background(library, measure, vector):
    library.write("memory/a.md", "text 1")
    assert measure(vector("text 1")) is None


def test_vectors_that_came_meanwhile_change_the_sample(library, measure, vector):
    sampler = Sampler()
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.embed()
    before = measure(vector("text 1"), sampler)
    library.write("memory/b.md", *(f"more {number}" for number in range(20)))
    library.embed()
    after = measure(vector("text 1"), sampler)
    assert before != after == measure(vector("text 1"))


def test_vectors_that_are_gone_leave_the_sample(library, measure, vector):
    sampler = Sampler()
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.write("memory/b.md", *(f"more {number}" for number in range(20)))
    library.embed()
    before = measure(vector("text 1"), sampler)
    library.remove("memory/b.md")
    library.tidy(0)
    after = measure(vector("text 1"), sampler)
    assert before != after == measure(vector("text 1"))


def test_an_unchanged_sample_is_kept_for_other_queries(library, measure, vector):
    sampler = Sampler()
    library.write("memory/a.md", *(f"text {number}" for number in range(20)))
    library.embed()
    measure(vector("text 1"), sampler)
    assert measure(vector("text 2"), sampler) == measure(vector("text 2"))
    assert measure(vector("text 2")) != measure(vector("text 1"))
