"""How much of a model's input a text takes: an estimate that needs no tokenizer.

Owns the weights of characters. Everything else in this package compares weights, which are whole
numbers and add up exactly over concatenation; only limits and reports speak of tokens.
"""

from __future__ import annotations

from typing import Final

WEIGHT_PER_TOKEN: Final = 4

_BELOW_U0800: Final = bytes(range(0xE0))


def weigh(text: str) -> int:
    """The weight of a text in quarters of a token: UTF-8 bytes plus characters from U+0800 on.

    So an ASCII character weighs 1 (four to a token), one of the two-byte scripts (accented Latin,
    Greek, Cyrillic, Hebrew, Arabic) 2, a Han, kana, Hangul, Thai, Indic or full-width character
    4 (one token), a character outside the basic plane, such as an emoji, 5.
    """
    if text.isascii():
        return len(text)
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded) + len(encoded.translate(None, _BELOW_U0800))


def estimate_tokens(text: str) -> int:
    """About how many tokens a text takes, rounded up; see `weigh` for the characters' shares."""
    return -(-weigh(text) // WEIGHT_PER_TOKEN)


def prefix_end(text: str, start: int, end: int, weight: int) -> int:
    """The last position up to `end` such that `text[start:position]` weighs at most `weight`."""
    end = min(end, start + weight)
    if weigh(text[start:end]) <= weight:
        return end
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if weigh(text[start:middle]) <= weight:
            low = middle
        else:
            high = middle
    return low


def suffix_start(text: str, start: int, end: int, weight: int) -> int:
    """The first position from `start` on such that `text[position:end]` weighs at most `weight`."""
    start = max(start, end - weight)
    if weigh(text[start:end]) <= weight:
        return start
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if weigh(text[middle:end]) <= weight:
            high = middle
        else:
            low = middle
    return high
