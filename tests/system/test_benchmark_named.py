"""What the benchmark of names asks for, and what it counts as found."""

from __future__ import annotations

import pytest

from benchmarks.named import Found, Named, sections, titles

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
    asked = sections(notes, tmp_path / "kept", keep=True)
    assert asked == [Named("Build system", "memory/tools.md", ANSWER)]
    assert (tmp_path / "kept/memory/tools.md").read_text(encoding="utf-8") == NOTE


def test_a_heading_that_is_asked_for_can_be_taken_out(notes, tmp_path):
    sections(notes, tmp_path / "removed", keep=False)
    text = (tmp_path / "removed/memory/tools.md").read_text(encoding="utf-8")
    assert text == NOTE.replace("## Build system", "## Section")


def test_a_title_becomes_the_name_of_the_file_and_leaves_the_text(notes, tmp_path):
    place = "memory/Tools of the trade.md"
    assert titles(notes, tmp_path / "titled") == [Named("Tools of the trade", place, OTHER)]
    text = (tmp_path / "titled" / place).read_text(encoding="utf-8")
    assert text == NOTE.removeprefix("# Tools of the trade\n")


def test_evidence_counts_in_its_own_note_however_its_lines_are_divided():
    asked = Named("Build system", "memory/tools.md", ANSWER)
    divided = ANSWER.replace(" is ", "\nis ")
    other, right = ("memory/other.md", ANSWER), ("memory/tools.md", divided)
    assert Found.of(asked, [other, ("memory/tools.md", OTHER), right]) == Found(2, 1)
    assert Found.of(asked, [other]) == Found(None, None)
