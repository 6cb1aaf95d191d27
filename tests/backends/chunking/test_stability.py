"""An edit changes the chunks around it and leaves the others as they were, letter by letter."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.chunking import chunk_markdown

TYPICAL_LINE = 240
"""The characters of 60 tokens."""

EDITS = 1500


def texts(document: str) -> list[str]:
    return [document[chunk.start : chunk.end] for chunk in chunk_markdown(document)]


def changed(before: str, after: str) -> int:
    """Returns the number of chunks of one text that are not among those of the other."""
    kept = set(texts(after))
    return sum(text not in kept for text in texts(before))


def one_line_edit(document: str, rng: random.Random, line: str) -> str:
    """Returns the document with one line inserted, deleted or rewritten; its structure marks stay."""
    lines = document.split("\n")
    prose = [
        at
        for at, old in enumerate(lines)
        if 0 < len(old) <= TYPICAL_LINE and not old.startswith(("#", "```"))
    ]
    at = rng.choice(prose)
    match rng.choice(("insert", "delete", "rewrite")):
        case "insert":
            lines.insert(at, line[:TYPICAL_LINE])
        case "delete":
            del lines[at]
        case _:
            half = len(lines[at]) // 2
            lines[at] = f"{lines[at][:half]} rewritten {lines[at][half:]}"
    return "\n".join(lines)


@given(kind=st.integers(0, 2), seed=st.integers(0, 2**32))
def test_a_line_at_the_top_changes_two_chunks_at_most(note_kinds, bullet, kind, seed):
    rng = random.Random(seed)
    note = note_kinds[kind](rng)
    line = bullet(rng)[:TYPICAL_LINE]
    longer = f"{line}\n{note}"
    assert changed(note, longer) <= 2
    assert changed(longer, note) <= 2


@given(kind=st.integers(0, 2), seed=st.integers(0, 2**32))
def test_a_line_at_the_end_changes_three_chunks_at_most(note_kinds, bullet, kind, seed):
    """The third changes once in a thousand times: the last cut but one may have been kept away by the end."""
    rng = random.Random(seed)
    note = note_kinds[kind](rng)
    line = bullet(rng)[:TYPICAL_LINE]
    assert changed(note, f"{note}{line}\n") <= 3


@pytest.mark.parametrize("kind", range(3))
def test_one_edited_line_changes_two_chunks_at_most_but_for_rare_cases(note_kinds, bullet, kind):
    """A new line may be the strongest place around, or the place of the cut that kept others away.

    Then the cuts on both sides of it move, and with them three chunks, very rarely four.
    """
    rng = random.Random(kind)
    counts: Counter[int] = Counter()
    while counts.total() < EDITS:
        note = note_kinds[kind](rng)
        for _ in range(15):
            counts[changed(note, one_line_edit(note, rng, bullet(rng)))] += 1
    assert max(counts) <= 4
    assert counts[4] <= 0.003 * EDITS
    assert counts[3] <= 0.03 * EDITS
    assert counts[0] + counts[1] >= 0.7 * EDITS


def test_rewriting_a_whole_section_leaves_the_distant_chunks(note_kinds):
    rng = random.Random(1)
    days = [note_kinds[0](rng) for _ in range(5)]
    rewritten = days[2].replace("- ", "- Rewritten: ")
    before, after = "".join(days), "".join([*days[:2], rewritten, *days[3:]])
    kept = set(texts(after))
    others = [*texts("".join(days[:2]))[:-1], *texts("".join(days[3:]))[1:]]
    assert len(others) > 20
    assert set(others) <= kept
    assert set(others) <= set(texts(before))
