"""The work grows with the length of the text, whatever its content.

Executed lines are counted instead of seconds. Work within one line (patterns, searches) is covered by texts so long
that anything quadratic would not end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from backends.chunking import LONGEST_TITLE, ChunkLimits, chunk_markdown, document_title
from fakes.each import each

KINDS: dict[str, Callable[[int], str]] = {
    "one solid line": lambda size: "a" * size,
    "one line of words": lambda size: "word " * (size // 5),
    "one line of sentences": lambda size: "This is it. " * (size // 12),
    "newlines": lambda size: "\n" * size,
    "blanks": lambda size: " " * size,
    "blanks inside a line": lambda size: f"x.{' ' * size}y",
    "hashes": lambda size: "#" * size,
    "full stops": lambda size: "." * size,
    "quotes behind a full stop": lambda size: "." + '"' * size,
    "stops and quotes": lambda size: '."' * (size // 2),
    "Chinese stops": lambda size: "。" * size,
    "solid Han": lambda size: "漢" * size,
    "flag letters": lambda size: "\U0001f1e9" * size,
    "stacked marks": lambda size: "a" + "\u0301" * size,
    "joined emoji": lambda size: "👨\u200d" * (size // 2),
    "viramas": lambda size: "क\u094d" * (size // 2),
    "ever deeper items": lambda size: "".join(f"{' ' * n}- x\n" for n in range(int(size**0.5))),
    "items up and down": lambda size: "".join(f"{' ' * (n % 40)}- x\n" for n in range(size // 24)),
    "an open fence": lambda size: "```\n" + "code\n" * (size // 5),
    "longer and longer fences": lambda size: "".join(
        "`" * (3 + n) + "x\n" for n in range(int((2 * size) ** 0.5))
    ),
    "headings": lambda size: "# h\n" * (size // 4),
    "underlines": lambda size: "a\n=\n" * (size // 4),
    "underlined paragraphs": lambda size: ("a\n" * 50 + "=\n") * (size // 102),
    "open front matter": lambda size: "---\n" + "a: b\n" * (size // 5),
    "a title that never ends": lambda size: f"---\ntitle: a{' ' * size}b\n---\n",
    "equal items": lambda size: "- same\n" * (size // 7),
    "numbered items": lambda size: "".join(f"- item {n}\n" for n in range(size // 12)),
    "tabs": lambda size: "\t" * size + "x",
    "carriage returns": lambda size: "\r" * size,
}


def executed_lines(text: str, limits: ChunkLimits) -> int:
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        chunk_markdown(text, limits)
    finally:
        sys.settrace(before)
    return count


@each("kind", KINDS)
@each("tokens", [20, 400])
def test_four_times_the_text_takes_about_four_times_the_work(kind, tokens):
    limits = ChunkLimits(tokens=tokens, overlap=tokens // 5)
    once = executed_lines(KINDS[kind](8_000), limits)
    four_times = executed_lines(KINDS[kind](32_000), limits)
    assert four_times <= 6 * once


@each("kind", KINDS)
def test_a_hostile_text_is_chunked_whole(kind):
    text = KINDS[kind](200_000)
    chunks = chunk_markdown(text)
    assert chunks[0].start == 0
    assert chunks[-1].end == len(text)


@each("kind", KINDS)
def test_a_hostile_text_is_searched_for_a_title(kind):
    title = document_title(KINDS[kind](200_000))
    assert title is None or len(title) <= LONGEST_TITLE
