"""Cuts fall between the characters that a reader sees."""

from __future__ import annotations

import regex
from hypothesis import given
from hypothesis import strategies as st

from backends.chunking import ChunkLimits, chunk_markdown
from backends.chunking.graphemes import LONGEST_CLUSTER, may_cut, next_cut
from fakes.each import each

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
WAVE = "👋🏽"
FLAG = "🇯🇵"
HEART = "❤\ufe0f"
KEYCAP = "7\ufe0f\u20e3"
ACCENTED = "e\u0301\u0323"
SYLLABLE = "\u1100\u1161\u11a8"
CONJUNCT = "क\u094dषि"
WALES = "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"
CLUSTERS = (FAMILY, WAVE, FLAG, HEART, KEYCAP, ACCENTED, SYLLABLE, CONJUNCT, WALES, "กำ", "\r\n")
ASSIGNED = st.characters(max_codepoint=0x1FAFF, exclude_categories=("Cs", "Cn"))
"""The characters that this Python knows; `regex` may know later ones."""


def boundaries(text: str) -> set[int]:
    return {0} | {match.end() for match in regex.finditer(r"\X", text)}


@given(st.lists(st.one_of(st.sampled_from(CLUSTERS), ASSIGNED), min_size=2))
def test_every_position_allowed_is_a_cluster_boundary_of_unicode(pieces):
    text = "".join(pieces)
    allowed = {at for at in range(1, len(text)) if may_cut(text, at, 0)}
    assert allowed <= boundaries(text)


@each("cluster", CLUSTERS)
def test_a_cluster_may_be_cut_before_and_behind_but_not_inside(cluster):
    text = f"x{cluster}{cluster}y"
    allowed = [at for at in range(1, len(text)) if may_cut(text, at, 0)]
    assert allowed == [1, 1 + len(cluster), 1 + 2 * len(cluster)]


@each("cluster", CLUSTERS)
@each("tokens", [1, 3, 40])
def test_a_line_of_one_cluster_repeated_is_cut_between_them(cluster, tokens):
    text = cluster * 300
    for chunk in chunk_markdown(text, ChunkLimits(tokens=tokens, overlap=0)):
        assert chunk.start % len(cluster) == 0


def test_flags_are_cut_in_pairs_however_long_their_row_is():
    text = "x" + FLAG * 5000
    chunks = chunk_markdown(text)
    assert len(chunks) > 10
    assert all(chunk.start % 2 == 1 for chunk in chunks[1:])


def test_marks_without_end_are_cut_all_the_same():
    text = "a" + "\u0301" * 10_000
    chunks = chunk_markdown(text, ChunkLimits(tokens=100, overlap=20))
    assert len(chunks) > 50
    assert all(chunk.end - chunk.start <= 200 for chunk in chunks)


def test_a_cluster_longer_than_the_step_is_kept_up_to_the_longest():
    text = "a" + "\u0301" * 20 + "b" * 20
    assert next_cut(text, 0, 4, len(text)) == 21
    endless = "a" + "\u0301" * 500
    assert next_cut(endless, 0, 4, len(endless)) == LONGEST_CLUSTER
    assert next_cut(endless, 0, 300, len(endless)) == 300
