"""Two lanes become one order and one score."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ranking.fusion import (
    KEYWORDS_ONLY,
    VECTOR_TRUST,
    CosineScale,
    Lanes,
    calibrate,
)

SCALE = CosineScale(lowest=0.2, highest=0.8)
BOTH = Lanes.of(0.3, 0.7)
shares = st.floats(0, 1)


@pytest.fixture
def notes(candidates_of):
    """One candidate for each text, with a cosine or without."""

    def make(*pairs):
        found = []
        for number, (text, cosine) in enumerate(pairs, 1):
            words = 0.0 if cosine is not None and "boiler" not in text else 1.0
            (one,) = candidates_of(text, file_id=number, bm25=words)
            found.append(one._replace(cosine=cosine))
        return found

    return make


def texts(ranked):
    return [one.passage.text for one in ranked]


def test_the_documented_weights_give_vectors_a_fifteenth():
    assert Lanes.of(0.3, 0.7).vector == pytest.approx(0.0654, abs=1e-3)
    assert VECTOR_TRUST < 1


def test_a_lane_that_is_given_everything_keeps_everything():
    assert Lanes.of(0, 1) == (0, 1)
    assert Lanes.of(1, 0) == (1, 0)
    assert Lanes.of(0, 0) == KEYWORDS_ONLY


@given(shares, shares)
def test_lanes_sum_to_one(text, vector):
    assert sum(Lanes.of(text, vector)) == pytest.approx(1)


@settings(derandomize=True)
@given(st.floats(-1, 1), st.floats(-1, 1), st.none() | st.floats(-1, 1))
def test_a_place_on_the_scale_is_between_nothing_and_everything(low, high, cosine):
    assert 0 <= CosineScale(low, high).place(cosine) <= 1


def test_the_scale_runs_from_its_last_candidate_to_its_first():
    assert [SCALE.place(cosine) for cosine in (None, -1, 0.2, 0.5, 0.8, 1)] == pytest.approx(
        [0, 0, 0, 0.5, 1, 1]
    )


def test_where_all_cosines_are_equal_all_count_the_same():
    level = CosineScale(0.7, 0.7)
    assert [level.place(cosine) for cosine in (None, 0.6, 0.7)] == [0, 0, 1]


def test_a_word_beats_the_nearest_vector(notes, weigh, rank):
    found = notes(("A note about the sea.", 0.8), ("The boiler is old.", 0.2))
    ranked = rank(found, weigh("boiler"), lanes=BOTH, cosines=SCALE)
    assert texts(ranked) == ["The boiler is old.", "A note about the sea."]
    assert ranked[0].score > ranked[1].score > 0


def test_of_two_equal_texts_scores_the_nearer_vector_wins(notes, weigh, rank):
    found = notes(("The boiler is old.", 0.3), ("The boiler is new.", 0.7))
    ranked = rank(found, weigh("boiler"), lanes=BOTH, cosines=SCALE)
    assert texts(ranked) == ["The boiler is new.", "The boiler is old."]


def test_a_missing_vector_is_no_reason_to_drop_a_word(notes, weigh, rank):
    found = notes(("The boiler is old.", None), ("A note about the sea.", 0.8))
    ranked = rank(found, weigh("boiler"), lanes=BOTH, cosines=SCALE)
    assert texts(ranked)[0] == "The boiler is old."
    assert ranked[0].vector_score is None
    assert ranked[0].score > 0.35


def test_without_the_vector_lane_cosines_do_not_matter(notes, weigh, rank):
    near, far = notes(("The boiler is old.", 0.9), ("The boiler is old, too.", 0.1))
    plain = rank([near._replace(cosine=None), far._replace(cosine=None)], weigh("boiler"))
    assert texts(rank([near, far], weigh("boiler"))) == texts(plain)


def test_what_neither_lane_supports_is_no_result(notes, weigh, rank):
    found = notes(("A note about the sea.", 0.2), ("The boiler is old.", 0.3))
    ranked = rank(found, weigh("boiler"), lanes=BOTH, cosines=SCALE)
    assert texts(ranked) == ["The boiler is old."]


def test_the_score_of_a_find_by_vector_alone_is_its_cosine(notes, weigh, rank):
    (ranked,) = rank(
        notes(("A note about the sea.", 0.8)), weigh("boiler"), lanes=BOTH, cosines=SCALE
    )
    assert ranked.score == pytest.approx(0.8)
    assert (ranked.text_score, ranked.vector_score) == (0, pytest.approx(0.8))


@pytest.mark.parametrize("strategy", ["weighted", "rrf"])
def test_scores_never_rise_down_the_list(notes, weigh, rank, strategy):
    found = notes(
        *((f"The boiler number {n}.", n / 40) for n in range(12)),
        *((f"A note about ship {n}.", 0.2 + n / 20) for n in range(12)),
    )
    ranked = rank(found, weigh("boiler number"), lanes=BOTH, cosines=SCALE, strategy=strategy)
    scores = [one.score for one in ranked]
    assert len(scores) > 15
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_by_rank_the_second_counts_three_quarters_of_the_first(notes, weigh, rank):
    found = notes(("A note about the sea.", 0.8), ("A note about ships.", 0.7))
    first, second = rank(found, weigh("boiler"), lanes=Lanes(0, 1), cosines=SCALE, strategy="rrf")
    assert second.fused / first.fused == pytest.approx(3 / 4)


@settings(derandomize=True)
@given(shares, shares)
def test_calibrating_keeps_the_order_and_the_ends(one, other):
    assert 0 <= calibrate(one) <= 1
    assert (one <= other) == (calibrate(one) <= calibrate(other)) or one == pytest.approx(other)
    assert (calibrate(0), calibrate(1)) == (0, 1)
