"""The questions of the benchmark of names, and the hits that it counts."""

from __future__ import annotations

import pytest

from benchmarks.named import Found, Named, items, sections, titles
from fakes.each import each

ANSWER = "Hatchling is the backend of all packages here, and needs no other one beside it."
OTHER = "The workshop is open from nine in the morning, and on Saturdays until noon only."
NOTE = f"""# Tools of the trade

{OTHER}

## Build system

{ANSWER}

```sh
## Command line
```

## Notes

{OTHER}
"""


@pytest.fixture
def notes(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/tools.md").write_text(NOTE, encoding="utf-8")
    return tmp_path / "notes"


def test_sections_with_a_telling_name_are_asked_for_and_those_in_code_are_not(notes, tmp_path):
    asked = sections(notes, tmp_path / "kept")
    assert asked == [Named("Build system", "memory/tools.md", ANSWER)]
    assert (tmp_path / "kept/memory/tools.md").read_text(encoding="utf-8") == NOTE


def test_a_heading_that_is_asked_for_can_be_taken_out(notes, tmp_path):
    sections(notes, tmp_path / "removed", without=True)
    text = (tmp_path / "removed/memory/tools.md").read_text(encoding="utf-8")
    assert text == NOTE.replace("## Build system", "## Section")


@each(
    ("form", "written"),
    [
        ("underlined", "Build system\n------------\n"),
        ("in HTML", "<h2>Build system</h2>\n"),
        ("in bold", "**Build system**\n"),
        ("in capitals", "BUILD SYSTEM\n"),
        ("with a colon", "Build system:\n"),
    ],
)
def test_headings_are_written_in_other_forms(notes, tmp_path, form, written):
    sections(notes, tmp_path / form, form)
    text = (tmp_path / form / "memory/tools.md").read_text(encoding="utf-8")
    assert written in text
    assert "## Build system" not in text


@each(
    ("form", "place", "begins"),
    [
        ("as file name", "Tools of the trade.md", "\n"),
        ("as dated file name", "2026-01-01-tools-of-the-trade.md", "\n"),
        ("as folder", "tools-of-the-trade/index.md", "\n"),
        ("in front matter", "0.md", '---\ntitle: "Tools of the trade"\n---\n\n'),
        ("as heading", "0.md", "# Tools of the trade\n\n"),
        ("as first line", "0.md", "Tools of the trade\n\n"),
    ],
)
def test_a_title_stands_where_it_is_asked_for_and_nowhere_else(
    notes, tmp_path, form, place, begins
):
    asked = titles(notes, tmp_path / form, form)
    assert asked == [Named("Tools of the trade", f"memory/{place}", OTHER)]
    text = (tmp_path / form / "memory" / place).read_text(encoding="utf-8")
    assert text == begins + NOTE.removeprefix("# Tools of the trade\n\n")


def test_paragraphs_become_items_below_the_names_of_their_sections(notes, tmp_path):
    assert items(notes, tmp_path) == [Named("Build system", "memory/list 0.md", ANSWER)]
    text = (tmp_path / "memory/list 0.md").read_text(encoding="utf-8")
    assert text == f"- Build system\n  - {ANSWER}\n"


def test_evidence_counts_in_its_own_note_however_its_lines_are_divided():
    asked = Named("Build system", "memory/tools.md", ANSWER)
    divided = ANSWER.replace(" is ", "\nis ")
    other, right = ("memory/other.md", ANSWER), ("memory/tools.md", divided)
    assert Found.of(asked, [other, ("memory/tools.md", OTHER), right]) == Found(2, 1)
    assert Found.of(asked, [other]) == Found(None, None)
