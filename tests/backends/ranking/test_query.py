"""The reading of a query: any words, in any order, of any script; nothing is syntax."""

from datetime import date

import pytest

from backends.interface import MAX_QUERY_CHARS
from backends.ranking.query import (
    AMERICAN_SHARE,
    COMPOUND_SHARE,
    MAX_CONCEPTS,
    Concept,
    QueryAnalyser,
    Weights,
)
from backends.text.analyser import Analyser
from backends.text.times import date_words
from fakes.each import each


def asked(query: str, *languages: str) -> list[str]:
    """Returns the first term of each concept."""
    concepts = QueryAnalyser(languages or ("english",)).analyse(query).concepts
    return [concept.alternatives[0] for concept in concepts]


@each(("query", "term"), [("the leaf", "leav"), ("the leaves", "leaf"), ("the leaf", "leaf")])
def test_a_leaf_is_found_among_leaves_and_the_other_way_round(query, term):
    (concept,) = QueryAnalyser(("english",)).analyse(query).concepts
    assert term in concept.alternatives


@each(
    ("query", "terms"),
    [
        ("How much did the dentist cost?", ["dentist", "cost"]),
        ("how many drops", ["drop"]),
        ("Which day is the report due?", ["day", "report", "due"]),
        ("the last time the router was restarted", ["router", "restart"]),
        ("how much", ["how", "much"]),
        ("too much salt", ["much", "salt"]),
    ],
)
def test_the_words_that_ask_are_not_asked_for(query, terms):
    assert asked(query) == terms


def test_a_question_asks_for_its_content_words():
    assert asked("When did we order the new membrane for the heating pump?") == [
        "order", "new", "membran", "heat", "pump",
    ]  # fmt: skip


@each(
    ("query", "words"),
    [
        ("Когда была тренировка?", ["тренировк"]),
        ("什么时候开会", ["候开", "开会"]),
        (
            "Wann hat der Lieferant über die Preise für den Tee gesprochen?",
            ["lieferant", "preis", "tee"],
        ),
        ("会議はいつですか", ["会議", "議は"]),
    ],
)
def test_question_words_of_other_languages_are_left_out_too(query, words):
    assert set(words) <= set(asked(query, "english", "german"))
    assert len(asked(query, "english", "german")) <= len(words) + 2


@each(
    ("question", "words"),
    [
        ("Πού είναι ο κωδικός του υπολογιστή;", "κωδικός υπολογιστή"),
        ("που ειναι ο κωδικος του υπολογιστη", "κωδικός υπολογιστή"),
        ("في أي يوم يُدفع الإيجار؟", "يوم يُدفع الإيجار"),
        ("איפה נמצאים הצמיגים של הרכב?", "נמצאים הצמיגים הרכב"),
        ("वाशिंग मशीन की वारंटी कब तक है?", "वाशिंग मशीन वारंटी"),
        ("До якого числа діє гарантія?", "числа діє гарантія"),
        ("кто ещё был на встрече", "встрече"),
        ("رمز وای‌فای مهمان چیست؟", "رمز وای‌فای مهمان"),
        ("গুদামের চাবি কোন প্রতিবেশীর কাছে?", "গুদামের চাবি প্রতিবেশীর"),
        ("வாடகை எவ்வளவு?", "வாடகை"),
        ("ลูกชายแพ้ยาอะไรบ้าง", "ลูกชายแพ้ยา"),
    ],
)
def test_function_words_of_other_scripts_are_not_asked_for_with_or_without_their_marks(
    question, words
):
    assert asked(question) == asked(words)


@each("question", ["телефон Коли", "رقم أم علي"])
def test_a_name_that_is_a_function_word_elsewhere_is_asked_for(question):
    assert len(asked(question)) == len(question.split())


@each("query", ["to be or not to be", "who are you", "the", "что это", "什么"])
def test_a_query_of_stop_words_alone_asks_for_them(query):
    assert asked(query)


def test_a_pasted_run_of_letters_that_nobody_reads_is_not_looked_for_in_compounds():
    query = QueryAnalyser(("german",)).analyse("Versicherung " + "q" * (MAX_QUERY_CHARS - 20))
    assert [word for _, word in query.words] == ["versicherung"]


def test_words_that_are_repeated_count_once():
    assert asked("pump Pump pumps PUMP!") == asked("pump")


@each("query", ["", " \n\t ", "?!…", '"" () ^ * -', "\x00\x01", "\u0301", "ـــ"])
def test_a_query_without_words_asks_for_nothing(query):
    analysed = QueryAnalyser(["english"]).analyse(query)
    assert analysed.concepts == ()
    assert analysed.terms() == ()


@each(("query", "term"), [("🎉", "🎉"), ("猫", "猫"), ("x", "x"), ("7", "7"), ("→", "→")])
def test_one_character_is_a_query(query, term):
    assert asked(query) == [term]


def test_an_identifier_asks_for_the_whole_first_and_for_its_parts_together_as_much():
    whole, *parts = QueryAnalyser(["english"]).analyse("memorySearch.query.hybrid").concepts
    assert whole.alternatives[0] == "memorysearchqueryhybrid"
    assert whole.share == 1
    assert len(parts) >= 3
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_search_syntax_is_plain_text():
    assert asked('"heating" AND pump* NEAR(valve, 3) -boiler col:value ^start') == [
        "heat", "pump", "near", "valv", "3", "boiler", "colvalue", "col", "valu", "start",
    ]  # fmt: skip


def test_a_word_stands_for_its_stems_in_every_language_of_the_index():
    (concept,) = QueryAnalyser(["english", "german"]).analyse("Häuser").concepts
    assert {"haus", "hauser"} & set(concept.alternatives)
    assert len(concept.alternatives) >= 2


def test_a_hundred_thousand_characters_are_read_only_so_far_and_only_so_many_concepts_kept():
    words = " ".join(f"word{number}" for number in range(20_000))
    assert len(words) > 100_000
    concepts = QueryAnalyser(["english", "german"]).analyse(words).concepts
    assert 0 < len(concepts) <= MAX_CONCEPTS
    beginning = QueryAnalyser(["english", "german"]).analyse(words[:MAX_QUERY_CHARS]).concepts
    assert concepts == beginning


def test_one_endless_word_is_one_concept():
    assert len(asked("x" * 100_000)) == 1


def test_the_same_query_gives_the_same_concepts_each_time():
    analyser = QueryAnalyser(["english"])
    query = "Anna's sqlite-vec 会议室 naïve café"
    assert analyser.analyse(query) == analyser.analyse(query)
    assert analyser.analyse(query) == QueryAnalyser(["english"]).analyse(query)


TODAY = date(2026, 2, 10)


def times_of(query: str) -> list[Concept]:
    return [one for one in QueryAnalyser().analyse(query, TODAY).concepts if one.time]


def test_days_that_a_question_speaks_of_are_asked_for_by_their_dates():
    (found,) = times_of("What came between 6 and 8 February 2026?")
    assert found.alternatives == ("2026_02_06", "2026_02_07", "2026_02_08")
    stored = set(Analyser().terms(date_words(date(2026, 2, 7))).split())
    assert stored & set(found.alternatives)


def test_a_question_without_a_time_asks_for_the_same_on_every_day():
    question = "Who services the boiler?"
    assert QueryAnalyser().analyse(question, TODAY) == QueryAnalyser().analyse(question)


def test_a_day_that_is_written_as_notes_are_named_is_asked_for_once():
    assert times_of("2026-02-08") == []
    assert times_of("8.2.2026") == []
    assert "2026_02_08" in QueryAnalyser().analyse("8.2.2026").concepts[0].alternatives
    assert times_of("8. 2. 2026") != []


def test_days_that_no_chunk_speaks_of_are_not_asked_for():
    query = QueryAnalyser().analyse("boiler last week", TODAY)
    (known,) = [one for one in query.among({"2026_02_03": 2}).concepts if one.time]
    assert known.alternatives == ("2026_02_03",)
    assert [one for one in query.among({"boiler": 1}).concepts if one.time] == []
    assert query.among({}).concepts == QueryAnalyser().analyse("boiler last week").concepts


def test_days_are_as_rare_as_they_are_together_and_no_part_of_what_is_asked_for_otherwise():
    word, days = Concept(("c",)), Concept(("a", "b"), time="last week")
    weights = Weights([word, days], {"a": 10, "b": 20, "c": 30}, 100)
    assert weights.by_concept[0] == weights.by_concept[1] == weights.total
    assert weights.coverage(0b01) == 1.0 < weights.coverage(0b11)


def test_a_month_that_is_named_is_found_by_its_words_alone():
    assert times_of("What did Anna do in November 2022?") == []
    assert times_of("am 8. Februar") == []
    assert QueryAnalyser().analyse("in November 2022", TODAY).times != ()


MONTHS_AS_WRITTEN = [
    ("Dec", "December"),
    ("Dez", "Dezember"),
    ("Sept", "sep", "September"),
    ("mar", "March"),
]


@each(
    ("asked", "said"),
    [(one, other) for names in MONTHS_AS_WRITTEN for one in names for other in names],
)
def test_a_month_is_found_by_its_name_in_full_and_abbreviated(asked, said):
    (month, _) = QueryAnalyser(["english"]).analyse(f"{asked} 14", TODAY).concepts
    assert not set(month.alternatives).isdisjoint(Analyser("english").terms(said).split())


@each("asked", ["what did Jan say", "may I march", "Sep Dec"])
def test_a_word_that_means_no_month_there_is_no_other_name_of_one(asked):
    query = QueryAnalyser(["english"]).analyse(asked, TODAY)
    assert all(len(one.alternatives) == 1 for one in query.concepts)


def shares_of(question: str, text: str) -> list[float]:
    """Returns the shares of the weaker evidence for a question that a text holds."""
    counts = dict.fromkeys(Analyser("english").terms(text).split(), 1)
    query = QueryAnalyser(["english"]).analyse(question, TODAY).among(counts)
    return [one.share for one in query.concepts if one.instead_of]


@each("question", ["12 March", "March 12, 2026", "on Mar 12th", "12. März", "2026-03-12"])
def test_a_day_is_found_where_it_is_written_in_digits(question):
    for text in ("12.03.", "12.3.", "12.3.26", "12/03/2026"):
        assert shares_of(question, text) == [COMPOUND_SHARE]
    for text in ("3/12", "03-12", "3/12/2026"):
        assert shares_of(question, text) == [AMERICAN_SHARE]
    for text in ("12.04.", "13.03.", "12 March", "3.1.2"):
        assert shares_of(question, text) == []


def test_a_number_with_one_decimal_is_no_day():
    assert shares_of("5 January", "1.5 hours of Dolby 5.1") == []
    assert shares_of("5 January", "05.01.") == shares_of("5 January", "5.1.26") == [COMPOUND_SHARE]


def test_a_day_without_a_year_is_found_with_that_of_a_year_around():
    assert shares_of("12 March", "12.03.2025") == shares_of("12 March", "12.03.27") != []
    assert shares_of("12 March", "12.03.2019") == shares_of("March", "12.03.") == []
    assert shares_of("2026-03-12", "12.03.25") == []


def test_of_a_list_of_days_only_the_first_are_looked_for_in_digits():
    listed = QueryAnalyser(["english"]).analyse("2026-03-12 " * 2 + "2026-03-13 " * 50, TODAY)
    assert len(listed.related) == 4


@each(
    ("asked", "said"),
    [("allergies", "allergic"), ("allergic", "allergies"), ("painter", "paints"), ("bakes", "baker"),
     ("therapist", "therapy"), ("visited", "visitors"), ("musical", "music")],
)  # fmt: skip
def test_a_word_is_related_to_those_that_are_derived_from_it(asked, said):
    query = QueryAnalyser(["english"]).analyse(asked)
    (stem,) = Analyser("english").terms(said).split()
    (concept, *weaker) = query.among({stem: 1}).concepts
    assert stem in concept.alternatives or [one.alternatives for one in weaker] == [(stem,)]
    assert all(one.instead_of == concept.alternatives[0] for one in weaker)
    assert query.among({}).concepts == (concept,)


@each(
    ("asked", "said"),
    [("Which time zone am I in?", "timezone"), ("where do I log in", "login"), ("how to back up the phone", "backups"),
     ("User Name", "username")],
)  # fmt: skip
def test_two_english_words_may_be_written_as_one(asked, said):
    query = QueryAnalyser(["english"]).analyse(asked)
    (stem,) = Analyser("english").terms(said).split()
    weaker = [one for one in query.among({stem: 1}).concepts if one.instead_of]
    assert weaker
    assert all(one.alternatives == (stem,) for one in weaker)
    assert not [one for one in query.among({}).concepts if one.instead_of]


@each(
    ("asked", "words"),
    [("犬の名前", ["犬"]), ("窓を洗う", ["窓", "洗"]), ("赤い車", ["赤", "車"]), ("人々の会社", []),
     ("狗的名字", ["狗"]), ("那只猫", ["猫"]), ("会議室の予約", []), ("图书馆的书", ["书"]),
     ("개의 이름", ["개"]), ("한국은", []), ("犬", []), ("ประชุม", [])],
)  # fmt: skip
def test_a_word_of_one_character_is_asked_for_beside_others_too(asked, words):
    query = QueryAnalyser().analyse(asked)
    assert [one.alternatives[0] for one in query.related] == words
    assert all(one.is_prefix and one.alternatives[0] in one.instead_of for one in query.related)
    assert len(QueryAnalyser().analyse("犬の猫と馬が" * 200).related) <= 12


def test_weaker_evidence_counts_its_share_where_the_word_itself_is_not():
    word, weaker = Concept(("a",)), Concept(("b",), 0.5, instead_of="a")
    weights = Weights([word, weaker], {"a": 10, "b": 20}, 100)
    assert weights.coverage(0b01) == weights.coverage(0b11) == 1.0
    assert weights.coverage(0b10) == 0.5
    assert weights.limited(0.9, [0b10]) == pytest.approx(0.3 * 0.5)
    assert weights.limited(0.9, [0b11]) == 0.9


SAME = [
    ("1,200", "1200", "1.200"),
    ("1,250,000", "1250000", "1.250.000", "Rp1.250.000", "1.250.000đ"),
    ("1180", "1,180.00", "1.180,00"),
    ("1250.50", "1,250.50", "1.250,50"),
    ("5pm", "17:00", "5:00pm", "17h", "17h00"),
    ("14:30", "14h30", "2:30pm"),
    ("9:05", "09:05", "9:05am"),
    ("2026-03-05", "05.03.2026", "5.3.2026"),
    ("3rd", "third"),
]


@each(("asked", "said"), [(one, other) for forms in SAME for one in forms for other in forms])
def test_a_number_is_found_however_it_is_written(asked, said):
    (whole, *_) = QueryAnalyser(["english"]).analyse(asked).concepts
    assert not set(whole.alternatives).isdisjoint(Analyser("english").terms(said).split())


@each("asked", ["at 7 pm", "7 PM", "by 7 p.m. at last", "7:00 pm"])
@each("said", ["7pm", "7 pm", "19:00", "7:00pm", "19h"])
def test_a_time_of_day_is_found_however_it_is_written_as_two_words(asked, said):
    concepts = QueryAnalyser(["english"]).analyse(asked).concepts
    found = set(Analyser("english").terms(said).split())
    (half,) = (one for one in concepts if one.alternatives[0] == "pm")
    assert not found.isdisjoint(half.alternatives)
    assert [one for one in concepts if one is not half and not found.isdisjoint(one.alternatives)]


@each("asked", ["1.7 pm", "17 pm", "7 pages", "pm 7"])
def test_other_numbers_are_no_time_of_day(asked):
    terms = QueryAnalyser(["english"]).analyse(asked).terms()
    assert "7pm" not in terms and "19_00" not in terms


@each("asked", ["week 9", "in KW 09", "in Kalenderwoche 9", "Woche 9"])
@each("said", ["KW 9", "W09", "2026-W09", "week 9", "Kalenderwoche 09"])
def test_a_calendar_week_is_found_however_it_is_written(asked, said):
    concepts = QueryAnalyser(["english"]).analyse(asked).concepts
    found = set(Analyser("english").terms(said).split())
    asks = [one for one in concepts if one.alternatives[0] not in {"woch", "in"}]
    assert all(not found.isdisjoint(one.alternatives) for one in asks)


def test_a_whole_hash_is_found_by_its_beginning_in_a_note():
    (concept,) = QueryAnalyser().analyse("4be81d7aa0c1f00b7d5e6f7a8b9c0d1e2f3a4b5c").concepts
    assert {"4be81d7", "4be81d7aa0c1"} <= set(concept.alternatives)


@each("asked", ["Wer wohnt in Zimmer 12 am Bahnhof?", "Welcher Zug fährt von Gleis 7 am Sonntag?"])
def test_a_german_am_is_no_time_of_day(asked):
    query = QueryAnalyser(["german"]).analyse(asked)
    assert query.language == "german"
    assert {"12am", "7am", "00_00", "07_00"}.isdisjoint(query.terms())


def test_a_long_list_of_numbers_is_no_number():
    listed = ",".join(str(100 + number % 900) for number in range(2_000))
    (whole, *_) = QueryAnalyser(["english"]).analyse(listed).concepts
    assert len(whole.alternatives) == 1


@each(
    ("asked", "said"), [("1.20", "120"), ("0.1.9", "019"), ("2026", "2.026"), ("5pm", "5:00"), ("1.5", "15")]
)  # fmt: skip
def test_other_numbers_are_other_numbers(asked, said):
    (whole, *_) = QueryAnalyser(["english"]).analyse(asked).concepts
    wholes = Analyser("english").concepts(said)[0]
    assert set(whole.alternatives).isdisjoint(wholes)


def test_a_name_that_asks_in_a_language_of_other_notes_is_asked_for():
    analyser = QueryAnalyser(["english", "vietnamese", "spanish"])
    assert [one.alternatives[0] for one in analyser.analyse("AI tools").among({}).concepts] == [
        "ai",
        "tool",
    ]
    asked = analyser.analyse("birthday of Sin").among({}).concepts
    assert [one.alternatives[0] for one in asked] == ["birthday", "sin"]


def test_a_day_in_chinese_numerals_is_found_as_it_is_written():
    concepts = QueryAnalyser(["english"]).analyse("七月十二日", date(2026, 8, 1)).concepts
    assert {"七月", "十二"} <= {one.alternatives[0] for one in concepts}
