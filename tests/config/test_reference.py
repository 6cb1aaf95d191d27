"""The configuration reference is made from the table of keys."""

from pathlib import Path

from config.sections import SECTIONS
from publishing.reference import reference_markdown

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_committed_reference_is_current():
    assert DOCUMENT.read_text(encoding="utf-8") == reference_markdown(), "run ./scripts/reference"


def test_every_key_stands_in_it_once_with_its_meaning():
    rows = [line for line in reference_markdown().splitlines() if line.startswith("| `")]
    first, rest = (
        rows[:10],
        rows[10:],
    )  # the ten that people change come once more, before all others
    assert set(first) <= set(rest)
    assert len(rest) == sum(len(section.keys) for section in SECTIONS)
    assert all(row.count(" | ") == 3 for row in rows)


def test_no_path_of_this_machine_gets_into_it():
    text = reference_markdown()
    assert "/nonexistent" not in text
    assert str(Path.home()) not in text
    assert "`~/.openclaw/memory/main.memory-gateway.sqlite`" in text


def test_a_key_of_the_host_that_changes_nothing_here_says_so():
    row = next(line for line in reference_markdown().splitlines() if "`maxHistoryShare`" in line)
    assert "for the chat gateway; it has no effect here" in row


def test_places_of_one_agent_stand_apart_from_those_of_all():
    text = reference_markdown()
    assert (
        "else `memorySearch`; for one agent alone, at `plugins.entries.memory-gateway.config.agents.*.search`, else "
        in text
    )
    assert "Stands at `agents.list.[]`, else `agents.entries.*`." in text


def test_no_two_sections_have_headings_that_look_alike():
    lines = reference_markdown().splitlines()
    names = [line.strip("#` ").replace(".[", "[") for line in lines if line.startswith("## ")]
    assert len(names) == len(set(names))
