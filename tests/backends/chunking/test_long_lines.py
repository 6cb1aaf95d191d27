"""Lines that do not fit a chunk are cut where a reader would pause."""

from __future__ import annotations

import random
import re
import time
from itertools import pairwise

import pytest

from backends.chunking import ChunkLimits, chunk_markdown, estimate_tokens
from backends.chunking.chunker import _LEVELS, _slices

NO_OVERLAP = ChunkLimits(overlap=0)


def texts(text: str, limits: ChunkLimits = NO_OVERLAP) -> list[str]:
    return [text[chunk.start : chunk.end] for chunk in chunk_markdown(text, limits)]


def test_a_long_line_is_cut_at_the_ends_of_sentences():
    text = "Some words about this. More of it (as said)? He said “no.” And so on… " * 80
    chunks = texts(text)
    assert len(chunks) >= 4
    assert all(re.search(r"[.?…][)”]?\s$", chunk) for chunk in chunks)


def test_a_long_line_of_hindi_is_cut_at_the_ends_of_its_sentences():
    text = "माँ ने अजवाइन वाली रोटी बनाई और वह स्वादिष्ट थी। " * 30
    assert len(texts(text)) >= 4
    assert all(chunk.endswith("। ") for chunk in texts(text))


def test_a_long_sentence_is_cut_between_words():
    text = "some words without any end " * 200
    chunks = texts(text)
    assert len(chunks) >= 4
    assert all(chunk.endswith(" ") and not chunk.startswith(" ") for chunk in chunks)


def test_a_word_that_fits_is_not_cut_though_another_one_is():
    word = "w" * 1000
    text = f"{'x' * 5000} {word} {'y' * 5000}"
    assert any(word in chunk for chunk in texts(text))


def test_solid_text_is_cut_by_size():
    chunks = texts("x" * 4800)
    assert 3 <= len(chunks) <= 9
    assert all(estimate_tokens(chunk) <= 400 for chunk in chunks)


def test_two_thousand_han_characters_on_one_line_count_a_token_each():
    chunks = texts("漢字仮名交文" * 333)
    assert 5 <= len(chunks) <= 8
    assert max(map(len, chunks)) <= 400


def test_chinese_and_japanese_are_cut_at_their_sentence_ends():
    text = "今日は会議をしました。「予算は足りる。」と彼は言った！明日也要开会，讨论预算。" * 30
    chunks = texts(text)
    assert len(chunks) >= 3
    assert all(chunk[-1] in "。！」" and chunk[0] not in "。！」" for chunk in chunks)


def test_a_long_chinese_sentence_is_cut_at_its_commas():
    chunks = texts("明天也要开会，讨论预算问题" * 100)
    assert len(chunks) >= 4
    assert all(chunk[-1] == "，" for chunk in chunks[:-1])


def test_mixed_scripts_lose_nothing():
    text = "Meeting 会議 at 10:00, Иван said: 「予算」 ok 👍🏽. " * 100
    assert "".join(texts(text)) == text


def test_carriage_return_and_line_feed_are_never_parted():
    text = ("x" * 317 + "\r\n") * 40
    for limit in range(60, 90):
        for chunk in texts(text, ChunkLimits(tokens=limit, overlap=0)):
            assert not chunk.startswith("\n")


@pytest.mark.parametrize("pieces", ["abcdefgh", [f"{n}w " for n in range(900)]])
def test_others_get_their_turn_while_a_line_of_megabytes_is_cut(pieces):
    text = "".join(random.Random(1).choices(pieces, k=3_000_000 // len(pieces[-1])))
    times = [time.thread_time()]
    chunk_markdown(text, tick=lambda: times.append(time.thread_time()))
    longest = max(later - earlier for earlier, later in pairwise(times))
    assert longest < (times[-1] - times[0]) / 8


def test_a_line_that_is_searched_in_slices_ends_its_sentences_and_words_where_it_would_in_one():
    rng = random.Random(2)
    pieces = [
        "a",
        "word",
        "é",
        ". ",
        ".",
        "!",
        "。",
        "，",
        "  ",
        "\t",
        '"',
        "*",
        "）",
        "漢字",
        "\u0301",
        "\n",
        "...",
    ]
    text = "".join(rng.choices(pieces, k=400_000))
    slices = list(_slices(text, 5, len(text) - 5))
    assert len(slices) > 5 and (slices[0][0], slices[-1][1]) == (5, len(text) - 5)
    for _, pattern in _LEVELS:
        whole = [one.span() for one in pattern.finditer(text, 5, len(text) - 5)]
        assert [
            one.span() for first, last in slices for one in pattern.finditer(text, first, last)
        ] == whole
