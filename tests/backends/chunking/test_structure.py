"""Markdown structure stays whole where it fits, and cuts prefer its stronger boundaries."""

from __future__ import annotations

import random

import pytest

from backends.chunking import ChunkLimits, chunk_markdown, estimate_tokens
from fakes.each import each

DEFAULT = ChunkLimits()

SENTENCE = "The quick report about the kitchen budget was sent on time. "
BULLET = f"- {SENTENCE.strip()}\n"

FENCE = "```python\n" + "".join(f"value_{n} = compute({n})\n\n" for n in range(40)) + "```\n"
OPEN_FENCE_MARKS = "~~~~\n# not a heading\n\n```\n\n## nor this\n" + "text line\n\n" * 60 + "~~~~\n"
TABLE = "| name | value |\n|---|---|\n" + "".join(f"| row {n} | {n * n} |\n" for n in range(60))
PARAGRAPH = SENTENCE.replace(". ", ".\n") * 15
ITEM = "- An item with parts:\n" + "".join(
    f"  - part {n}: {SENTENCE[:40]}\n    continued\n\n" for n in range(15)
)
QUOTE = "".join(f"> {SENTENCE}\n" for _ in range(15))
BLOCKS = {
    "fence": FENCE,
    "fence with marks inside": OPEN_FENCE_MARKS,
    "table": TABLE,
    "paragraph": PARAGRAPH,
    "item": ITEM,
    "quotation": QUOTE,
}


def texts(text: str, limits: ChunkLimits = DEFAULT) -> list[str]:
    return [text[chunk.start : chunk.end] for chunk in chunk_markdown(text, limits)]


def test_an_empty_text_has_no_chunks():
    assert chunk_markdown("") == []


def test_a_text_that_fits_is_one_chunk():
    text = f"# Day\n\n## Morning\n\n{BULLET * 25}"
    assert estimate_tokens(text) <= 400
    assert texts(text) == [text]


@each("name", BLOCKS)
@each("before", range(0, 24, 3))
def test_a_block_that_fits_is_never_cut(name, before):
    block = BLOCKS[name]
    assert 150 < estimate_tokens(block) <= 400
    text = f"# Day\n\n{BULLET * before}\n{block}\n{BULLET * 30}"
    assert any(block.strip() in chunk for chunk in texts(text))


def test_front_matter_that_fits_is_never_cut():
    front = "---\ntitle: x\n\n# no heading\n" + "key: some longer value\n\n" * 50 + "---\n"
    text = front + BULLET * 30
    assert texts(text)[0].startswith(front)
    assert all(chunk.headings == () for chunk in chunk_markdown(text))


def test_a_line_of_dashes_that_nothing_closes_is_no_front_matter():
    text = f"---\n# Title\n\n{BULLET * 60}"
    assert {chunk.headings for chunk in chunk_markdown(text)[1:]} == {("Title",)}


@pytest.mark.parametrize(
    ("block", "starts"),
    [
        pytest.param(
            "```\n" + "some_call(argument)\n" * 200 + "```\n", ("some_call", "```"), id="fence"
        ),
        pytest.param("| a | b |\n" * 300, ("| a",), id="table"),
        pytest.param("- Parts:\n" + f"  {BULLET}    more\n" * 60, ("- Parts", "  - "), id="item"),
        pytest.param((SENTENCE + "\n") * 80, ("The quick",), id="paragraph"),
    ],
)
def test_a_block_that_does_not_fit_is_cut_between_its_parts(block, starts):
    chunks = texts(block)
    assert len(chunks) > 2
    assert all(chunk.startswith(starts) for chunk in chunks)


def test_a_part_that_fits_stays_whole_in_an_item_that_does_not():
    part = "  - A part of it\n" + f"    - {SENTENCE}\n" * 6
    chunks = texts("- Parts:\n" + part * 20, ChunkLimits(overlap=0))
    assert len(chunks) > 4
    assert all(chunk.count("A part of it") == chunk.count(part) for chunk in chunks)


def test_a_cut_prefers_the_higher_heading():
    text = (
        f"# Year\n\n### Spring\n\n{BULLET * 9}\n## May\n\n{BULLET * 9}\n"
        f"### Work\n\n{BULLET * 9}\n### Home\n\n{BULLET * 9}"
    )
    chunks = texts(text)
    assert any(chunk.startswith("## May") for chunk in chunks)
    assert all(chunk.startswith("#") for chunk in chunks)


@pytest.mark.parametrize("kind", range(3))
def test_a_heading_stays_with_the_text_below_it(note_kinds, kind):
    for seed in range(30):
        for chunk in texts(note_kinds[kind](random.Random(seed)))[:-1]:
            assert not chunk.rstrip().rsplit("\n", 1)[-1].startswith("#")


def test_a_heading_stays_with_a_long_line_and_with_a_block_that_just_does_not_fit_beside_it():
    for body in (SENTENCE * 60, "word\n" * 319):
        first = texts(f"{BULLET * 20}\n## Heading\n\n{body}")
        assert not any(chunk.rstrip().endswith("## Heading") for chunk in first)


def test_many_headings_without_text_are_still_cut():
    text = "".join(f"## Heading {number}\n\n" for number in range(500))
    assert len(texts(text)) > 4


def test_many_tiny_sections_share_chunks():
    text = "".join(f"## Section {n}\n\n- {SENTENCE}\n\n" for n in range(50))
    assert estimate_tokens(text) > 900
    assert len(texts(text)) <= 6


def test_chunks_of_a_long_list_are_mostly_well_filled(note_kinds):
    daily_log = note_kinds[0]
    sizes = [
        estimate_tokens(chunk)
        for seed in range(40)
        for chunk in texts(daily_log(random.Random(seed)))
    ]
    assert 260 <= sum(sizes) / len(sizes) <= 330
    assert sum(size < 133 for size in sizes) <= 0.05 * len(sizes)


def test_an_open_fence_runs_to_the_end():
    text = "```\n# code\n" + "line of code here\n" * 300 + "# still code\n"
    assert {chunk.headings for chunk in chunk_markdown(text)} == {()}


def test_a_fence_in_an_item_ends_with_the_item():
    text = f"- item\n  ```\n  code\n# Heading\n\n{BULLET * 60}"
    assert chunk_markdown(text)[-1].headings == ("Heading",)


def test_a_million_hashes_are_no_heading():
    chunks = chunk_markdown("#" * 100_000)
    assert len(chunks) > 100
    assert {chunk.headings for chunk in chunks} == {()}
