"""Slips of the pen: which words are taken for which, and what they count."""

from backends.ranking.query import Concept, QueryAnalyser
from backends.ranking.spelling import SLIP_SHARE, Misspelt, is_slip
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
    """What a question may mean, of an index that has these words."""
    misspelt = Misspelt(QueryAnalyser().analyse(question), dict(counts))
    return misspelt.found(
        [
            word
            for word in vocabulary
            if word != part and (word.endswith(part) if is_end else word.startswith(part))
        ]
        for part, is_end in misspelt.parts
    )


def test_a_word_that_no_text_holds_is_looked_for_with_a_slip_in_either_half():
    vocabulary = ["hartmann", "harmony", "hartwig", "haertman", "bartman"]
    expected = Concept(("haertman", "hartmann"), SLIP_SHARE, instead_of="hartman")
    assert meant("Hartman", vocabulary) == (expected,)


def test_known_short_and_numbered_words_mean_nothing_else():
    vocabulary = ["hartmann", "boat", "sda1b"]
    assert meant("Hartman", vocabulary, {"hartman": 1}.items()) == ()
    assert meant("bota sda1c 2026-02-01 犬の名前", vocabulary) == ()


def test_a_prompt_full_of_unknown_words_asks_the_index_a_little():
    question = " ".join(f"unheard{letter}" for letter in "abcdefghijklmnop")
    assert len(Misspelt(QueryAnalyser().analyse(question), {}).parts) == 8
