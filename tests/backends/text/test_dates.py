"""A note's date is found by the words that people use for it."""

from datetime import date

from backends.ranking.query import QueryAnalyser
from backends.text.analyser import Analyser
from backends.text.times import date_words
from fakes.each import each


@each(
    "query",
    ["2026-02-08", "8 February", "February 2026", "Sunday", "8. Februar", "février", "8 febrero",
     "fevereiro", "8 февраля", "2月8日", "2월 8일"],
)  # fmt: skip
def test_a_day_is_found_by_its_names(query):
    stored = set(Analyser().terms(date_words(date(2026, 2, 8))).split())
    for concept in QueryAnalyser(["english"]).analyse(query).concepts:
        assert stored & set(concept.alternatives), concept


def test_every_month_and_weekday_has_its_name():
    words = [date_words(date(2024, month, month + 1)) for month in range(1, 13)]
    assert len({tuple(text.split()) for text in words}) == 12
    assert "December" in words[11] and "декабря" in words[11] and "12月13日" in words[11]


def test_no_date_has_no_words():
    assert date_words(None) == ""
