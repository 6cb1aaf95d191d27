"""Words: which spellings and inflections meet in one term."""

from backends.text.analyser import Analyser, tokens
from fakes.each import each


@each(
    ("language", "one", "other"),
    [
        ("english", "meetings", "meeting"),
        ("english", "bought", "buying"),
        ("english", "children", "child"),
        ("english", "wrote", "written"),
        ("english", "Running", "run"),
        ("english", "lives", "live"),
        ("english", "leaves", "leaving"),
        ("german", "Häuser", "Haus"),
        ("french", "réunions", "réunion"),
        ("spanish", "canciones", "canción"),
        ("portuguese", "cantando", "cantar"),
        ("italian", "ricette", "ricetta"),
        ("dutch", "vergaderingen", "vergadering"),
        ("swedish", "bilarna", "bilar"),
        ("swedish", "flickan", "flickor"),
        ("swedish", "romanen", "roman"),
        ("turkish", "toplantılar", "toplantı"),
        ("polish", "spotkania", "spotkanie"),
        ("indonesian", "makanan", "makan"),
        ("czech", "dovolenou", "dovolená"),
        ("hungarian", "óvodába", "óvoda"),
        ("romanian", "instalatorul", "instalator"),
        ("english", "тренировки", "тренировка"),
        ("english", "συναντήσεις", "συνάντηση"),
        ("english", "लड़कियाँ", "लड़कियों"),
        ("english", "الكتاب", "كتاب"),
    ],
)
def test_inflections_meet_and_other_scripts_need_no_language(language, one, other, terms_of):
    assert set(terms_of(one, language)) & set(terms_of(other, language))


@each(("written", "plain"), [("café", "cafe"), ("Zürich", "Zurich"), ("réunion", "reunion")])
def test_a_word_with_diacritics_is_also_found_without_them(written, plain, terms_of):
    assert set(terms_of(plain)) <= set(terms_of(written))


@each(
    ("written", "terms"),
    [
        ("Anna's", "anna"),
        ("Anna’s", "anna"),
        ("don't", "dont"),
        ("l'homme", "homm"),
        ("l’homme", "homm"),
        ("dell'arte", "art"),
        ("dall'avvocato", "avvocato"),
        ("quell'elettricista", "elettricista"),
        ("jusqu’aquarium", "aquarium"),
        ("don't", "dont"),
        ("They're", "theyr"),
        ("rock'n'roll", "rocknrol"),
        ("'quoted'", "quot"),
        ("James'", "jame"),
        ("'", ""),
        ("it's", "it"),
    ],
)
def test_apostrophes_join_elide_or_end_a_word(written, terms, terms_of):
    assert " ".join(terms_of(written)) == terms


@each(
    ("written", "name"),
    [
        ("İzmir'deki", "izmir"),
        ("Kadıköy’de", "Kadıköy"),
        ("Lizbon'a", "lizbon"),
        ("IKEA'nın", "IKEA"),
    ],
)
def test_a_name_is_found_whatever_ending_stands_after_its_apostrophe(written, name, terms_of):
    for language in ("english", "turkish"):
        assert set(terms_of(written, language)) & set(terms_of(name, language))


@each(
    ("written", "word"),
    [
        ("לשרברב", "שרברב"),
        ("והבית", "בית"),
        ("בווינה", "וינה"),
        ("המכונית", "במכונית"),
        ("שלום", "שלום"),
    ],
)
def test_a_hebrew_word_is_found_behind_what_is_written_together_with_it(written, word, terms_of):
    assert set(terms_of(written)) & set(terms_of(word))


def test_a_hebrew_word_of_three_letters_stays_whole(terms_of):
    assert terms_of("לחם") == ["לחם"]


def test_an_elided_article_does_not_hide_the_noun_in_any_case(terms_of):
    assert terms_of("L’Homme D'accord", "french") == terms_of("homme accord", "french")


@each(
    ("text", "terms"),
    [
        ("कार्यालय में बैठक", 3),
        ("اجتماع الفريق غدا", 3),
        ("ομάδα συνάντηση", 2),
        ("བཀྲ་ཤིས་བདེ་ལེགས", 4),
        ("ދިވެހި ބަސް", 2),
        ("בית־ספר", 2),
        ("Հայաստան Երևան", 2),
    ],
)
def test_vowel_signs_do_not_break_words_of_spaced_scripts(text, terms, terms_of):
    assert len(terms_of(text)) == terms


def test_terms_keep_the_order_and_the_repetitions_of_the_text(terms_of):
    assert (
        terms_of("boiler pump, boiler! pump? Boilers") == "boiler pump boiler pump boiler".split()
    )


@each("text", ["", " \n\t", '?!… ,;()[]{}"<>|\\', "\x00\x1b\x7f", "\u0301 ـــ \u05b0"])
def test_text_without_words_has_no_terms(text, terms_of):
    assert terms_of(text) == []


def test_marks_alone_give_neither_terms_nor_concepts():
    for text in ("\u0301", "ـــ", "\u0301-\u0301", "\u05b0/\u0640"):
        assert Analyser().terms(text) == ""
        assert [Analyser().concepts(token) for token in tokens(text)] in ([], [()])


def test_a_word_over_the_length_limit_is_found_by_its_beginning(terms_of):
    (term,) = terms_of("x" * 5000)
    assert term == "x" * 64
    assert terms_of("x" * 64 + "y") == [term]


@each(
    ("text", "terms"),
    [
        ("🎉 party", ["🎉", "parti"]),
        ("👍🏽", ["👍", "🏽"]),
        ("👨‍👩‍👧", ["👨", "👩", "👧"]),
        ("❤️", ["❤"]),
        ("a → b", ["a", "→", "b"]),
        ("🇩🇪", ["🇩", "🇪"]),
    ],
)
def test_pictographs_are_terms_of_their_own(text, terms, terms_of):
    assert terms_of(text) == terms


def test_frames_and_bars_drawn_with_characters_are_not_terms(terms_of):
    assert terms_of("├── notes ████░░ ⠋ ═══") == ["note"]


def test_the_terms_of_a_word_do_not_depend_on_what_was_analysed_before():
    analyser = Analyser()
    first = analyser.terms("meetings café OPENAI_API_KEY")
    for number in range(100_001):
        analyser.terms(f"w{number}")
    assert analyser.terms("meetings café OPENAI_API_KEY") == first
