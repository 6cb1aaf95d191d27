"""Misspellings and inflections: which words are taken for which, and their weights."""

from backends.ranking.query import RELATED_SHARE, QueryAnalyser
from backends.ranking.spelling import SLIP_SHARE, Misspelt, is_inflection, is_slip
from fakes.each import each


@each(
    ("word", "other"),
    [("hartman", "hartmann"), ("hartmann", "hartman"), ("recieve", "receive"), ("seperate", "separate"),
     ("boiler", "boilre"), ("occured", "occurred"), ("тренировка", "тринировка")],
)  # fmt: skip
def test_one_letter_or_two_that_changed_places_are_a_slip(word, other):
    assert is_slip(word, other) and is_slip(other, word)


@each(
    ("word", "other"),
    [
        ("boiler", "boiler"),
        ("cable", "table"),
        ("boiler", "broiled"),
        ("abcde", "abedc"),
        ("boiler", "boil"),
    ],
)
def test_other_words_are_other_words(word, other):
    assert not is_slip(word, other)


def meant(question, vocabulary, counts=()):
    """Returns for each misspelt word the words of the vocabulary that are taken for it."""
    misspelt = Misspelt(QueryAnalyser().analyse(question), dict(counts))
    longer = (
        [
            word
            for word in vocabulary
            if word != part and (word.endswith(part) if is_end else word.startswith(part))
        ]
        for part, is_end in misspelt.parts
    )
    concepts = misspelt.found(longer)
    assert all(one.share == SLIP_SHARE for one in concepts)
    found = {
        one.instead_of: [term for term in one.alternatives if term in vocabulary]
        for one in concepts
    }
    return {word: terms for word, terms in found.items() if terms}


def test_a_word_that_no_text_holds_is_looked_for_with_a_slip_in_either_half():
    vocabulary = ["hartmann", "harmony", "hartwig", "haertman", "bartman"]
    assert meant("Hartman", vocabulary) == {"hartman": ["haertman", "hartmann"]}


@each("word", ["meyer", "mary", "myaer", "maayer", "myer"])
def test_a_slip_in_the_second_letter_of_a_short_word_is_looked_for_letter_by_letter(word):
    assert meant("Mayer", [word]) == ({"mayer": [word]} if is_slip("mayer", word) else {})
    assert is_slip("mayer", word) is (word != "mary")


def test_letter_by_letter_only_the_first_word_is_looked_for_for_which_nothing_else_is_found():
    query = QueryAnalyser().analyse("Mayer beker meson petch")
    longer = [["mayor"], *[[]] * 7]
    found = {one.instead_of: one.alternatives for one in Misspelt(query, {}).found(longer)}
    assert found.pop("mayer") == ("mayor",)
    assert list(found) == ["beker"]
    assert "baker" in found["beker"]


@each(
    ("word", "other"),
    [
        ("বোনের", "বোন"),
        ("ডালে", "ডালের"),
        ("টায়ার", "টায়ারগুলো"),
        ("పాస్వర్డ్", "పాస్వర్డులు"),
        ("პაროლია", "პაროლი"),
    ],
)
def test_words_that_differ_in_their_ends_alone_may_be_inflections(word, other):
    assert is_inflection(word, other) and is_inflection(other, word)


@each(("word", "other"), [("বোন", "বোন"), ("বাটি", "বাড়ি"), ("কাল", "কালকেরটা"), ("গাড়ি", "বাড়ি")])
def test_other_beginnings_and_much_longer_words_are_no_inflections(word, other):
    assert not is_inflection(word, other)


def inflections(question, vocabulary, counts=()):
    misspelt = Misspelt(QueryAnalyser().analyse(question), dict(counts))
    longer = [
        [one for one in vocabulary if one != part and one.startswith(part)]
        for part, _ in misspelt.parts
    ]
    found = misspelt.found(longer)
    return {
        one.instead_of: [term for term in one.alternatives if term in vocabulary]
        for one in found
        if one.share == RELATED_SHARE
    }


def test_a_word_of_a_script_without_a_stemmer_is_found_in_its_other_forms():
    assert inflections("ডালের", ["ডালে", "ডাল", "ডালিম"], {"ডালের": 1}.items()) == {
        "ডালের": ["ডাল", "ডালে"]
    }
    assert inflections("ბოილერის", ["ბოილერი", "ბოლო"]) == {"ბოილერის": ["ბოილერი"]}


def test_where_there_is_a_stemmer_other_forms_are_those_of_words_that_no_text_holds():
    assert inflections("एलर्जिक", ["एलर्ज"]) == {"एलर्जिक": ["एलर्ज"]}
    assert inflections("एलर्जिक", ["एलर्ज"], {"एलर्जिक": 1}.items()) == {}
    assert inflections("heating", ["heater"]) == inflections("שלומות", ["שלום"]) == {}
    assert inflections("асансьор", ["асансьорът", "асорти"]) == {"асансьор": ["асансьорът"]}


def test_words_of_a_language_without_a_stemmer_in_latin_script_are_found_in_their_other_forms():
    vocabulary = ["tutaupaka", "uzi", "uzioni", "igogailua", "funguo1"]
    assert inflections("Je, uzio uko wapi, kwa nani?", vocabulary) == {"uzio": ["uzi", "uzioni"]}
    assert inflections("Non igogailuaren?", vocabulary) == {"igogailuaren": ["igogailua"]}
    assert inflections("Where is the igogailuaren?", vocabulary) == {}


def test_known_short_and_numbered_words_mean_nothing_else():
    vocabulary = ["hartmann", "boat", "sda1b"]
    assert meant("Hartman", vocabulary, {"hartman": 1}.items()) == {}
    assert meant("bota sda1c 2026-02-01 犬の名前", vocabulary) == {}


def test_a_hash_that_is_shortened_means_the_whole_one():
    query = QueryAnalyser().analyse("commit 4be81d7, feedbee or 20260208")
    misspelt = Misspelt(query, {"commit": 1})
    assert ("4be81d7", False) in misspelt.parts and ("20260208", False) not in misspelt.parts
    longer = [["4be81d7aa0c1"] if text == "4be81d7" else [] for text, _ in misspelt.parts]
    (found,) = (one for one in misspelt.found(longer) if one.instead_of == "4be81d7")
    assert found.alternatives == ("4be81d7aa0c1",)


def test_a_prompt_full_of_unknown_words_asks_the_index_a_little():
    question = " ".join(f"unheard{letter}" for letter in "abcdefghijklmnop")
    assert len(Misspelt(QueryAnalyser().analyse(question), {}).parts) == 8
