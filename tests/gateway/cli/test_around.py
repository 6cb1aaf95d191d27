"""The hits that a person sees: never front matter alone."""

from __future__ import annotations

import msgspec
import pytest

from backends.interface import Hit, ReadAnswer, Stretch
from gateway.cli.rendering.on_terminal import Around, Look, look_around, shown_hit, shown_hits

NOTE = "---\ntitle: Kickoff\naliases: [Atlas]\n---\n# Kickoff\n\nDue in March.\n"

pytestmark = pytest.mark.anyio


class Notes:
    """A memory with one note."""

    async def get(self, params):
        lines = NOTE.split("\n")[params.first_line - 1 :][: params.lines]
        return ReadAnswer(
            path=params.path, text="\n".join(lines), status="ok", first_line=params.first_line,
            line_count=len(lines),
        )  # fmt: skip


def hit(snippet, start, end, *stretches):
    return Hit(
        path="a.md", start_line=start, end_line=end, score=1, snippet=snippet, source="memory",
        stretches=tuple(Stretch(start_line=first, end_line=last) for first, last in stretches),
    )  # fmt: skip


async def shown(*hits, **options):
    found = await look_around(Notes(), hits, "atlas", **options)
    look = Look(query="atlas")
    return [[line.plain for line in shown_hit(one, look, 1, around)][1:] for one, around in found]


async def test_a_hit_in_front_matter_alone_shows_how_the_note_begins():
    [lines] = await shown(hit("title: Kickoff\naliases: [Atlas]", 2, 3))
    assert lines[0].endswith("│ Kickoff")
    assert lines[2].endswith("│ Due in March.")


async def test_it_is_left_out_where_another_hit_shows_the_note():
    marks = hit("---\n…\n---", 1, 4, (1, 1), (4, 4))
    assert len(await shown(hit("Due in March.", 7, 7), marks)) == 1
    assert len(await shown(marks, hit("Due in March.", 7, 7))) == 1
    assert len(await shown(marks, marks)) == 1


async def test_lines_after_front_matter_keep_their_numbers_beside_the_path_of_headings():
    snippet = "title: Kickoff\n…\n§ Kickoff\nDue in March."
    [lines] = await shown(hit(snippet, 2, 7, (2, 2), (7, 7)))
    assert lines == [" ▶ 7 │ Due in March."]


async def test_lines_of_a_contract_are_no_paths_of_headings():
    snippet = "§ Lease\n§ 4.1 The rent\n§ 4.2 The deposit, of Atlas\n…\n§ 7 Notice"
    found = msgspec.structs.replace(hit(snippet, 5, 9, (5, 6), (9, 9)), headings=("Lease",))
    [lines] = await shown(found)
    assert lines[1:] == [
        "   5 │ § 4.1 The rent",
        " ▶ 6 │ § 4.2 The deposit, of Atlas",
        "     │ …",
        "   9 │ § 7 Notice",
    ]


async def test_a_field_that_tells_something_is_shown_and_may_be_the_best_line():
    snippet = "aliases: [Atlas]\nowner: Ivan, of the atlas\n…\nDue in March."
    [lines] = await shown(hit(snippet, 3, 9, (3, 4), (9, 9)))
    assert lines == [" ▶ 4 │ owner: Ivan, of the atlas", "     │ …", "   9 │ Due in March."]


async def test_lines_around_the_best_one_begin_after_front_matter():
    [lines] = await shown(hit("aliases: [Atlas]", 3, 3), context=1)
    assert lines[0].endswith("│ Kickoff")


def rated(confidence, snippet="Due in March.\nBring tea.", start=7):
    return msgspec.structs.replace(hit(snippet, start, start + 1), confidence=confidence)


def lines_of(*hits, **look):
    around = [Around()] * len(hits)
    return [line.plain for line in shown_hits(hits, Look(query="tea", **look), around)]


def test_what_is_unlikely_to_answer_is_one_line_below_something_better():
    lines = lines_of(rated("maybe"), rated("unlikely", start=20), folds=True)
    assert lines[-3:] == ["2  a.md:21  unlikely, 1.000", "   21 │ Bring tea.", ""]
    assert lines[:3] == ["1  a.md:8  maybe, 1.000", "   7 │ Due in March.", " ▶ 8 │ Bring tea."]


def test_where_nothing_better_was_found_or_all_is_asked_for_it_is_shown_as_others_are():
    assert len(lines_of(rated("unlikely"), rated("unlikely"), folds=True)) == 8
    assert len(lines_of(rated("likely"), rated("unlikely"))) == 8


def test_rows_of_a_long_table_stand_below_its_head():
    rows = [f"| {day} March | {day} km |" for day in range(1, 20)]
    snippet = "\n".join(["Log", "", "| day | way |", "|---|---|", *rows, "Tea | at home"])
    lines = lines_of(hit(snippet, 1, 24))
    assert [line.split("│", 1)[1].strip() for line in lines[1:4]] == [
        "day      │ way",
        "─────────┼──────",
        "15 March │ 15 km",
    ]
    assert lines[-2] == " ▶ 24 │ Tea | at home"
