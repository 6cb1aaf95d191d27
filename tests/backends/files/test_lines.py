from hypothesis import given
from hypothesis import strategies as st

from backends.files.reading import LineWindow, select_lines

ROOMY = 10_000


def select(data, first=1, count=None, limit=ROOMY, block=3):
    blocks = (data[start : start + block] for start in range(0, len(data), block))
    return select_lines(blocks, first, count, limit)


TEXTS = st.text(alphabet="ab\r\né", max_size=60).map(str.encode)


@given(TEXTS, st.integers(1, 12), st.none() | st.integers(1, 12), st.integers(1, 9))
def test_a_window_is_what_splitting_the_whole_text_gives(data, first, count, block):
    lines = data.split(b"\n")[first - 1 :][:count]
    assert select(data, first, count, block=block) == LineWindow(b"\n".join(lines), len(lines))


@given(TEXTS, st.integers(1, 20), st.integers(1, 9), st.none() | st.integers(1, 9))
def test_following_next_line_reads_every_line_once_unless_one_line_is_too_long(
    data, limit, block, count
):
    wanted = data.split(b"\n")[:count]
    first, seen = 1, []
    while first is not None:
        left = None if count is None else count - (first - 1)
        window = select(data, first, left, limit, block)
        assert len(window.data) <= limit
        seen += window.data.split(b"\n")
        assert window.truncated or window.next_line is None
        assert window.next_line is None or window.next_line > first
        first = window.next_line
    assert [line[:limit] for line in wanted] == seen


def test_beyond_the_end_there_is_no_line():
    assert select(b"a\nb\n", first=4) == LineWindow(b"", 0)
    assert select(b"", first=2) == LineWindow(b"", 0)


def test_the_last_line_after_a_final_newline_is_empty_but_exists():
    assert select(b"a\nb\n", first=3) == LineWindow(b"", 1)


def test_a_range_that_does_not_fit_ends_with_a_whole_line():
    assert select(b"aaa\nbbb\nccc", limit=8) == LineWindow(
        b"aaa\nbbb", 2, truncated=True, next_line=3
    )


def test_a_line_that_alone_is_too_long_is_cut_and_the_next_one_named():
    cut = LineWindow(b"aaaa", 1, truncated=True, next_line=2, cut_inside_line=True)
    assert select(b"aaaaaaaaaaaaaaa\nb", limit=4) == cut


def test_nothing_is_named_after_a_cut_line_that_is_the_last_one_asked_for():
    alone = LineWindow(b"aaaa", 1, truncated=True, next_line=None, cut_inside_line=True)
    assert select(b"aaaaaaaaaaaaaaa", limit=4) == alone
    assert select(b"aaaaaaaaaaaaaaa\nb", count=1, limit=4) == alone
    assert select(b"aaaaa\nb", count=1, limit=4, block=100) == alone
