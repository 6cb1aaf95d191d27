"""Questions that ask for a time, and lines that tell one."""

import pytest

from backends.text.times import asks_when, tells_time


@pytest.mark.parametrize(
    "question",
    [
        "When did Anna call?",
        "what date is the exam",
        "Wann war der Zahnarzt da?",
        "Quand est la visite ?",
        "¿Cuándo llega?",
        "Quando foi a consulta?",
        "Когда приходил мастер?",
        "什么时候寄茶叶？",
        "いつ出発する？",
        "언제 출발해?",
    ],
)
def test_a_question_for_a_time_is_known_in_the_languages_of_notes(question):
    assert asks_when(question)


@pytest.mark.parametrize(
    "question", ["Who whenever called?", "boiler membrane", "Wer war da?", "谁来了？", "誰が来た？"]
)
def test_other_questions_ask_for_no_time(question):
    assert not asks_when(question)


@pytest.mark.parametrize(
    "line",
    [
        "on 2026-02-08",
        "at 10:30",
        "the 3rd",
        "last week",
        "Yesterday it rained.",
        "im März",
        "am 3. 4.",
        "в марте",
        "上周寄出",
        "先週届いた",
        "지난주에",
        "3月27日",
    ],
)
def test_a_line_that_names_a_day_or_a_distance_from_today_tells_a_time(line):
    assert tells_time(line)


@pytest.mark.parametrize(
    "line", ["", "The boiler is old.", "version 12.3", "茶叶的价格", "lasting"]
)
def test_other_lines_tell_none(line):
    assert not tells_time(line)
