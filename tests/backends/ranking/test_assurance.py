"""The best hits by keywords alone are among the first results, whatever the vectors say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backends.ranking.evidence import Background, LaneWeights, Strategy
from backends.ranking.fusion import ASSURED, WITHIN
from backends.ranking.lines import Excerpt

TRUSTED = Background(mean=0.0, deviation=0.2, dimensions=384)
BOTH = LaneWeights(1.0, 1.0)


def notes_with(candidates_of, words, cosines):
    """Makes one note per word; `boiler` is the query, and more of it is better."""
    found = []
    for number, (times, cosine) in enumerate(zip(words, cosines, strict=True), 1):
        text = f"{'boiler ' * times}note of its own {number}"
        (one,) = candidates_of(text, file_id=number, bm25=0.01 * times)
        found.append(replace(one, excerpts=(Excerpt(0, len(text), cosine),)))
    return found


@pytest.fixture
def texts(rank, weigh):
    def found(candidates, **options):
        return [one.passage.text for one in rank(candidates, weigh("boiler"), **options)]

    return found


@pytest.mark.parametrize("strategy", ["weighted", "rrf"])
def test_a_model_that_is_wrong_cannot_hide_what_words_find(candidates_of, texts, strategy):
    notes = notes_with(candidates_of, [3, 2, 1] + [0] * 20, [-0.2] * 3 + [0.9] * 20)
    hybrid = texts(notes, lanes=LaneWeights(0.2, 1.0), background=TRUSTED, strategy=strategy)
    assert not any("boiler" in text for text in hybrid[: WITHIN - ASSURED])
    assert all("boiler" in text for text in hybrid[WITHIN - ASSURED : WITHIN])


def test_as_long_as_the_promise_is_kept_the_order_is_that_of_the_fusion(candidates_of, texts):
    notes = notes_with(
        candidates_of, [1] + [0] * 20, [-0.2] + [0.9 - 0.01 * at for at in range(20)]
    )
    hybrid = texts(notes, lanes=LaneWeights(0.2, 1.0), background=TRUSTED)
    assert hybrid[WITHIN - 1].startswith("boiler")
    assert [int(text.split()[-1]) for text in hybrid if "boiler" not in text] == list(range(2, 22))


def test_without_weight_words_are_promised_nothing(candidates_of, texts):
    notes = notes_with(candidates_of, [1] + [0] * 20, [-0.2] + [0.9] * 20)
    hybrid = texts(notes, lanes=LaneWeights(0.0, 1.0), background=TRUSTED)
    assert not any(text.startswith("boiler") for text in hybrid[:WITHIN])


def test_what_stands_in_other_results_already_is_not_shown_again(candidates_of, texts):
    notes = notes_with(candidates_of, [3, 2, 1], [0.5, 0.4, 0.3])
    assert sorted(texts(notes, lanes=BOTH, background=TRUSTED)) == sorted(texts(notes))


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1, 1)), min_size=1, max_size=14))
def test_whatever_the_cosines_the_promise_is_kept(candidates_of, rank, weigh, drawn):
    notes = notes_with(candidates_of, *zip(*drawn, strict=True))
    strategies: tuple[Strategy, ...] = ("weighted", "rrf")
    for strategy in strategies:
        words = rank(notes, weigh("boiler"), strategy=strategy)[:ASSURED]
        options = {"lanes": BOTH, "background": TRUSTED, "strategy": strategy}
        ranked = rank(notes, weigh("boiler"), **options)
        assert {one.passage.text for one in words} <= {one.passage.text for one in ranked[:WITHIN]}
        assert len({one.passage.text for one in ranked}) == len(ranked)
        scores = [one.score for one in ranked]
        assert scores == sorted(scores, reverse=True)
