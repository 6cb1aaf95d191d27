"""Which concepts of a query some terms stand for, and what share of it they are."""

import pytest

from backends.ranking.query import Concept, Weights

POUR = Concept(("pour", "pouring"))
BASIN = Concept(("basin", "pouring"))
CHARACTER = Concept(("水",), is_prefix=True)
EVERY = (POUR, BASIN, CHARACTER)


@pytest.fixture
def weights():
    counts = {"pour": 10, "pouring": 10, "basin": 1, "水": 10}
    return Weights(EVERY, counts, 100)


def test_a_term_that_two_concepts_share_stands_for_both(weights):
    assert weights.members(weights.concepts_in(["pouring"])) == (POUR, BASIN)
    assert weights.members(weights.concepts_in(["pour"])) == (POUR,)
    assert weights.members(weights.concepts_in(["basin"])) == (BASIN,)


def test_a_character_stands_for_the_terms_that_begin_with_it(weights):
    assert weights.members(weights.concepts_in(["水道", "pour"])) == (POUR, CHARACTER)
    assert weights.members(weights.concepts_in(["下水", "水", "水"])) == (CHARACTER,)


def test_concepts_count_once_however_often_they_occur(weights):
    once, twice = weights.concepts_in(["pour"]), weights.concepts_in(["pour", "tea", "pour"])
    assert once == twice


def test_the_share_of_all_concepts_is_one_and_that_of_none_is_zero(weights):
    assert weights.coverage(weights.concepts_in(["pouring", "水"])) == pytest.approx(1.0)
    assert weights.coverage(weights.concepts_in(["tea"])) == 0.0


def test_the_rarer_of_two_concepts_is_the_larger_share():
    rare, common = Concept(("weir",)), Concept(("note",))
    weights = Weights((rare, common), {"weir": 1, "note": 50}, 100)
    shares = [weights.coverage(weights.concepts_in([term])) for term in ("weir", "note")]
    assert shares[0] > shares[1] > 0
    assert sum(shares) == pytest.approx(1.0)
