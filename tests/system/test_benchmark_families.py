"""The recall benchmark over families of notes: what counts as shown, shares, means, sessions."""

import json
import random
from collections import Counter
from io import StringIO
from itertools import product
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

import backends.ranking.learnt
from backends.ranking.learnt import Signs, likelihood
from benchmarks import fit_scores
from benchmarks.families import (
    DATA,
    IDENTIFIERS,
    LIMITS,
    PLACES,
    Family,
    Page,
    Summary,
    ablation_table,
    families,
    form_table,
    left_out_table,
    parts_of,
    shares_table,
)
from benchmarks.fit_scores import Answered
from benchmarks.publishing import FAMILIES_KEPT, families_tables, publish_families
from benchmarks.questions import Collection, Evidence, Question, conversations, multilingual
from benchmarks.reliability import (
    CROSSED,
    Passage,
    binned,
    calibration_error,
    draw_reliability,
    passages,
    reliability_table,
    unanswerable,
    without_answer,
)
from benchmarks.scoring import cut, every_fourth, gold_sessions_found, score, shown

LONG = "The heron nests by the pond " + "and waits for the frogs " * 6
HERON = Evidence("memory/a.md", 3, 3, LONG)
OTTER = Evidence("memory/b.md", 1, 1, "【Habits】 The otter sleeps at noon.")


def question(*evidence, group="single-hop"):
    return Question("Where are they?", group, "en", evidence)


def hit(path, snippet, start=1, end=1, **more):
    return {"path": path, "snippet": snippet, "startLine": start, "endLine": end, **more}


def test_the_first_eighty_characters_are_enough_whatever_the_white_space():
    assert shown(HERON, [hit("memory/a.md", LONG[:80].replace("by the", "by\n  the"))])
    assert not shown(HERON, [hit("memory/a.md", LONG[:70])])


def test_evidence_in_a_snippet_of_another_file_is_not_shown():
    assert not shown(HERON, [hit("memory/b.md", LONG)])


def test_a_label_before_the_text_does_not_count():
    assert shown(OTTER, [hit("memory/b.md", "- The otter sleeps at noon.")])


def test_a_page_is_cut_at_its_limit_in_the_order_of_the_results():
    results = [hit("memory/a.md", "aaaa"), hit("memory/b.md", "bbbb"), hit("memory/c.md", "cccc")]
    assert [one["snippet"] for one in cut(results, 6)] == ["aaaa", "bb"]
    assert cut(results, 12) == results


def test_of_evidence_by_lines_a_cut_result_must_show_a_piece():
    evidence = Evidence(
        "memory/a.md", 2, 3, None, "The heron nests by the pond,\nand the otter sleeps."
    )
    whole = hit(
        "memory/a.md", "# Animals\nThe heron nests by the pond,\nand the otter sleeps.", 1, 3
    )
    assert shown(evidence, [whole])
    assert shown(evidence, cut([whole], 45))
    assert not shown(evidence, cut([whole], 12))


def test_a_page_says_what_it_shows_at_each_limit():
    far = hit("memory/b.md", "x" * 1_500)
    page = Page.of(question(HERON, OTTER), [far, hit("memory/a.md", LONG, 3, 3)])
    assert dict(zip(PLACES, page.shown, strict=True)) == {
        "six": (True, False), "1000": (False, False), "2000": (True, False), "4200": (True, False),
    }  # fmt: skip


def test_the_parts_of_a_snippet_stand_between_lines_with_an_ellipsis():
    assert parts_of("# Gym\n…\n- in the evening\n  for an hour\n…\nlast") == [
        "# Gym", "- in the evening\n  for an hour", "last",
    ]  # fmt: skip
    assert parts_of("a line that ends with …") == ["a line that ends with …"]


def test_a_page_tells_its_form():
    snippet = f"# Pond\n…\n{LONG}"
    page = Page.of(question(HERON), [hit("memory/a.md", snippet)])
    assert (page.parts, page.short_parts, page.results) == (2, 1, 1)
    assert page.characters == len(snippet)
    assert page.evident == len(LONG.strip())


def pages(right, wrong, group="single-hop"):
    shows = Page.of(question(HERON, group=group), [hit("memory/a.md", LONG)])
    fails = Page.of(question(HERON, group=group), [hit("memory/a.md", "nothing")])
    return [shows] * right + [fails] * wrong


def test_each_family_weighs_the_same_in_the_mean():
    summary = Summary.of({"large": pages(90, 10), "small": pages(1, 1)})
    assert summary.mean["six"].any.share == pytest.approx(0.7)
    assert summary.mean["six"].any.low < 0.7 < summary.mean["six"].any.high
    assert summary.families["large"].shares["1000"].any.share == 0.9


def test_identifiers_are_shown_and_no_part_of_the_mean():
    summary = Summary.of({"sample": pages(1, 1) + pages(2, 0, group="identifier")})
    assert summary.families[IDENTIFIERS].n == 2
    assert summary.mean["six"].any.share == 0.75


def test_what_is_kept_as_json_holds_every_figure_of_the_tables():
    summary = Summary.of({"sample": pages(1, 1), "vault": pages(3, 1)})
    kept = json.loads(json.dumps(summary.as_json()))
    assert kept["families"]["vault"]["shares"]["2000"]["any"]["share"] == 0.75
    assert kept["families"]["vault"]["parts_a_snippet"] == 1
    assert kept["mean"]["six"]["all"]["share"] == 0.625
    table, form = shares_table("shares", summary), form_table("form", summary)
    assert [column.header for column in table.columns][-3:] == [f"{one:,}" for one in LIMITS]
    assert (table.row_count, form.row_count) == (3, 2)


def test_a_family_without_answers_has_no_figures():
    assert Summary.of({"sample": pages(1, 0), "vault": []}).families.keys() == {"sample"}
    assert Family.of(pages(0, 1)).shares["six"].any.share == 0


@pytest.fixture
def data(tmp_path):
    """Two families in the form that the converters write."""
    notes = tmp_path / "realmem" / "conv-Ada" / "memory"
    notes.mkdir(parents=True)
    (notes / "2026-01-02.md").write_text(
        "# 2026-01-02\n\n## Garden\n\n- The pears are ripe.\n\n## Music\n\n- The choir meets on Monday.\n",
        encoding="utf-8",
    )
    asked = {
        "question": "When do they sing?",
        "category": "Dynamic Updating",
        "before": "2026-01-05",
        "evidence": [
            {"path": "memory/2026-01-02.md", "line": 9, "text": "The choir meets on Monday."}
        ],
    }
    (notes.parent / "questions.json").write_text(json.dumps([asked]), encoding="utf-8")
    return tmp_path


def test_a_question_names_the_day_before_which_its_notes_are(data):
    ((name, workspace, (asked,)),) = conversations(data / "realmem")
    assert (name, workspace) == ("conv-Ada", data / "realmem" / "conv-Ada")
    assert (asked.before, asked.group, asked.evidence[0].first_line) == (
        "2026-01-05", "Dynamic Updating", 9,
    )  # fmt: skip


def test_families_are_those_whose_data_is_named(data):
    assert list(families(None, None, None)) == ["sample", "vault"]
    found = families(data, None, None)
    assert list(found) == ["REALTALK", "RealMem", "BEAM", "sample", "vault"]
    assert len(found["RealMem"]) == 1


def test_a_session_is_found_where_a_result_shows_a_line_of_its_section(data):
    ((_, workspace, (asked,)),) = conversations(data / "realmem")
    path = "memory/2026-01-02.md"
    assert gold_sessions_found(workspace, asked, [hit(path, "", 9, 9)]) == 1
    assert gold_sessions_found(workspace, asked, [hit(path, "", 3, 5)]) == 0
    two = {"stretches": [{"startLine": 5, "endLine": 5}, {"startLine": 7, "endLine": 7}]}
    assert gold_sessions_found(workspace, asked, [hit(path, "", 5, 7, **two)]) == 1


def test_the_paper_is_followed_with_every_fourth_prompt(data):
    (one,) = conversations(data / "realmem")
    many = [one._replace(questions=one.questions * 9)]
    assert [len(each.questions) for each in every_fourth(many)] == [3]


def test_evidence_by_lines_knows_what_stands_there(tmp_path):
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "pt.md").write_text("um\ndois\ntrês\n", encoding="utf-8")
    expected = {"path": "memory/pt.md", "startLine": 2, "endLine": 3}
    asked = {"query": "?", "kind": "natural", "lang": "pt", "expected": [expected]}
    (tmp_path / "queries.json").write_text(json.dumps([asked]), encoding="utf-8")
    ((_, _, (question,)),) = multilingual(tmp_path)
    assert question.evidence == (Evidence("memory/pt.md", 2, 3, None, "dois\ntrês"),)


def test_the_older_tables_count_evidence_by_the_same_rule():
    found = score(question(HERON, OTTER), [hit("memory/a.md", LONG[:90], 3, 3)])
    assert (found.any_text, found.all_text, found.any_lines) == (True, False, True)


def test_the_vault_is_a_family_whose_questions_name_lines_that_it_has():
    ((name, folder, asked),) = families(None, None, None)["vault"]
    assert (name, len(asked)) == ("vault", 70)
    for one in asked:
        (evidence,) = one.evidence
        lines = (folder / evidence.path).read_text(encoding="utf-8").split("\n")
        assert evidence.text in lines[evidence.first_line - 1]
    assert {one.language for one in asked} == {"en", "de", "es", "ru", "ja"}


def test_questions_without_an_answer_are_many_and_in_many_languages():
    of_the_vault = unanswerable(DATA / "vault" / "unanswerable.json")
    assert len(of_the_vault) == 10
    own = json.loads((DATA / "unanswerable.json").read_text(encoding="utf-8"))
    assert Counter(one["notes"] for one in own) == {"vault": 30, "sample": 30}
    assert len({one["lang"] for one in own}) == 7


def test_a_passage_answers_where_it_shows_some_evidence():
    results = [hit("memory/a.md", LONG, score=0.9), hit("memory/b.md", "nothing", score=0.4)]
    found = list(passages(question(HERON, OTTER), results))
    assert found == [Passage(0.9, answers=True), Passage(0.4, answers=False)]


def test_true_scores_have_no_error_and_lie_in_their_tenths():
    true = [Passage(0.8, n < 8) for n in range(10)]
    (only,) = binned(true)
    assert (only.n, only.score, only.answering.share) == (10, pytest.approx(0.8), 0.8)
    assert calibration_error(true) == pytest.approx(0)
    assert calibration_error([*true, Passage(0.4, answers=False)]) == pytest.approx(0)
    assert calibration_error([Passage(1.0, answers=False)]) == 1
    assert len(binned([Passage(0.35, answers=False), Passage(0.81, answers=True)])) == 2


def test_the_constants_of_scores_are_learnt_back_from_passages_that_were_drawn_with_them():
    rng = random.Random(0)
    found = []
    for family, by_meaning in product(("A", "B"), (False, True)):
        for _ in range(4_000):
            vector = {"trust": rng.random(), "stands_out": 4 * rng.random()} if by_meaning else {}
            signs = Signs(
                share=-5 * rng.random(),
                best_line=rng.random(),
                information=5 * rng.random(),
                **vector,
            )
            answers = rng.random() < likelihood(signs)
            found.append(Answered(family, by_meaning, (signs,), (answers,)))
    learnt = fit_scores.learn(found)
    assert set(learnt) == set(fit_scores.NAMES)
    for name, value in learnt.items():
        assert value == pytest.approx(getattr(backends.ranking.learnt, name), abs=0.4)


def test_the_table_of_what_was_learnt_is_shown_and_searches_keep_their_constants():
    before = dict(vars(backends.ranking.learnt))
    found = [
        Answered(
            family, by_meaning, (Signs(share=share, best_line=0.5, information=3.0),), (answers,)
        )
        for family, by_meaning in product("AB", (False, True))
        for share, answers in ((-0.5, True), (-3.0, False))
    ]
    console = Console(width=120, file=StringIO())
    fit_scores.report(found * 20, console)
    assert console.file.getvalue().count("learnt from all") == 2
    assert vars(backends.ranking.learnt) == before


def test_what_is_near_by_meaning_says_nothing_about_the_rest():
    def passages(answers, **signs):
        one = Signs(share=-1.0, best_line=0.5, information=3.0, **signs)
        return [Answered("A", by_meaning=False, signs=(one,), answers=(answers,))] * 50

    usual = [*passages(answers=True), *passages(answers=False)]
    near = passages(answers=True, nearness=9.0)
    assert fit_scores.learn([*usual, *near]) == fit_scores.learn(usual)


def test_a_score_never_rises_down_the_list():
    weak, strong = (Signs(share=one, best_line=1.0, information=3.0) for one in (-3.0, -0.1))
    found = [Answered("A", by_meaning=False, signs=(weak, strong), answers=(False, True))]
    first, second = fit_scores.scored(found, {})
    assert first.score == second.score < 0.9


def collection(name, count):
    asked = (
        question(HERON)._replace(query=f"{name} {n}", before="2026-01-01") for n in range(count)
    )
    return Collection(name, DATA, tuple(asked))


def test_two_hundred_questions_are_asked_of_families_that_do_not_know_the_answer():
    data = {name: [collection(f"{name}-{n}", 60) for n in range(2)] for name in ("A", "B", "C")}
    crossed = without_answer(data)
    assert sum(len(one.questions) for each in crossed.values() for one in each) == CROSSED
    for name, each in crossed.items():
        assert [one.workspace for one in each] == [DATA, DATA]
        asked = [one for collection in each for one in collection.questions]
        assert not any(one.query.startswith(name) or one.evidence or one.before for one in asked)
        assert len({one.query[0] for one in asked}) == 2
        assert len({one.query for one in asked}) == len(asked)


def test_what_was_written_for_the_vault_and_the_sample_is_asked_of_them():
    crossed = without_answer(families(None, None, None))
    written = Counter(
        (name, one.group) for name, each in crossed.items() for c in each for one in c.questions
    )
    assert written["vault", "no answer"] == 40
    assert written["sample", "no answer"] == 30


def test_a_diagram_is_drawn_for_each_family_with_every_system(tmp_path):
    found = [Passage(0.4, answers=False), Passage(0.8, answers=True), Passage(0.85, answers=False)]
    path = tmp_path / "scores.svg"
    draw_reliability(path, {"words": {"BEAM": found, "vault": found}, "vectors": {"BEAM": found}})
    root = ET.parse(path).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{svg}polyline")) == 3
    assert len(root.findall(f"{svg}circle")) == 6
    assert {"BEAM", "vault", "words", "vectors"} <= {one.text for one in root.iter(f"{svg}text")}


def test_the_table_of_scores_tells_how_many_of_a_hundred_answer():
    table = reliability_table("t", {"BEAM": [Passage(0.85, answers=True)] * 3})
    assert [next(iter(column.cells)) for column in table.columns][:3] == ["BEAM", "3", "0.150"]
    assert next(iter(table.columns[-2].cells)) == "100 (3)"


def rows(table):
    return [list(row) for row in zip(*(column.cells for column in table.columns), strict=True)]


def test_what_a_weight_is_worth_is_what_the_mean_loses_without_it():
    full = Summary.of({"A": pages(3, 1), "B": pages(4, 0)})
    less = Summary.of({"A": pages(1, 3), "B": pages(4, 0)})
    assert rows(ablation_table("t", full, {"LINE": less})) == [
        ["LINE", "-25.0 / -25.0", "-50.0 / -50.0", "+0.0 / +0.0"],
    ]


def test_a_family_left_out_stands_beside_itself_in_sample():
    seen = Summary.of({"A": pages(3, 1), "B": pages(2, 2)})
    left_out = {"A": Summary.of({"A": pages(2, 2)}), "B": Summary.of({"B": pages(2, 2)})}
    assert rows(left_out_table("t", seen, left_out)) == [
        ["A", "0.750 / 0.750", "0.500 / 0.500", "-25.0 / -25.0"],
        ["B", "0.500 / 0.500", "0.500 / 0.500", "+0.0 / +0.0"],
        ["mean", "0.625 / 0.625", "0.500 / 0.500", "-12.5 / -12.5"],
    ]


def test_figures_are_published_between_their_marks_as_they_are_kept(tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/benchmarks.md"
    page.write_text(
        "a\n<!-- families: scripts/bench recall --publish -->\nold\n<!-- /families -->\nb\n",
        "utf-8",
    )
    figures = {
        "keyword": Summary.of({"A": pages(3, 1)}).as_json()
        | {"calibration error": {"A": 0.25}, "RealMem, sessions": {"10": 0.64, "20": 0.7}}
    }
    publish_families(figures, tmp_path)
    published = page.read_text(encoding="utf-8")
    assert "| keyword | A | 4 | 0.750 (0.30-0.95) / 0.750 |" in published
    assert "| 131 | 1.00 | 25 % | 98 % | 0.250 |" in published
    assert "| 0.250 |" in published
    assert "counts, keyword: 0.640 in 10 results, 0.700 in 20 results" in published
    assert "old" not in published
    assert published.startswith("a\n")
    assert published.endswith("b\n")
    assert families_tables(json.loads((tmp_path / FAMILIES_KEPT).read_text("utf-8"))) in published


def test_what_is_published_of_the_families_is_what_is_kept():
    root = Path(__file__).resolve().parents[2]
    kept = json.loads((root / FAMILIES_KEPT).read_text(encoding="utf-8"))
    assert families_tables(kept) in (root / "docs/benchmarks.md").read_text(encoding="utf-8")
