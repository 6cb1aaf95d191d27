"""Two lanes become one order and one score."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backends.ranking.evidence import Background, LaneWeights
from backends.ranking.fusion import PassageRanker, calibrate
from backends.ranking.learnt import EVEN, LEAST_SCORE, score_of
from backends.ranking.lines import Excerpt

BACKGROUND = Background(mean=0.2, deviation=0.15, dimensions=384)
BOTH = LaneWeights.of(0.3, 0.7)
shares = st.floats(0, 1)


@pytest.fixture
def notes(candidates_of):
    """One candidate for each text, with a cosine or without."""

    def make(*pairs):
        found = []
        for number, (text, cosine) in enumerate(pairs, 1):
            (one,) = candidates_of(text, file_id=number, bm25=1.0 if "boiler" in text else 0.0)
            whole = () if cosine is None else (Excerpt(0, len(text), cosine),)
            found.append(replace(one, excerpts=whole))
        return found

    return make


@pytest.fixture
def both(rank, weigh):
    """The passages of both lanes for a query."""

    def ranked(candidates, query, **options):
        options = {"lanes": BOTH, "background": BACKGROUND} | options
        return rank(candidates, weigh(query), **options)

    return ranked


def texts(ranked):
    return [one.passage.text for one in ranked]


def test_a_word_beats_the_nearest_vector(notes, both):
    ranked = both(notes(("A note about the sea.", 0.8), ("The boiler is old.", 0.2)), "boiler")
    assert texts(ranked) == ["The boiler is old.", "A note about the sea."]


def test_of_two_equal_texts_the_nearer_vector_wins(notes, both):
    ranked = both(notes(("The boiler is old.", 0.3), ("The boiler is new.", 0.7)), "boiler")
    assert texts(ranked) == ["The boiler is new.", "The boiler is old."]


def test_the_part_of_a_chunk_that_the_vector_points_at_is_shown(candidates_of, both):
    lines = [f"- Filling words without meaning, number {number:02}." for number in range(60)]
    (chunk,) = candidates_of("\n".join(lines), bm25=0.0)
    start = chunk.text.index(lines[40])
    excerpts = (Excerpt(0, start, 0.1), Excerpt(start, start + len(lines[40]), 0.8))
    (best, *_) = both([replace(chunk, excerpts=excerpts)], "warmth")
    assert lines[40] in best.passage.text
    assert lines[0] not in best.passage.text


def test_a_missing_vector_is_no_reason_to_drop_a_word(notes, both):
    ranked = both(notes(("The boiler is old.", None), ("A note about the sea.", 0.8)), "boiler")
    assert texts(ranked)[0] == "The boiler is old."
    assert ranked[0].vector_score is None
    assert ranked[0].score > 0.35


def test_a_model_that_tells_nothing_adds_its_finds_below_those_of_words(notes, both):
    found = notes(("The boiler membrane.", 0.2), ("The boiler is new.", 0.4), ("The sea.", 0.5))
    noise = Background(mean=0.2, deviation=0.05, dimensions=384)
    assert texts(both(found, "boiler membrane", background=noise)) == [
        "The boiler membrane.",
        "The boiler is new.",
        "The sea.",
    ]


@pytest.mark.parametrize("deviation", [1e-12, 1e-7, 1e-5])
def test_where_nearly_all_texts_have_one_vector_another_one_is_ranked_all_the_same(
    notes, both, deviation
):
    found = notes(("The sea.", 0.9), ("A harbour.", 0.1), ("The boiler is old.", 0.1))
    alike = Background(mean=0.1, deviation=deviation, dimensions=384)
    ranked = both(found, "boiler", background=alike)
    assert set(texts(ranked)) >= {"The sea.", "The boiler is old."}


def test_without_the_vector_lane_cosines_do_not_matter(notes, both):
    near, far = notes(("The boiler is old.", 0.9), ("The boiler is old, too.", 0.1))
    plain = [replace(near, excerpts=()), replace(far, excerpts=())]
    off = {"lanes": LaneWeights(1, 0), "background": None}
    assert texts(both([near, far], "boiler", **off)) == texts(both(plain, "boiler", **off))


def test_what_neither_lane_supports_is_no_result(notes, both):
    found = notes(("A note about the sea.", 0.2), ("The boiler is old.", 0.3))
    assert texts(both(found, "boiler")) == ["The boiler is old."]


def test_a_find_by_vector_alone_scores_high_only_where_the_vectors_are_nearly_the_same(notes, both):
    cosines = (0.4, 0.6, 0.8, 0.9, 0.98)
    found = [both(notes(("A note about the sea.", cosine)), "boiler")[0] for cosine in cosines]
    assert [one.vector_score for one in found] == pytest.approx(cosines)
    assert {one.text_score for one in found} == {0}
    scores = [one.score for one in found]
    assert scores == sorted(scores)
    assert scores[0] < 0.45
    assert scores[-1] > 0.95


def test_the_least_score_leaves_out_what_scores_less_and_changes_nothing_else(notes, both):
    cosines = (0.9, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25)
    found = notes(("The boiler is old.", 0.2), *((f"Note {one}.", one) for one in cosines))
    every = [(one.passage.text, one.score) for one in both(found, "boiler")]
    assert len(every) == len(found)
    for least in (0.1, 0.27, 0.35, 0.36, 0.5, 0.9):
        ranked = both(found, "boiler", min_score=least)
        assert [(one.passage.text, one.score) for one in ranked] == [
            (text, score) for text, score in every if score >= least
        ]


def test_candidates_ranked_later_belong_to_a_file_that_words_found(candidates_of, weigh):
    boiler, sea = (
        replace(*candidates_of(text), bm25=bm25)
        for text, bm25 in (
            ("The boiler of the old house is serviced in October.", 9.0),
            ("The house is by the sea.", 0.5),
        )
    )

    def scores(*parts):
        ranker = PassageRanker(weigh("boiler house October serviced"), max_chars=700)
        return [[one.text_share for one in ranker.rank([part])] for part in parts]

    _, [after] = scores(boiler, replace(sea, chunk_id=2, start=1_000))
    [[alone]] = scores(sea)
    assert after > alone


def test_a_part_that_falls_short_says_so_until_the_next_one(notes, weigh):
    found = notes(("The boiler is old.", None), ("A house without.", None))
    ranker = PassageRanker(weigh("boiler house"), max_chars=700, min_score=0.9)
    assert list(ranker.rank(found)) == []
    assert ranker.fell_short
    list(ranker.rank([]))
    assert not ranker.fell_short


def test_what_neither_words_nor_a_vector_relate_to_the_question_comes_last(notes, both):
    near = [(f"Ship {n}.", 0.3) for n in range(3)]
    found = notes(("A note about the sea.", 0.36), *near, ("The boiler is old.", 0.1))
    ranked = both(found, "boiler", strategy="rrf", lanes=LaneWeights(0.1, 1.0))
    assert [one.score >= 0.35 for one in ranked] == [True, True, False, False, False]


def test_a_passage_that_holds_all_that_was_asked_for_probably_answers(candidates_of, weigh, rank):
    wholly, partly = candidates_of("The boiler valve.", bm25=1.0), candidates_of("The valve.")
    assert rank(wholly, weigh("boiler valve"))[0].score > 0.6
    assert rank(partly, weigh("boiler valve"))[0].score < 0.5


def test_of_a_question_that_asks_for_more_the_same_share_is_worth_more(candidates_of, weigh, rank):
    words = "boiler valve membrane pressure radiator pump gauge thermostat burner".split()
    scores = []
    for count in (4, 9):
        query = weigh(" ".join(words[:count]))
        (found,) = candidates_of(" ".join(words[: count - 1]), bm25=0.4 * query.total)
        scores.append(rank([found], query)[0].score)
    assert scores[1] > scores[0] + 0.05


@pytest.mark.parametrize("strategy", ["weighted", "rrf"])
def test_scores_never_rise_down_the_list(notes, both, strategy):
    found = notes(
        *((f"The boiler number {n}.", n / 40) for n in range(12)),
        *((f"A note about ship {n}.", 0.3 + n / 20) for n in range(12)),
    )
    ranked = both(found, "boiler number", strategy=strategy)
    scores = [one.score for one in ranked]
    assert len(scores) > 15
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_the_order_by_ranks_ignores_heights(notes, both):
    found = notes(("A note about the sea.", 0.8), ("Ships.", 0.4), ("The boiler is old.", 0.1))
    ranked = both(found, "boiler", strategy="rrf", lanes=LaneWeights(0.4, 1.0))
    assert texts(ranked) == ["A note about the sea.", "Ships.", "The boiler is old."]


@given(shares, shares)
def test_calibrating_keeps_the_order_and_the_ends(one, other):
    assert 0 <= calibrate(one) <= 1
    assert (one <= other) == (calibrate(one) <= calibrate(other)) or one == pytest.approx(other)
    assert (calibrate(0), calibrate(1)) == (0, 1)


@given(shares, shares)
def test_a_score_is_the_probability_from_one_half_on_and_keeps_the_order_below(one, other):
    assert LEAST_SCORE <= score_of(one) <= 1
    assert (one < other) <= (score_of(one) <= score_of(other))
    assert score_of(one) == one or one < EVEN
