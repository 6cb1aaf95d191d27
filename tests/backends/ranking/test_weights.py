"""The concepts of a query that some terms represent, and their share of it."""

import pytest

from backends.ranking.query import Concept, QueryAnalyser, Weights
from backends.text.analyser import Analyser

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


def test_a_name_that_says_what_is_asked_fits_and_one_that_says_little_of_it_does_not(weigh):
    weights = weigh("how do I wire the build system")
    assert weights.fit("Wire the build system") == 1.0
    assert weights.fit("wire_build-system") == 1.0
    assert weights.fit("The build system") == pytest.approx((2 / 3) ** 3)
    assert weights.fit("The system") == weights.fit("Lunch") == weights.fit("") == 0.0


def test_a_name_that_is_an_identifier_fits_itself():
    for name in ("wire_build-system", "WireBuildSystem"):
        asked = QueryAnalyser(["english"]).analyse(name)
        counts = dict.fromkeys(asked.terms(), 10)
        assert Weights(asked.concepts, counts, 100, analyse=Analyser().terms).fit(name) == 1.0


def test_words_of_a_name_that_nobody_asked_for_count_against_it_but_stop_words_do_not(weigh):
    weights = weigh("build system")
    assert weights.fit("The build system") == 1.0
    assert weights.fit("Build system releases") == pytest.approx(2 / 3)


def test_a_name_is_known_by_its_stems():
    asked = QueryAnalyser(["english"]).analyse("configuring builds")
    counts = dict.fromkeys(asked.terms(), 10)
    assert Weights(asked.concepts, counts, 100).fit("Build configuration") < 0.1
    stemming = Weights(asked.concepts, counts, 100, analyse=Analyser().terms)
    assert stemming.fit("Build configuration") == 1.0
