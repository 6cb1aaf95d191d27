"""Columns begin below each other, whatever the script of their cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from gateway.cli.terminal import aligned, folded

CELL = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=12)


def plain(rows, **options):
    return [line.plain for line in aligned(rows, [""] * len(rows[0]), **options)]


def test_columns_begin_below_each_other():
    rows = [("Store", "a"), ("Workspace", "b")]
    assert plain(rows) == ["Store      a", "Workspace  b"]


def test_characters_that_are_two_columns_wide_are_counted_as_two():
    assert plain([("茶", "a"), ("tea", "b")]) == ["茶   a", "tea  b"]


def test_a_cell_that_is_too_wide_is_not_cut_and_does_not_widen_the_others():
    rows = [("x" * 30, "a"), ("y", "b")]
    assert plain(rows, widest=10) == ["x" * 30 + "  a", "y  b"]


def test_no_line_ends_in_blanks():
    assert plain([("a", ""), ("b", "c")], indent=2) == ["  a", "  b  c"]


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6))
def test_the_second_column_begins_at_the_same_place_in_every_line(rows):
    starts = {
        cell_len(line) - cell_len(second)
        for line, (_, second) in zip(plain(rows), rows, strict=True)
    }
    assert starts == {max(cell_len(first) for first, _ in rows) + 2}


class TestFolding:
    ROW = ("Reason", "one two three four five six")

    def test_a_last_cell_goes_on_below_itself(self):
        (line,) = aligned([self.ROW], ("", ""), indent=2)
        assert [part.plain.rstrip() for part in folded(line, 24)] == [
            "  Reason  one two three",
            "          four five six",
        ]

    def test_where_the_last_cell_is_far_to_the_right_words_go_on_at_the_left(self):
        rows = [
            ("places", "x" * 12, "one two three four five"),
            ("", "", "one two three four five"),
        ]
        first, second = aligned(rows, ("", "", ""), indent=2)
        assert [part.plain.rstrip() for part in folded(first, 30)] == [
            "  places  xxxxxxxxxxxx",
            "      one two three four five",
        ]
        assert [part.plain.rstrip() for part in folded(second, 30)] == [
            "      one two three four five"
        ]

    def test_styles_stay_with_their_words(self):
        (line,) = aligned([self.ROW], ("cyan", "dim"))
        first, second = folded(line, 22)
        assert [span.style for span in first.spans] == ["cyan", "dim"]
        assert [span.style for span in second.spans] == ["dim"]

    @pytest.mark.parametrize("width", [100, 12])
    def test_what_fits_or_has_no_room_stays_as_it_is(self, width):
        (line,) = aligned([self.ROW], ("", ""), indent=2)
        assert folded(line, width) == [line]

    def test_a_line_without_cells_is_never_folded(self):
        line = Text("a snippet as it stands in the file")
        assert folded(line, 10) == [line]
