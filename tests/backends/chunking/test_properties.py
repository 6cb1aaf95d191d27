"""The properties of chunks for every text and every limit."""

from __future__ import annotations

from itertools import pairwise

import regex
from hypothesis import given
from hypothesis import strategies as st

from backends.chunking import ChunkLimits, chunk_markdown, estimate_tokens
from backends.chunking.graphemes import LONGEST_CLUSTER, may_cut

LIMITS = st.builds(ChunkLimits, tokens=st.integers(1, 120), overlap=st.integers(0, 130))


def cluster_ends(text: str) -> set[int]:
    return {0} | {match.end() for match in regex.finditer(r"\X", text)}


@given(data=st.data(), limits=LIMITS)
def test_chunks_hold_every_character_in_order(documents, data, limits):
    text = data.draw(documents)
    chunks = chunk_markdown(text, limits)
    assert bool(chunks) == bool(text)
    if chunks:
        assert chunks[0].start == 0
        assert chunks[-1].end == len(text)
    for one, two in pairwise(chunks):
        assert one.start < two.start <= one.end < two.end


@given(data=st.data(), limits=LIMITS)
def test_no_chunk_is_over_its_limit_unless_it_is_one_grapheme(documents, data, limits):
    text = data.draw(documents)
    for chunk in chunk_markdown(text, limits):
        inside = text[chunk.start : chunk.end]
        if estimate_tokens(inside) > limits.tokens:
            assert not any(may_cut(inside, at, 0) for at in range(1, len(inside)))
            assert len(inside) <= LONGEST_CLUSTER


@given(data=st.data(), limits=LIMITS)
def test_the_repeated_part_is_within_the_overlap(documents, data, limits):
    text = data.draw(documents)
    for one, two in pairwise(chunk_markdown(text, limits)):
        assert estimate_tokens(text[two.start : one.end]) <= limits.overlap


@given(data=st.data(), limits=LIMITS)
def test_chunks_begin_and_end_between_graphemes(documents, data, limits):
    text = data.draw(documents)
    ends = cluster_ends(text)
    for chunk in chunk_markdown(text, limits):
        assert chunk.start in ends
        assert chunk.end in ends


@given(data=st.data(), limits=LIMITS)
def test_line_numbers_are_those_of_the_first_and_last_character(documents, data, limits):
    text = data.draw(documents)
    for chunk in chunk_markdown(text, limits):
        assert chunk.start_line == 1 + text[: chunk.start].count("\n")
        assert chunk.end_line == 1 + text[: chunk.end - 1].count("\n")


@given(data=st.data(), limits=LIMITS)
def test_equal_input_gives_equal_chunks(documents, data, limits):
    text = data.draw(documents)
    assert chunk_markdown(text, limits) == chunk_markdown("".join(list(text)), limits)
