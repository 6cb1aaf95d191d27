"""Lines, and the sentences of long lines: the parts of a snippet."""

from itertools import pairwise

import regex
from hypothesis import given
from hypothesis import strategies as st

from backends.text.units import MAX_LINE_CHARS, MAX_PIECE_CHARS, split_units, utf16_length
from fakes.each import each

PIECES = st.sampled_from(
    [
        "word ",
        "Sentence end. ",
        "非常に長い",
        "。",
        "🎉",
        "👨‍👩‍👧",
        "e\u0301",
        "🇩🇪",
        "x" * 90,
        "ก็",
        "\t",
        "; ",
    ]
)
LINES = (
    st.lists(PIECES, max_size=8)
    .map("".join)
    .flatmap(lambda line: st.integers(0, 60).map(lambda times: line * times))
)
TEXTS = st.lists(LINES, max_size=5).map("\n".join)


def texts(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in split_units(text)]


def test_lines_are_units_with_their_number():
    text = "# Title\n\n- one\n- two\n"
    assert texts(text) == ["# Title", "", "- one", "- two"]
    assert [unit.line for unit in split_units(text)] == [0, 1, 2, 3]


def test_a_text_without_newline_or_without_anything_is_one_unit():
    assert texts("one") == ["one"]
    assert texts("") == [""]
    assert texts("\n") == [""]


def test_only_a_newline_ends_a_line():
    assert texts("a\rb\u2028c\x0bd\x85e") == ["a\rb\u2028c\x0bd\x85e"]


def test_a_line_that_fits_a_snippet_stays_whole_and_a_longer_one_does_not():
    line = ("word " * 200)[:MAX_LINE_CHARS]
    assert texts(line) == [line]
    assert len(texts(line + "s")) > 1


def test_the_limit_counts_utf16_units_as_the_snippet_does():
    fits, too_long = "🎉" * (MAX_LINE_CHARS // 2), "🎉" * (MAX_LINE_CHARS // 2 + 1)
    assert texts(fits) == [fits]
    assert len(texts(too_long)) > 1


def test_a_long_line_is_cut_at_sentence_ends():
    text = "This is one sentence of some length about the weather. " * 30
    assert all(piece.endswith(". ") for piece in texts(text))


@each(
    "sentence",
    [
        "माँ ने अजवाइन वाली रोटी बनाई और वह स्वादिष्ट थी। ",
        "بھائی کی سالگرہ جولائی میں ہے اور کیتلی خریدنی ہے۔ ",
        "هل اتصلت بالسباك الذي يصلح سخان الماء؟ ",
    ],
)
def test_a_long_line_is_cut_at_the_sentence_ends_of_its_script(sentence):
    assert all(piece.endswith(sentence) for piece in texts(sentence * 40))


def test_a_long_line_of_chinese_is_cut_at_its_full_stops():
    pieces = texts("今天和供应商谈了茶叶的价格，决定下周再谈。" * 60)
    assert all(piece.endswith("。") for piece in pieces)


def test_a_long_sentence_is_cut_between_words():
    assert all(piece.endswith(" ") for piece in texts("some words and no end " * 60))


def test_solid_text_is_cut_between_graphemes():
    text = "👨‍👩‍👧" * 400
    assert all(len(piece) % len("👨‍👩‍👧") == 0 for piece in texts(text))
    flags = texts("🇩🇪" * 600)
    assert all(len(piece) % 2 == 0 for piece in flags)


@given(TEXTS)
def test_units_hold_every_character_but_the_newlines(text):
    units = split_units(text)
    assert "".join(texts(text)) == text.replace("\n", "")
    for one, two in pairwise(units):
        assert two.start - one.end == two.line - one.line in (0, 1)
    assert all(text.count("\n", 0, unit.start) == unit.line for unit in units)


@given(TEXTS)
def test_no_unit_is_longer_than_a_snippet(text):
    for unit in split_units(text):
        piece = text[unit.start : unit.end]
        assert utf16_length(piece) <= MAX_LINE_CHARS
        is_whole = (unit.start == 0 or text[unit.start - 1] == "\n") and (
            text[unit.end : unit.end + 1] in ("", "\n")
        )
        assert is_whole or len(piece) <= MAX_PIECE_CHARS


@given(TEXTS)
def test_units_begin_between_graphemes(text):
    boundaries = {0} | {match.end() for match in regex.finditer(r"\X", text)}
    assert all(unit.start in boundaries for unit in split_units(text))


@given(st.text(max_size=50))
def test_length_is_that_of_utf16(text):
    text = text.encode("utf-8", "ignore").decode()
    assert utf16_length(text) == len(text.encode("utf-16-le")) // 2
