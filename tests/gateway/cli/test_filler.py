"""Lines without content never score high, however well their words fit: `minScore` compares that score."""

from __future__ import annotations

import pytest

HIGH = 0.6
NOTES = {
    "heading.md": "# Boiler pressure\n",
    "template.md": "# {{date}}\n\n## Tasks\n",
    "heating.md": (
        "---\ntitle: Heating\naliases: [boiler]\ndate: 2026-01-05\n---\n\n# Heating\n\n"
        "The boiler is serviced by Hartmann every October.\n"
    ),
    "garden.md": "# Garden\n\n- The quince is pruned in March.\n",
    "kitchen.md": "# Kitchen\n\n- The kettle is descaled every month.\n",
    "cellar.md": "# Cellar\n\n- The key hangs behind the clock.\n",
    "roof.md": "# Roof\n\n- The chimney sweep comes once a year.\n",
}


@pytest.fixture
def scores(cli):
    folder = cli.home / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")

    def ask(query):
        found = cli.json("search", "--notes", str(folder), "--min-score", "0", query, "--explain")
        return {hit["path"]: (hit["score"], hit["explain"]) for hit in found["results"]}

    return ask


def test_a_heading_with_nothing_below_it_is_no_strong_hit(scores):
    assert scores("boiler pressure")["heading.md"][0] < HIGH


def test_a_template_is_no_strong_hit(scores):
    assert scores("date")["template.md"][0] < HIGH


def test_the_name_of_a_field_in_front_matter_is_no_strong_hit(scores):
    found = scores("date")
    assert "heating.md" not in found or found["heating.md"][0] < HIGH


def test_what_matches_no_word_of_the_question_is_no_strong_hit(scores):
    for query in ("boiler pressure", "date", "quince"):
        assert all(score < HIGH for score, why in scores(query).values() if not why["matchedTerms"])
