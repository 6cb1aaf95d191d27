"""Lines are those of the file on disk: only a line feed ends one."""

from __future__ import annotations

import pytest

from backends.chunking import ChunkLimits, chunk_markdown

SMALL = ChunkLimits(tokens=8, overlap=0)


def lines(text: str, limits: ChunkLimits = SMALL) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunk_markdown(text, limits)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("one", [(1, 1)], id="no newline"),
        pytest.param("one\n", [(1, 1)], id="final newline"),
        pytest.param("one\ntwo\n", [(1, 2)], id="two lines"),
        pytest.param("one\r\ntwo\r\n", [(1, 2)], id="CRLF"),
        pytest.param("one\rtwo\rthree", [(1, 1)], id="lone CR"),
        pytest.param("one\u2028two\x0bthree", [(1, 1)], id="Unicode separators"),
        pytest.param("\n\n\none\n", [(1, 4)], id="blank lines before"),
        pytest.param("one\n\n\n", [(1, 3)], id="blank lines behind"),
        pytest.param("\n", [(1, 1)], id="only a newline"),
        pytest.param("- " + "x" * 28 + "\n- " + "y" * 28 + "\n", [(1, 1), (2, 2)], id="two items"),
        pytest.param("- " + "x" * 28 + "\n\n- " + "y" * 27, [(1, 2), (3, 3)], id="loose items"),
        pytest.param("- " + "x" * 27 + "\r\n- " + "y" * 27, [(1, 1), (2, 2)], id="CRLF items"),
    ],
)
def test_first_and_last_line_of_each_chunk(text, expected):
    assert lines(text) == expected


def test_pieces_of_one_long_line_share_its_number():
    text = f"# Log\n\n{'A sentence of this kind. ' * 200}\nlast\n"
    chunks = chunk_markdown(text)
    assert len(chunks) > 3
    assert {chunk.start_line for chunk in chunks[1:-1]} == {3}
    assert {chunk.end_line for chunk in chunks[:-1]} == {3}
    assert chunks[-1].end_line == 4


def test_lines_of_a_chunk_are_its_text_when_no_line_was_cut():
    text = "".join(f"- item {number} of a long list\n" for number in range(300))
    split = text.split("\n")
    for chunk in chunk_markdown(text):
        block = "\n".join(split[chunk.start_line - 1 : chunk.end_line]) + "\n"
        assert block == text[chunk.start : chunk.end]
