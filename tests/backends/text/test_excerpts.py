"""The pieces of a chunk that get a vector each."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from backends.chunking import estimate_tokens
from backends.text.units import EXCERPT_TOKENS, cut_excerpts, split_units

LINE = "- The boiler was serviced by Hartmann, visit number {}."


def texts(text: str, start: int = 0) -> list[str]:
    return [text[one.start : one.end] for one in cut_excerpts(text, start)]


def test_lines_are_joined_as_long_as_they_fit():
    text = "\n".join(LINE.format(number) for number in range(40))
    found = texts(text)
    assert "\n".join(found) == text
    assert 3 < len(found) < 8
    assert all(estimate_tokens(one) <= EXCERPT_TOKENS + 5 for one in found)


def test_a_heading_ends_an_excerpt_and_is_in_none():
    assert texts("## Boiler\n\n- old\n- loud\n\n## Pump\n\n- new\n") == ["- old\n- loud", "- new"]


def test_where_there_are_only_headings_they_are_the_excerpt():
    assert texts("# Plans\n\n## Boiler\n") == ["# Plans\n\n## Boiler"]


def test_blank_lines_are_kept_inside_and_not_at_the_ends():
    assert texts("\n\n- old\n\n- loud\n\n\n") == ["- old\n\n- loud"]


def test_what_stands_before_the_start_is_left_to_the_chunk_before():
    text = "- first\n- second\n- third\n"
    (one,) = cut_excerpts(text, text.index("- second"))
    assert text[one.start : one.end] == "- second\n- third"
    assert one.line == 1


def test_a_line_longer_than_an_excerpt_is_cut_at_its_sentences():
    text = " ".join(f"The boiler was serviced by Hartmann, visit number {n}." for n in range(60))
    found = texts(text)
    assert len(found) > 3
    assert "".join(found) == text


def test_nothing_gives_nothing():
    assert texts("") == texts(" \n\n\t\n") == []


def test_a_line_that_began_in_the_chunk_before_is_embedded_with_its_rest():
    text = "The boiler was loud. It was oiled.\n- done\n"
    assert texts(text, text.index(" It was")) == ["It was oiled.\n- done"]


@given(st.text("ab \n", max_size=300), st.integers(0, 300))
def test_without_headings_every_character_from_the_start_on_is_in_an_excerpt(text, start):
    covered = {at for one in cut_excerpts(text, start) for at in range(one.start, one.end)}
    assert all(at in covered for at in range(start, len(text)) if not text[at].isspace())


@given(st.text("ab 水#.\n", max_size=2_000), st.integers(0, 50))
def test_excerpts_are_whole_units_in_order_and_share_nothing(text, start):
    found = cut_excerpts(text, start)
    starts = {unit.start for unit in split_units(text)} | {one.start for one in found[:1]}
    ends = {unit.end for unit in split_units(text)}
    assert all(one.start in starts and one.end in ends and one.start >= start for one in found)
    assert all(one.end <= two.start for one, two in pairwise(found))
    assert all(one.line == text.count("\n", 0, one.start) for one in found)
    assert all(text[one.start : one.end].strip() for one in found)
