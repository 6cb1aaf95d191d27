"""Lines out of bytes, however the bytes are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fakes.each import each
from gateway.rpc.wire import LineRoom, LineSplitter, LineTooLongError, ParseError


def split(*pieces: bytes, limit: int = 100) -> list:
    splitter = LineSplitter(limit)
    return [line for piece in pieces for line in splitter.feed(piece)] + splitter.finish()


def kinds(lines: list) -> list:
    return [line if isinstance(line, bytes) else type(line) for line in lines]


@each(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\r\nb\r\n"], [b"a", b"b"]),
        ([b"\n\n a \n\r\n \t\n"], [b" a "]),
        ([b"a\nlast"], [b"a", b"last"]),
        ([b"a", b"b", b"\n", b"c"], [b"ab", b"c"]),
        ([b""], []),
        ([b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n"], [b"{}", b"\xef\xbb\xbf{}"]),
        ([b"\xef", b"\xbb", b"\xbf{}\n"], [b"{}"]),
        ([b"\xef\xbb\xbf\na\n"], [b"a"]),
        ([b"a\x00b\n"], [b"a\x00b"]),
        ([b"a\rb\n"], [b"a\rb"]),
        (["é\n".encode()[:1], "é\n".encode()[1:]], ["é".encode()]),
    ],
)
def test_lines_are_found_however_the_bytes_arrive(pieces, lines):
    assert split(*pieces) == lines


@each("bad", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80"])
def test_invalid_utf8_is_an_error_in_place_of_the_line(bad):
    assert kinds(split(b"a\n" + bad + b"\nb\n")) == [b"a", ParseError, b"b"]


@each("end", [b"\n", b"\r\n", b""])
def test_a_line_of_exactly_the_limit_is_a_line(end):
    assert split(b"x" * 100 + end) == [b"x" * 100]


@each("end", [b"\n", b"\r\n", b""])
def test_one_byte_more_is_too_long(end):
    assert kinds(split(b"x" * 101 + end)) == [LineTooLongError]


def test_a_line_that_is_too_long_is_reported_once_and_as_soon_as_it_is():
    splitter = LineSplitter(10)
    assert kinds(splitter.feed(b"x" * 50)) == [LineTooLongError]
    assert splitter.feed(b"x" * 50) == []
    assert splitter.feed(b"x" * 50 + b"\nnext\n") == [b"next"]
    assert splitter.finish() == []


def test_a_line_that_never_ends_is_not_kept():
    room = LineRoom(100)
    splitter = LineSplitter(10, room)
    for _ in range(1000):
        splitter.feed(b"x" * 1000)
        assert room.used_bytes <= 11


@given(st.lists(st.binary(max_size=12), max_size=8), st.data())
def test_cutting_the_bytes_differently_changes_nothing(lines, data):
    stream = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert kinds(split(*pieces, limit=8)) == kinds(split(stream, limit=8))


@given(st.lists(st.text(alphabet="ab é\x00", min_size=1, max_size=12), max_size=8))
def test_each_line_comes_out_once_as_itself_or_as_an_error(texts):
    expected = [
        text.encode() if len(text.encode()) <= 8 else LineTooLongError
        for text in texts
        if not text.isspace()
    ]
    lines = split("\n".join(texts).encode(), limit=8)
    kept = [line for line in kinds(lines) if line is not LineTooLongError]
    assert kept == [line for line in expected if line is not LineTooLongError]


def test_unfinished_lines_of_all_clients_together_are_bounded_and_small_ones_are_not():
    room = LineRoom(300_000)
    first, second, small = (LineSplitter(1_000_000, room) for _ in range(3))
    assert first.feed(b"x" * 250_000) == []
    (refused,) = second.feed(b"x" * 100_000)
    assert refused.kind == "overloaded"
    assert second.feed(b"x" * 100_000 + b"\nnext\n") == [b"next"]
    assert small.feed(b"x" * 60_000 + b"\n") == [b"x" * 60_000]
    first.close()
    assert room.used_bytes == 0
    assert second.feed(b"y" * 250_000 + b"\n") == [b"y" * 250_000]
    assert room.used_bytes == 0
