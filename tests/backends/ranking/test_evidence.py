"""What speaks for a line: its words, the lines around it, its chunk and its vector."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from backends.ranking.evidence import (
    KEYWORDS_ONLY,
    LABEL_WEIGHT,
    LEAST_INFORMATION,
    LEAST_TRUST,
    MOST_INFORMATION,
    NEIGHBOURS,
    NOISE,
    NOTE_SHARE,
    QUESTION_WEIGHT,
    REPLY_WEIGHT,
    TIME_WEIGHT,
    Background,
    Evidence,
    Excerpt,
    Lanes,
    ranked_odds,
    units_by_file,
    weigh_units,
    weighted_odds,
)

CLEAR = Background(mean=0.2, deviation=0.1, dimensions=384)


@pytest.fixture
def evidence(candidates_of, weigh):
    """By line of a text, what speaks for it."""

    def weighed(text, query, *, cosines=(), background=None, bm25=1.0):
        (candidate,) = candidates_of(text, bm25=bm25)
        excerpts = tuple(Excerpt(*one) for one in cosines)
        weights = weigh(query)
        (units,) = units_by_file([replace(candidate, excerpts=excerpts)], weights).values()
        return weigh_units(units, weights, background)

    return weighed


def test_a_line_that_holds_a_word_is_worth_more_than_one_beside_it(evidence):
    lines = ["filling"] * 3 + ["boiler"] + ["filling"] * 5
    found = [one.text for one in evidence("\n".join(lines), "boiler")]
    assert found[3] > found[2] == found[4] > 0
    assert [number for number, value in enumerate(found) if value] == list(
        range(3 - NEIGHBOURS, 4 + NEIGHBOURS)
    )


def test_the_words_of_neighbouring_lines_add_up(evidence):
    apart = evidence("boiler\na\nb\nc\nd\ne\nmembrane", "boiler membrane")
    together = evidence("boiler\nmembrane\na\nb\nc\nd\ne", "boiler membrane")
    assert together[0].text > apart[0].text


def test_blank_lines_are_no_neighbours(evidence):
    found = evidence("boiler\n\n\n\nfilling\n", "boiler")
    assert [bool(one.text) for one in found] == [True, False, False, False, True]


def test_a_better_chunk_makes_its_lines_better(evidence):
    weak, strong = (evidence("boiler", "boiler", bm25=bm25)[0].text for bm25 in (0.5, 2.0))
    assert weak < strong


def test_every_line_of_a_chunk_that_was_found_by_its_title_may_answer(evidence):
    assert all(one.text > 0 for one in evidence("a\nb\nc\nd\ne\nf\ng", "boiler"))
    assert all(one.text == 0 for one in evidence("a\nb\nc", "boiler", bm25=0.0))


def test_a_line_has_the_vector_of_its_excerpt(evidence):
    found = evidence("near\nfar\nnone\n", "x", cosines=[(0, 4, 0.5), (5, 8, 0.2)], background=CLEAR)
    of_note = NOTE_SHARE * CLEAR.trust * 3
    assert found[0].vector == pytest.approx(CLEAR.trust * 3 + of_note)
    assert [one.vector for one in found[1:3]] == pytest.approx([of_note, of_note])


def test_without_any_vector_a_note_has_no_evidence_by_meaning(evidence):
    assert [one.vector for one in evidence("a\nb", "boiler", background=CLEAR)] == [0, 0]


def test_what_title_and_date_say_is_said_of_every_line(candidates_of, weigh):
    (candidate,) = candidates_of("boiler repaired\nfilling\n")
    weights = weigh("boiler june")
    found = []
    for context in ("", "june 2023"):
        (units,) = units_by_file([replace(candidate, context=context)], weights).values()
        found.append(weigh_units(units, weights, None)[0])
    assert found[0].text < found[1].text
    assert [one.is_full for one in found] == [False, True]


def signs(found):
    return [one.signs for one in found]


@pytest.mark.parametrize("label", ["- Anna: ", "- **Anna:** ", "**Anna**: ", "Anna: ", "1. Anna: "])
def test_what_is_said_by_whom_one_asks_about_counts_more(evidence, label):
    said, heard = evidence(f"{label}the boiler\n- Bert: the boiler, Anna", "Anna boiler")
    assert (said.signs, heard.signs) == (LABEL_WEIGHT, 0)


@pytest.mark.parametrize(
    "line", ["at 10:30 anna came", "anna:x", f"anna {'x' * 60}: boiler", "anna"]
)
def test_a_colon_somewhere_makes_no_label(evidence, line):
    assert signs(evidence(line, "anna boiler")) == [0]


def test_the_label_of_a_line_that_is_cut_up_stands_in_its_first_part(evidence):
    first, *rest = signs(evidence(f"- Anna: {'The boiler is old. ' * 60}", "Anna boiler"))
    assert first == LABEL_WEIGHT
    assert set(rest) == {0}


def test_a_label_without_word_spaces_is_one_too(evidence):
    assert signs(evidence("小周：茶叶的价格\n老王：小周的茶叶", "小周")) == [LABEL_WEIGHT, 0]


def test_the_line_after_a_question_answers_and_a_question_seldom_does(evidence):
    found = evidence("Is the boiler old?\n\nThe boiler is from 1990.\nA boiler.", "boiler")
    assert signs(found) == [QUESTION_WEIGHT, 0, REPLY_WEIGHT, 0]


def test_where_a_time_is_asked_for_a_line_that_tells_one_counts_more(candidates_of, weigh):
    (candidate,) = candidates_of("The boiler came last week.\nThe boiler came.")
    weights = weigh("boiler")
    (units,) = units_by_file([candidate], weights).values()
    assert signs(weigh_units(units, weights, None, asks_when=True)) == [TIME_WEIGHT, 0]
    assert signs(weigh_units(units, weights, None)) == [0, 0]


def test_signs_alone_make_no_evidence_and_never_take_it_away():
    known = [Evidence(0.0, 0.0, 3.0), Evidence(0.01, 0.0, -3.0), Evidence(0.01, 0.0, 3.0)]
    found = weighted_odds(known, Lanes(1, 1), information=5.0)
    assert found[0] == 0 < found[1] < found[2]


def test_a_question_that_says_more_tells_its_answers_better_apart():
    known = [Evidence(0.5, 0.0), Evidence(0.2, 0.0)]
    ratios = []
    for information in (LEAST_INFORMATION, 7.5, MOST_INFORMATION, 1e6):
        odds = weighted_odds(known, Lanes(1, 1), information=information)
        ratios.append(odds[0] / odds[1])
    assert ratios[0] < ratios[1] < ratios[2] == ratios[3]


def test_a_model_whose_cosines_are_those_of_random_directions_is_hardly_trusted():
    assert Background(0.0, math.sqrt(1 / 384), 384).trust == LEAST_TRUST
    assert Background(0.0, math.sqrt(NOISE / 384), 384).trust == LEAST_TRUST
    assert Background(0.0, math.sqrt(4 * NOISE / 384), 384).trust == pytest.approx(0.75)
    assert Background(0.3, 0.0, 384).trust == LEAST_TRUST


def test_a_cosine_counts_by_how_far_it_stands_out():
    assert CLEAR.place(0.2) == 0
    assert CLEAR.place(0.4) == pytest.approx(2 * CLEAR.place(0.3))
    assert CLEAR.place(0.1) < 0
    assert CLEAR.place(None) == Background(0.3, 0.0, 384).place(0.9) == 0


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(1, 4096))
def test_trust_is_a_share(mean, deviation, dimensions):
    assert LEAST_TRUST <= Background(mean, deviation, dimensions).trust <= 1


def test_the_documented_weights_let_both_lanes_count_whole():
    assert astuple(Lanes.of(0.3, 0.7)) == pytest.approx((1, 1))
    assert astuple(Lanes.of(0.7, 0.3)) == pytest.approx((1, 0.3 / 0.7 / (0.7 / 0.3)))


def test_a_lane_that_is_given_everything_leaves_nothing_to_the_other():
    assert astuple(Lanes.of(0, 1)) == (0, 1)
    assert astuple(Lanes.of(1, 0)) == (1, 0)
    assert Lanes.of(0, 0) == KEYWORDS_ONLY


def test_half_answers_add_up_and_unrelated_lines_count_nothing():
    known = [Evidence(0.2, 0.0), Evidence(0.1, 0.0), Evidence(0.0, -2.0)]
    found = weighted_odds(known, Lanes(1, 1), information=5.0)
    assert found[0] > found[1] > found[2] == 0


def test_by_rank_the_second_counts_three_quarters_of_the_first():
    files = [[Evidence(0.5, 0.0), Evidence(0.2, 0.0)], [Evidence(0.2, 0.0), Evidence(0.0, -1.0)]]
    assert ranked_odds(files, Lanes(1, 1)) == [[1, 0.75], [0.75, 0]]
