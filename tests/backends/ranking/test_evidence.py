"""The evidence for a line: its words, the lines around it, its chunk and its vector."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from backends.interface import MAX_QUERY_CHARS
from backends.ranking import learnt
from backends.ranking.evidence import (
    AROUND_LINES,
    KEYWORDS_ONLY,
    LEAST_TRUST,
    NOISE,
    Background,
    Evidence,
    LaneWeights,
    is_question,
    ranked_odds,
    weigh_units,
    weighted_odds,
)
from backends.ranking.lines import Excerpt, units_by_file
from backends.ranking.query import QueryAnalyser, Weights, speaks_of_oneself
from fakes.each import each

CLEAR = Background(mean=0.2, deviation=0.1, dimensions=384)


@pytest.fixture
def evidence(candidates_of, weigh):
    """Returns the evidence for each line of a text."""

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
        range(3 - AROUND_LINES, 4 + AROUND_LINES)
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


def test_every_line_of_a_chunk_that_was_found_by_its_title_may_answer(candidates_of, weigh):
    (candidate,) = candidates_of("a\nb\nc\nd\ne\nf\ng")
    for context in ("", "boiler"):
        (units,) = units_by_file([replace(candidate, context=context)], weigh("boiler")).values()
        found = weigh_units(units, weigh("boiler"), None)
        assert {one.text > 0 for one in found} == {bool(context)}


def test_the_best_chunk_of_a_file_makes_all_its_lines_better(candidates_of, weigh):
    weak, strong = (candidates_of("boiler\n", bm25=bm25)[0] for bm25 in (0.5, 2.0))
    elsewhere = replace(strong, chunk_id=2, start=100, start_line=9)
    weights = weigh("boiler")
    found = [
        weigh_units(units, weights, None)[0]
        for chunks in ([weak], [weak, elsewhere])
        for units in units_by_file(chunks, weights).values()
    ]
    assert found[0].text < found[1].text


def test_a_line_has_the_vector_of_its_excerpt(evidence):
    found = evidence("near\nfar\nnone\n", "x", cosines=[(0, 4, 0.5), (5, 8, 0.2)], background=CLEAR)
    of_note = learnt.MEANING * CLEAR.trust * 3
    assert found[0].vector == pytest.approx(learnt.MEANING * CLEAR.trust * 3 + of_note)
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


def priors(found):
    """Returns the priors of the lines, without their length."""
    return [one.prior for one in found]


def of_length(text):
    return learnt.LENGTH * math.log(max(16, len(text)) / 80)


@pytest.mark.parametrize("label", ["- Anna: ", "- **Anna:** ", "**Anna**: ", "Anna: ", "1. Anna: "])
def test_what_is_said_by_whom_one_asks_about_counts_more(evidence, label):
    lines = f"{label}the boiler", "- Bert: the boiler, Anna"
    found = evidence("\n".join(lines), "Anna boiler")
    plain = [of_length(line) + 2 * learnt.HELD for line in lines]
    assert priors(found) == pytest.approx([plain[0] + learnt.LABEL, plain[1]])


def test_who_asks_of_themselves_asks_what_they_said(candidates_of):
    (candidate,) = candidates_of("User: the boiler is loud\nAssistant: the boiler is fine")
    concepts = QueryAnalyser(["english"]).analyse("boiler").concepts
    found = []
    for of_oneself in (True, False):
        weights = Weights(concepts, {"boiler": 1}, 100, of_oneself=of_oneself)
        (units,) = units_by_file([candidate], weights).values()
        found.append([one.is_labelled for one in units])
    assert found == [[True, False], [False, False]]


@each(
    "question",
    ["What is my boiler?", "Wann kommt meine Mutter?", "¿Cuál es mi plan?", "我的茶", "私の庭"],
)
def test_a_question_about_whoever_asks_is_known(question):
    assert speaks_of_oneself(question)
    assert not speaks_of_oneself("When does Anna repair the boiler?")


@pytest.mark.parametrize(
    "line", ["at 10:30 anna came", "anna:x", f"anna {'x' * 60}: boiler", "anna"]
)
def test_a_colon_somewhere_makes_no_label(evidence, line):
    found = sum(word in line for word in ("anna", "boiler"))
    plain = of_length(line) + found * learnt.HELD
    assert priors(evidence(line, "anna boiler")) == pytest.approx([plain])


def test_a_comment_in_code_is_no_heading_and_ends_no_section(evidence):
    lines = ["## Boiler", "```sh", "# the boiler", "```", "The boiler leaks."]
    _, _, comment, _, last = priors(evidence("\n".join(lines), "boiler"))
    named = learnt.HELD + learnt.NAMED
    assert comment == pytest.approx(of_length(lines[2]) + named)
    assert last == pytest.approx(of_length(lines[4]) + named)


@pytest.mark.parametrize(
    "line", ["| Boiler | the old one |", "- **Boiler** the old one", "`boiler` the old one"]
)
def test_a_row_and_what_begins_in_bold_or_code_are_about_that(evidence, line):
    plain = of_length(line) + learnt.HELD
    assert priors(evidence(line, "boiler")) == pytest.approx([plain + learnt.LABEL])
    elsewhere = "| The old one | boiler |" if line[0] == "|" else "the old **boiler** one"
    plain = of_length(elsewhere) + learnt.HELD
    assert priors(evidence(elsewhere, "boiler")) == pytest.approx([plain])


@pytest.mark.parametrize("label", ["- Anna:", "- [ ] Anna:", "1. Anna:", "* * Anna:"])
def test_the_words_after_a_label_are_none_of_it(candidates_of, weigh, label):
    text = f"{label} the boiler\n{label} nothing"
    (units,) = units_by_file(candidates_of(text), weigh("boiler")).values()
    assert [one.is_labelled for one in units] == [False, False]
    (units,) = units_by_file(candidates_of(text), weigh("Anna boiler")).values()
    assert [one.is_labelled for one in units] == [True, True]


@pytest.mark.parametrize(
    "stamp",
    [
        "[08.02.26, 18:32:05] ",
        "\u200e[2/8/26, 6:32:05\u202fPM] ",
        "08/02/2026, 18:32 - ",
        "- 18:32 ",
        "[18:32] ",
    ],
)
def test_the_time_of_a_message_hides_no_speaker(candidates_of, weigh, stamp):
    text = f"{stamp}Anna: the boiler\n{stamp}Bert: Anna, the boiler"
    (units,) = units_by_file(candidates_of(text), weigh("Anna boiler")).values()
    assert [one.is_labelled for one in units] == [True, False]


@pytest.mark.parametrize(
    "cue", ["00:00:03.120 --> 00:00:07.480", "7\n00:00:03,120 --> 00:00:07,480"]
)
def test_the_timings_of_subtitles_say_nothing_and_stand_between_no_lines(evidence, cue):
    text = f"{cue}\nWhat about the boiler?\n\n{cue}\nIt is new.\n\n{cue}\nGood."
    found = zip(text.split("\n"), evidence(text, "boiler"), strict=True)
    assert [line for line, one in found if one.text] == ["What about the boiler?", "It is new."]


def test_what_is_said_above_code_is_said_of_it(evidence):
    said = "Empty the boiler, which is done once a year:", "", "```sh", "boil --drain", "```"
    found = evidence("\n".join(said), "empty boiler")
    assert found[3].text > 0


def test_the_label_of_a_line_that_is_cut_up_stands_in_its_first_part(evidence):
    first, *rest = priors(evidence(f"- Anna: {'The boiler is old. ' * 60}", "Anna boiler"))
    assert first > max(rest) + learnt.LABEL / 2


def test_a_label_without_word_spaces_is_one_too(evidence):
    found = priors(evidence("小周：茶叶的价格\n老王：小周的茶叶", "小周"))
    assert found[0] == pytest.approx(found[1] + learnt.LABEL)


@each("line", ["Is it old?", "いつですか？ ", "متى؟", "Πότε ανοίγει;", "Πότε\u037e", "መቼ፧"])
def test_a_question_is_known_by_its_mark_in_each_script(line):
    assert is_question(line)


@each("line", ["", ";", "It is old.", "int x;", "пять; шесть;", "Πότε; Αύριο"])
def test_a_semicolon_is_a_question_mark_only_at_the_end_of_greek(line):
    assert not is_question(line)


def test_the_line_after_a_question_answers(evidence):
    lines = ["Is the boiler old?", "", "The boiler is from 1990.", "A boiler."]
    found = priors(evidence("\n".join(lines), "boiler"))
    expected = [of_length(line) + learnt.HELD for line in lines]
    expected[1], expected[2] = 0, expected[2] + learnt.REPLY
    assert found == pytest.approx(expected)


def test_each_word_that_a_line_holds_speaks_for_it_as_far_as_no_model_does(evidence):
    lines = "The boiler is old.", "The boiler of Anna."
    cosines = [(0, 40, 0.3)]
    by_words = priors(evidence("\n".join(lines), "boiler Anna"))
    by_meaning = priors(
        evidence("\n".join(lines), "boiler Anna", cosines=cosines, background=CLEAR)
    )
    lengths = [of_length(line) for line in lines]
    assert by_words == pytest.approx([lengths[0] + learnt.HELD, lengths[1] + 2 * learnt.HELD])
    left = learnt.HELD * (1 - CLEAR.trust)
    assert by_meaning == pytest.approx([lengths[0] + left, lengths[1] + 2 * left])


def test_a_longer_line_is_likelier_to_answer_than_a_heading(evidence):
    heading, short, long = priors(
        evidence("# The boiler\nThe boiler.\nThe boiler " + "is old " * 30, "boiler")
    )
    assert heading == pytest.approx(
        short - learnt.NAMED + learnt.HEADING
    )  # its section has that name
    assert short < long


def test_where_a_time_is_asked_for_a_line_that_tells_one_counts_more(candidates_of, weigh):
    (candidate,) = candidates_of("The boiler came last week.\nThe boiler came.")
    weights = weigh("boiler")
    (units,) = units_by_file([candidate], weights).values()
    timed, plain = (priors(weigh_units(units, weights, None, asks_when=asks)) for asks in (1, 0))
    assert timed == pytest.approx([plain[0] + learnt.TIME, plain[1]])


def test_priors_alone_make_no_evidence_and_never_take_it_away():
    known = [Evidence(0.0, 0.0, 3.0), Evidence(0.01, 0.0, -3.0), Evidence(0.01, 0.0, 3.0)]
    found = weighted_odds(known, LaneWeights(1, 1), information=5.0)
    assert found[0] == 0 < found[1] < found[2]


def test_a_question_that_says_more_tells_its_answers_better_apart():
    known = [Evidence(0.5, 0.0), Evidence(0.2, 0.0)]
    ratios = []
    for information in (2.0, 10.0, 100.0, MAX_QUERY_CHARS / 3):
        odds = weighted_odds(known, LaneWeights(1, 1), information=information)
        ratios.append(odds[0] / odds[1])
    assert ratios == sorted(set(ratios))
    assert math.isfinite(odds[0])


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
    assert astuple(LaneWeights.of(0.3, 0.7)) == pytest.approx((1, 1))
    assert astuple(LaneWeights.of(0.7, 0.3)) == pytest.approx((1, 0.3 / 0.7 / (0.7 / 0.3)))


def test_a_lane_that_is_given_everything_leaves_nothing_to_the_other():
    assert astuple(LaneWeights.of(0, 1)) == (0, 1)
    assert astuple(LaneWeights.of(1, 0)) == (1, 0)
    assert LaneWeights.of(0, 0) == KEYWORDS_ONLY


def test_half_answers_add_up_and_unrelated_lines_count_nothing():
    known = [Evidence(0.2, 0.0), Evidence(0.1, 0.0), Evidence(0.0, -2.0)]
    found = weighted_odds(known, LaneWeights(1, 1), information=5.0)
    assert found[0] > found[1] > found[2] == 0


def test_by_rank_the_second_counts_three_quarters_of_the_first():
    files = [[Evidence(0.5, 0.0), Evidence(0.2, 0.0)], [Evidence(0.2, 0.0), Evidence(0.0, -1.0)]]
    assert ranked_odds(files, LaneWeights(1, 1)) == [[1, 0.75], [0.75, 0]]


@pytest.mark.parametrize(
    "contents",
    [
        "- House: [[The boiler]], [[House/Valve|valves]]",
        "- [The boiler](house/boiler.md) — when it is loud",
    ],
)
def test_a_line_that_only_names_other_notes_counts_like_a_heading(evidence, contents):
    text = "- Boiler in [[The house]] is old and loud now"
    found = priors(evidence(f"{contents}\n\n{text}", "boiler"))
    expected = [of_length(line) + learnt.HELD for line in (contents, "", text)]
    assert found[0] == pytest.approx(expected[0] + learnt.HEADING)
    assert found[2] == pytest.approx(expected[2])


def test_front_matter_counts_like_a_heading(evidence):
    lines = ["---", "aliases: [boiler]", "---", "The boiler."]
    found = priors(evidence("\n".join(lines), "boiler"))
    assert found[1] == pytest.approx(of_length(lines[1]) + learnt.HELD + learnt.HEADING)
    assert found[3] == pytest.approx(of_length(lines[3]) + learnt.HELD)
