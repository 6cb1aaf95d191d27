"""Spellings that people take for the same are equal; letters that differ stay apart."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from backends.text.analyser import fold, normalise
from fakes.each import each


@each(
    ("written", "folded"),
    [
        ("Ação", "acao"),
        ("NAÏVE", "naive"),
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("Łódź", "lodz"),
        ("Ærø", "aero"),
        ("cœur", "coeur"),
        ("Þór", "thor"),
        ("ﬁne", "fine"),
        ("ＡＢＣ１２", "abc12"),
        ("İZMİR", "izmir"),
        ("ısı", "isi"),
        ("Ёлка", "елка"),
        ("йод", "йод"),
        ("Йод", "йод"),
        ("по\u0301вод", "повод"),
        ("ΆΛΛΟΣ", "αλλοσ"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("كتاب", "کتاب"),
        ("أحمد", "احمد"),
        ("كـــتاب", "کتاب"),
        ("ｶﾞ", "ガ"),
        ("がく", "がく"),
        ("नमस्ते", "नमस्ते"),
        ("हिन्दी", "हिंदी"),
        ("दाँत", "दांत"),
        ("जन्म", "जन्म"),
        ("한국어", "한국어"),
        ("e\u0301", "e"),
        ("प्याज़", "प्याज"),
        ("०१२ ٤٥٠٠ ۱۲ ๑๒", "012 4500 12 12"),
        ("١٬٢٥٠٫٥", "1,250.5"),
        ("x²", "x2"),
    ],
)
def test_case_and_accents_are_folded_and_letters_kept(written, folded):
    assert fold(normalise(written)) == folded


@each(("one", "other"), [("и", "й"), ("か", "が"), ("ハ", "パ"), ("कम", "काम"), ("ไก", "ใก")])
def test_marks_that_make_another_letter_keep_words_apart(one, other):
    assert fold(normalise(one)) != fold(normalise(other))


@each("apostrophe", "‘’\u02bc\u02bb'")
def test_apostrophes_of_any_kind_are_one(apostrophe):
    assert normalise(f"п{apostrophe}ятниця é").replace("’", "'") == "п'ятниця é"


@each("hyphen", "\u2010\u2011\u2012\u2212")
def test_hyphens_of_any_kind_are_one(hyphen):
    assert normalise(f"pot{hyphen}au{hyphen}feu") == "pot-au-feu"


@each("invisible", ["\u00ad", "\u200b", "\u200d", "\ufeff", "\ufe0f", "\u2060"])
def test_invisible_characters_do_not_divide_a_word(invisible):
    assert normalise(f"wör{invisible}ter") == "wörter"


def test_case_is_kept_until_folding_because_camel_case_is_read_from_it():
    assert normalise("memorySearch É") == "memorySearch É"


@given(st.text(max_size=40))
def test_folding_twice_changes_nothing(text):
    once = fold(normalise(text))
    assert fold(normalise(once)) == once


@given(st.text(max_size=40))
def test_composed_and_decomposed_spellings_are_the_same(text):
    decomposed, composed = unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)
    assert fold(normalise(decomposed)) == fold(normalise(composed))
