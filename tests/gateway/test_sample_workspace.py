"""The sample workspace and the questions about it agree with each other, line by line."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from backends.ranking.query import QueryAnalyser
from backends.text.analyser import Analyser, detect_language
from fakes.each import each
from gateway.sample import sample_workspace

QUESTIONS = Path(__file__).parents[1] / "data" / "sample_questions.json"
FIRST_DAY, LAST_DAY = date(2026, 1, 5), date(2026, 2, 15)
LIST_MARKER = re.compile(r"^\s*(?:[-*] (?:\[[ x]\] )?|\d+\. )")
SCRIPTS = {"zh": r"[\u4e00-\u9fff]", "ja": r"[\u3040-\u30ff]", "ru": r"[\u0400-\u04ff]"}


HARD_QUESTIONS = QUESTIONS.with_name("sample_hard_questions.json")
ABSENT_QUESTIONS = QUESTIONS.with_name("sample_absent_questions.json")


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    line: int
    text: str


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    lang: str
    kind: str
    query: str
    evidence: list[Evidence]


class HardQuestion(Question, frozen=True, forbid_unknown_fields=True):
    half: str
    """`choosing` or `testing`; no choice may be based on questions of the latter."""


@pytest.fixture(scope="module")
def hard_questions() -> list[HardQuestion]:
    return msgspec.json.decode(HARD_QUESTIONS.read_bytes(), type=list[HardQuestion])


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return msgspec.json.decode(QUESTIONS.read_bytes(), type=list[Question])


def notes() -> list[Path]:
    return sorted(path for path in sample_workspace().rglob("*") if path.is_file())


def daily_notes() -> list[Path]:
    return sorted((sample_workspace() / "memory").glob("*.md"))


def relative(path: Path) -> str:
    return path.relative_to(sample_workspace()).as_posix()


def test_the_workspace_has_the_curated_file_and_notes_in_folders() -> None:
    assert (sample_workspace() / "MEMORY.md").is_file()
    assert {"projects", "recipes"} <= {p.name for p in (sample_workspace() / "memory").iterdir()}
    assert 100_000 <= sum(path.stat().st_size for path in notes()) <= 140_000


@each("path", notes())
def test_every_note_is_plain_utf8_markdown_with_unix_line_ends(path: Path) -> None:
    content = path.read_bytes()
    text = content.decode("utf-8")
    assert path.suffix == ".md"
    assert text.startswith("# ")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert not {"\r", "\0", "\ufeff", "\ufffd"} & set(text)


@each("path", daily_notes())
def test_every_daily_note_is_named_and_headed_by_a_day_of_the_six_weeks(path: Path) -> None:
    day = date.fromisoformat(path.stem)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert FIRST_DAY <= day <= LAST_DAY
    assert lines[0].startswith(f"# {day.isoformat()}")
    assert 15 <= len(lines) <= 60


def test_the_daily_notes_span_all_six_weeks() -> None:
    days = [date.fromisoformat(path.stem) for path in daily_notes()]
    assert 30 <= len(days) <= 36
    assert (days[0], days[-1]) == (FIRST_DAY, LAST_DAY)
    assert max(b - a for a, b in pairwise(days)) <= timedelta(days=2)


def main_script(text: str) -> str:
    """Japanese is recognised by its kana, so it is tested before Chinese; else the note is English or German."""
    latin = len(re.findall(r"[A-Za-z]", text))
    for lang in ("ja", "zh", "ru"):
        if len(re.findall(SCRIPTS[lang], text)) > latin:
            return lang
    return "de" if detect_language(text) == "german" else "en"


def test_some_notes_are_written_mostly_in_each_other_language() -> None:
    count = Counter(main_script(path.read_text(encoding="utf-8")) for path in notes())
    assert min(count[lang] for lang in (*SCRIPTS, "de")) >= 2
    assert count["en"] > len(notes()) / 2


def test_every_evidence_line_holds_exactly_the_quoted_text(questions: list[Question]) -> None:
    for question in questions:
        for evidence in question.evidence:
            file = sample_workspace() / evidence.path
            line = file.read_text(encoding="utf-8").split("\n")[evidence.line - 1]
            assert LIST_MARKER.sub("", line) == evidence.text, question.id


def test_ids_and_queries_are_unique_and_ids_name_the_language(questions: list[Question]) -> None:
    assert len({question.id for question in questions}) == len(questions)
    assert len({question.query for question in questions}) == len(questions)
    assert all(question.id.startswith(f"{question.lang}-") for question in questions)


def test_the_five_languages_have_their_share_of_the_questions(questions: list[Question]) -> None:
    count = Counter(question.lang for question in questions)
    assert set(count) == {"en", "zh", "ja", "ru", "de"}
    assert count["en"] >= 24
    assert count["de"] >= 20
    assert min(count[lang] for lang in SCRIPTS) >= 8


def test_natural_questions_are_written_in_their_language(questions: list[Question]) -> None:
    for question in questions:
        if question.lang in SCRIPTS and question.kind != "identifier":
            assert re.search(SCRIPTS[question.lang], question.query), question.id


def test_every_kind_of_question_occurs(questions: list[Question]) -> None:
    count = Counter(question.kind for question in questions)
    assert set(count) == {
        "natural",
        "keyword",
        "identifier",
        "multi",
        "temporal",
        "paraphrase",
    }
    assert count["paraphrase"] <= 6


def test_only_multi_questions_need_two_files(questions: list[Question]) -> None:
    for question in questions:
        files = {evidence.path for evidence in question.evidence}
        expected = 2 if question.kind == "multi" else 1
        assert len(question.evidence) == len(files) == expected, question.id


def test_no_question_copies_its_answer(questions: list[Question]) -> None:
    for question in questions:
        if question.kind != "identifier":
            quoted = [evidence.text for evidence in question.evidence]
            assert not any(question.query.rstrip("?？") in text for text in quoted), question.id


def test_every_evidence_line_of_the_hard_questions_holds_exactly_the_quoted_text(
    hard_questions: list[HardQuestion],
) -> None:
    for question in hard_questions:
        for evidence in question.evidence:
            file = sample_workspace() / evidence.path
            line = file.read_text(encoding="utf-8").split("\n")[evidence.line - 1]
            assert LIST_MARKER.sub("", line).strip() == evidence.text, question.id


def test_the_hard_questions_are_sixty_of_five_kinds_and_half_of_each_is_kept_for_testing(
    hard_questions: list[HardQuestion],
) -> None:
    kinds = {"paraphrase", "cross-lingual", "negation", "what changed", "latest"}
    count = Counter((question.kind, question.half) for question in hard_questions)
    assert count == {(kind, half): 6 for kind in kinds for half in ("choosing", "testing")}
    assert len({question.query for question in hard_questions}) == len(hard_questions) == 60


def test_a_hard_question_shares_no_content_word_with_its_answer(
    hard_questions: list[HardQuestion],
) -> None:
    for question in hard_questions:
        asked = set(QueryAnalyser().analyse(question.query).terms())
        for evidence in question.evidence:
            languages = ("english", detect_language(evidence.text))
            said = {
                term for one in languages for term in Analyser(one).terms(evidence.text).split()
            }
            assert not asked & said, question.id


def test_ten_questions_have_no_answer_in_the_sample_workspace() -> None:
    questions = msgspec.json.decode(ABSENT_QUESTIONS.read_bytes())
    assert len({one["query"] for one in questions}) == 10
