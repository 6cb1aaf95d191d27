"""The text that a chunk repeats of the one before it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from backends.chunking import ChunkLimits, chunk_markdown, estimate_tokens

DEFAULT = ChunkLimits()

ITEMS = "".join(f"- Item {n:03d} says something of middling length here.\n" for n in range(100))
PARAGRAPHS = "\n".join(
    f"Paragraph {n} begins. " + "It goes on with one more sentence. " * 12 + "\n" for n in range(12)
)


def repeated(text: str, limits: ChunkLimits = DEFAULT) -> list[str]:
    return [text[two.start : one.end] for one, two in pairwise(chunk_markdown(text, limits))]


def test_whole_items_are_repeated():
    for part in repeated(ITEMS):
        assert part.startswith("- Item")
        assert 20 < estimate_tokens(part) <= 80


def test_no_overlap_repeats_nothing():
    assert not any(repeated(ITEMS, ChunkLimits(overlap=0)))


@pytest.mark.parametrize("overlap", [400, 5000])
def test_an_overlap_beyond_the_limit_leaves_room_for_new_text(overlap):
    chunks = chunk_markdown(ITEMS, ChunkLimits(tokens=100, overlap=overlap))
    assert all(two.end > one.end and two.start > one.start for one, two in pairwise(chunks))


def test_whole_sentences_are_repeated_where_no_line_fits():
    parts = [part for part in repeated(PARAGRAPHS) if part]
    assert len(parts) > 4
    assert all(part.startswith("It goes on") for part in parts)


def test_lines_are_repeated_where_no_block_fits():
    paragraph = "A line of a paragraph that is long as a whole.\n" * 20
    parts = repeated("\n".join([paragraph] * 8))
    assert len(parts) > 3
    assert all(part.startswith("A line") and part.count("\n") < 10 for part in parts)


def test_an_overlap_smaller_than_any_sentence_repeats_nothing():
    assert not any(repeated(ITEMS, ChunkLimits(overlap=3)))


def test_a_chunk_that_begins_with_a_heading_repeats_nothing():
    text = "".join(f"## Day {n}\n\n{ITEMS[:900]}\n" for n in range(8))
    for chunk, part in zip(chunk_markdown(text)[1:], repeated(text), strict=True):
        assert bool(part) is not text[chunk.start : chunk.end].startswith("## ")


def test_nothing_before_the_heading_of_a_section_is_repeated():
    item = "- An item that says something of middling length.\n"
    week = f"# Week\n\n{item * 6}\n## Day\n\n{item * 5}\nA paragraph.\n\n{item * 25}\n"
    limits = ChunkLimits(overlap=130)
    parts = [part for part in repeated(week * 5, limits) if part]
    assert any(part.startswith("## Day") for part in parts)
    assert not any("\n## Day" in part for part in parts)
