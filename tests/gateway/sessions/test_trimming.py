"""Notes that are too long to be loaded whole."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.session_start import Trimmed, trim

LINES = "".join(f"line {number}\n" for number in range(1, 101))


def test_a_short_note_is_loaded_whole():
    assert trim("a.md", "one\ntwo", max_chars=7, head_share=0.5) == Trimmed("one\ntwo")


def test_the_middle_is_left_out_and_named():
    trimmed = trim("memory/a.md", LINES, max_chars=100, head_share=0.5)
    assert trimmed.text.startswith("line 1\n")
    assert trimmed.text.endswith("line 100\n")
    assert f"lines {trimmed.first} to {trimmed.last} of memory/a.md are left out" in trimmed.text
    assert f"line {trimmed.first - 1}\n" in trimmed.text
    assert f"line {trimmed.first}\n" not in trimmed.text
    assert f"line {trimmed.last + 1}\n" in trimmed.text


def test_a_log_keeps_more_of_its_end():
    trimmed = trim("a.md", LINES, max_chars=200, head_share=0.1)
    assert trimmed.first - 1 < 100 - trimmed.last


def test_one_endless_line_is_cut():
    trimmed = trim("a.md", "x" * 1000, max_chars=100, head_share=0.5)
    assert trimmed.text.startswith("x" * 100 + "\n")
    assert (trimmed.first, trimmed.last) == (1, 1)


@given(
    st.text(alphabet="ab\n\u2028\r", max_size=400),
    st.integers(1, 100),
    st.floats(0, 1),
)
def test_what_is_kept_and_what_is_left_out_make_the_whole(text, max_chars, head_share):
    trimmed = trim("a.md", text, max_chars=max_chars, head_share=head_share)
    if trimmed.first is None:
        assert trimmed.text == text
        return
    lines = text.split("\n")
    head = "\n".join(lines[: trimmed.first - 1])
    assert trimmed.text.startswith(head)
    note = f"\n[... lines {trimmed.first} to {trimmed.last} of a.md are left out"
    assert note in trimmed.text
    assert len(trimmed.text) <= max_chars + 100
    assert trimmed.first <= trimmed.last
