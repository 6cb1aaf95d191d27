"""Questions that ask for a time, and lines that give one."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from backends.text.times import asks_last, asks_when, date_in, days_in, mentions_time
from fakes.each import each

TODAY = date(2026, 11, 19)
"""A Thursday."""


def spans(question: str) -> list[tuple[str, str]]:
    return [(one.first.isoformat(), one.last.isoformat()) for one in days_in(question, TODAY)]


@each(
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
        "Kdy přijde zubař?",
        "Ne zaman geldi?",
        "Mikor jön?",
        "Πότε έρχεται;",
        "متى يصل؟",
        "מתי הוא מגיע?",
        "Khi nào đi?",
    ],
)
def test_a_question_for_a_time_is_known_in_the_languages_of_notes(question):
    assert asks_when(question)


@each(
    "question", ["Who whenever called?", "boiler membrane", "Wer war da?", "谁来了？", "誰が来た？"]
)
def test_other_questions_ask_for_no_time(question):
    assert not asks_when(question)


@each(
    "question",
    [
        "When did I last see Anna?",
        "last time Anna called",
        "my latest weight",
        "the most recent invoice",
        "das letzte Mal beim Zahnarzt",
        "mein neuestes Gewicht",
        "la dernière fois chez Anna",
        "la última vez en Lisboa",
    ],
)
def test_a_question_for_what_was_last_is_known_in_the_languages_of_notes(question):
    assert asks_last(question)


@each(
    "question",
    [
        "Anna's last name",
        "due on Friday at the latest",
        "What happened last week?",
        "node:latest",
        "cat latest.log",
    ],
)
def test_not_all_that_is_last_is_the_newest(question):
    assert not asks_last(question)


@each(
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
    assert mentions_time(line)


@each("line", ["", "The boiler is old.", "version 12.3", "茶叶的价格", "lasting"])
def test_other_lines_tell_none(line):
    assert not mentions_time(line)


PARTS = [
    "may",
    "May",
    "maybe",
    "3rd",
    "12:30",
    "1.5.",
    "2023",
    "20234",
    "7",
    "x",
    "_",
    "'s",
    "-",
    " ",
]


@given(parts=st.lists(st.sampled_from(PARTS), max_size=8))
def test_a_line_of_plain_letters_tells_what_it_tells_beside_others(parts):
    line = "".join(parts)
    assert mentions_time(line) == mentions_time(line + " ß")


@each(
    ("question", "first", "last"),
    [
        ("What did Anna do in November 2022?", "2022-11-01", "2022-11-30"),
        ("between 11 and 15 August 2023", "2023-08-11", "2023-08-15"),
        ("from the 11th to the 15th of August 2023", "2023-08-11", "2023-08-15"),
        ("between May 3 and June 7, 2023", "2023-05-03", "2023-06-07"),
        ("between May and July 2023", "2023-05-01", "2023-07-31"),
        ("on March 5th, 2024", "2024-03-05", "2024-03-05"),
        ("2026-02-08", "2026-02-08", "2026-02-08"),
        ("am 8.2.2026", "2026-02-08", "2026-02-08"),
        ("What did I do yesterday?", "2026-11-18", "2026-11-18"),
        ("the day before yesterday", "2026-11-17", "2026-11-17"),
        ("last Tuesday", "2026-11-17", "2026-11-17"),
        ("next Friday", "2026-11-20", "2026-11-20"),
        ("last week", "2026-11-09", "2026-11-15"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("this weekend", "2026-11-21", "2026-11-22"),
        ("in the last 3 days", "2026-11-16", "2026-11-19"),
        ("two weeks ago", "2026-11-02", "2026-11-08"),
        ("Was haben wir letzten Dienstag besprochen?", "2026-11-17", "2026-11-17"),
        ("gestern", "2026-11-18", "2026-11-18"),
        ("vor zwei Tagen", "2026-11-17", "2026-11-17"),
        ("vom 11. bis 15. August 2023", "2023-08-11", "2023-08-15"),
        ("am letzten Wochenende", "2026-11-14", "2026-11-15"),
        ("la semana pasada", "2026-11-09", "2026-11-15"),
        ("no mês passado", "2026-10-01", "2026-10-31"),
        ("la semaine dernière", "2026-11-09", "2026-11-15"),
        ("Что я делал в прошлом месяце?", "2026-10-01", "2026-10-31"),
        ("вчера", "2026-11-18", "2026-11-18"),
        ("два дня назад", "2026-11-17", "2026-11-17"),
        ("с 11 по 15 августа 2023", "2023-08-11", "2023-08-15"),
        ("上周寄了什么？", "2026-11-09", "2026-11-15"),
        ("上周二", "2026-11-10", "2026-11-10"),
        ("上个月", "2026-10-01", "2026-10-31"),
        ("3天前", "2026-11-16", "2026-11-16"),
        ("2023年8月11日", "2023-08-11", "2023-08-11"),
        ("先週の練習は？", "2026-11-09", "2026-11-15"),
        ("先週の火曜日", "2026-11-10", "2026-11-10"),
        ("昨日", "2026-11-18", "2026-11-18"),
        ("2023年8月11日から15日まで", "2023-08-11", "2023-08-15"),
        ("지난주에 뭐 했어?", "2026-11-09", "2026-11-15"),
        ("어제", "2026-11-18", "2026-11-18"),
        ("cosa ho fatto martedì scorso", "2026-11-17", "2026-11-17"),
        ("due settimane fa", "2026-11-02", "2026-11-08"),
        ("met wie sprak ik afgelopen dinsdag", "2026-11-17", "2026-11-17"),
        ("vorige maand", "2026-10-01", "2026-10-31"),
        ("förra tisdagen", "2026-11-17", "2026-11-17"),
        ("for tre dager siden", "2026-11-16", "2026-11-16"),
        ("w zeszły wtorek", "2026-11-17", "2026-11-17"),
        ("14 marca 2026", "2026-03-14", "2026-03-14"),
        ("minulý týden", "2026-11-09", "2026-11-15"),
        ("минулого вівторка", "2026-11-17", "2026-11-17"),
        ("geçen salı", "2026-11-17", "2026-11-17"),
        ("3 gün önce", "2026-11-16", "2026-11-16"),
        ("viime viikolla", "2026-11-09", "2026-11-15"),
        ("múlt kedden", "2026-11-17", "2026-11-17"),
        ("την περασμένη Τρίτη", "2026-11-17", "2026-11-17"),
        ("minggu lalu", "2026-11-09", "2026-11-15"),
        ("3 hari yang lalu", "2026-11-16", "2026-11-16"),
        ("الشهر الماضي", "2026-10-01", "2026-10-31"),
        ("ביום שלישי שעבר", "2026-11-17", "2026-11-17"),
        ("בשבוע שעבר", "2026-11-09", "2026-11-15"),
    ],
)
def test_a_question_speaks_of_days_relative_to_the_day_it_is_asked(question, first, last):
    assert spans(question) == [(first, last)]


@each(
    "question",
    [
        "Was war im März?",
        "cosa abbiamo fatto a marzo",
        "in maart",
        "vad gjorde vi i mars",
        "w marcu",
        "v březnu",
        "у березні",
        "martta ne yaptık",
        "maaliskuussa",
        "márciusban",
        "τον Μάρτιο",
        "bulan Maret",
        "في مارس",
        "במרץ",
        "三月",
    ],
)
def test_a_month_without_a_year_is_that_of_the_last_this_or_the_next(question):
    assert spans(question) == [
        ("2025-03-01", "2025-03-31"),
        ("2026-03-01", "2026-03-31"),
        ("2027-03-01", "2027-03-31"),
    ]


def test_a_date_with_slashes_is_read_with_the_day_first_and_with_the_month_first():
    assert spans("02/08/2026") == [("2026-08-02", "2026-08-02"), ("2026-02-08", "2026-02-08")]
    assert spans("02/18/2026") == [("2026-02-18", "2026-02-18")]


@each(
    "question",
    [
        "Who services the boiler?",
        "What may the assistant not send?",
        "Ms March said so",
        "the second part",
        "version v1.2.23 at 10:30",
        "32.13.2026",
        "2026-13-45",
        "month 13月",
        "qual marca de café",
        "wie de leden zijn",
        "jaka marca rowerów",
        "pazardaki ocak",
        "",
    ],
)
def test_a_question_that_names_no_day_speaks_of_none(question):
    assert spans(question) == []


def test_a_range_may_end_with_the_calendar():
    assert spans("from 9999-12-01 to 9999-12-31") == [("9999-12-01", "9999-12-31")]


def test_a_mention_keeps_the_words_of_the_question():
    (found,) = days_in("Who came LAST  Tuesday evening?", TODAY)
    assert found.text == "last tuesday"


@each("question", ["in maart", "三月", "last Tuesday"])
def test_days_are_looked_for_by_number_where_notes_do_not_have_their_names(question):
    assert not any(one.is_named for one in days_in(question, TODAY))


@each(
    "name",
    [
        "home-assistant-2026.3.1",
        "Home Assistant 2026.10.2 upgrade",
        "v 2026.1.2.3",
        "In 2025 march 14 people",
    ],
)
def test_a_number_of_a_version_is_no_date(name):
    assert date_in(name) is None


@each(
    ("name", "day"),
    [
        ("Q3/2026年3月5日", date(2026, 3, 5)),
        ("회의/2026년 3월 5일", date(2026, 3, 5)),
        ("2026. 3. 5. 회의", date(2026, 3, 5)),
        ("2026/3/5", date(2026, 3, 5)),
    ],
)
def test_a_day_with_its_year_first_is_a_date(name, day):
    assert date_in(name) == day
