"""The path of headings above each chunk, and the title of a document."""

from __future__ import annotations

import pytest

from backends.chunking import LONGEST_TITLE, chunk_markdown, document_title, parse_heading
from fakes.each import each

BODY = "- Something worth remembering was said on this day.\n" * 40


@each(
    ("line", "parsed"),
    [
        ("# Title", (1, "Title")),
        ("###### Deep", (6, "Deep")),
        ("####### Too deep", None),
        ("#tag", None),
        ("#", (1, "")),
        ("##\tTabbed", (2, "Tabbed")),
        ("## Closed ##", (2, "Closed")),
        ("## C#", (2, "C#")),
        ("# Carriage\r", (1, "Carriage")),
        ("## ##", (2, "")),
        ("# 見出し", (1, "見出し")),
    ],
)
def test_what_a_heading_is(line, parsed):
    assert parse_heading(line) == parsed


def paths(text: str) -> list[tuple[str, ...]]:
    return [chunk.headings for chunk in chunk_markdown(text)]


def test_the_path_goes_from_the_outermost_heading_to_the_innermost():
    text = f"# Year\n\n## May\n\n{BODY}\n### Home\n\n{BODY}\n## June\n\n{BODY}"
    found = list(dict.fromkeys(paths(text)))
    assert found == [("Year", "May"), ("Year", "May", "Home"), ("Year", "June")]


def test_a_chunk_has_the_headings_it_begins_with():
    text = f"{BODY}\n# A\n\n## B\n### C\n\n{BODY}"
    assert paths(text)[-1] == ("A", "B", "C")
    assert paths(text)[0] == ()


def test_the_first_chunk_has_its_headings_though_blank_lines_come_first():
    assert paths("\n\n  # A\n## B\ntext") == [("A", "B")]


def test_a_byte_order_mark_does_not_hide_the_first_heading():
    assert paths("\ufeff# A\n\ntext\n") == [("A",)]


def test_headings_in_code_and_deep_indentation_do_not_count():
    assert paths(f"```\n# no\n```\n\n    # no\n\n{BODY}")[-1] == ()


def test_an_underlined_line_is_a_heading():
    text = f"Year\n====\n\nMay\n---\n\n{BODY}"
    assert paths(text)[-1] == ("Year", "May")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("two\nlines\n===\n", id="two lines above"),
        pytest.param("- item\n---\n", id="an item above"),
        pytest.param("text\n\n===\n", id="a blank line between"),
        pytest.param("text\n=-=\n", id="mixed marks"),
        pytest.param("text\n    ===\n", id="deep indentation"),
    ],
)
def test_what_does_not_underline_a_heading(text):
    assert paths(text + BODY)[-1] == ()


def test_a_long_title_is_shortened():
    chunks = chunk_markdown("# " + "e\u0301" * 5000)
    assert len(chunks) > 10
    assert len(chunks[-1].headings[0]) <= LONGEST_TITLE
    assert chunks[-1].headings[0].endswith("\u0301")


@each(
    ("text", "title"),
    [
        ("", None),
        ("text only\n", None),
        ("# One\n\n# Two\n", "One"),
        ("## Low\n\n# High\n", "High"),
        ("```\n# code\n```\n# Real\n", "Real"),
        ("Name\n===\ntext", "Name"),
        ("#\n# Second\n", "Second"),
        ("---\ntitle: Given\n---\ntext\n", "Given"),
        ("---\r\nid: 1\r\ntitle: 'Given'\r\n---\r\ntext\r\n", "Given"),
        ("---\ntitle: Given\n---\n# Heading\n", "Heading"),
        ("---\ntitle:\n---\ntext\n", None),
        ("title: not front matter\n", None),
    ],
)
def test_the_title_of_a_document(text, title):
    assert document_title(text) == title
