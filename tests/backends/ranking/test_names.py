"""The names under which a line stands."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from backends.ranking.lines import units_by_file
from backends.ranking.names import Names
from fakes.each import each


@pytest.fixture
def fits(candidates_of, weigh):
    """Returns for each line with content how well the names above it fit the query, or that it is a name."""

    def read(text, query):
        weights = weigh(query)
        (units,) = units_by_file(candidates_of(text), weights).values()
        lines = [at for at, unit in enumerate(units) if unit.text.strip(" =-")]
        names = Names(weights, (), units, lines)
        found = {}
        for number, at in enumerate(lines):
            is_name = names.read(number, begins=not number)
            found[units[at].text] = "name" if is_name else names.fit
        return found

    return read


@each(
    "title",
    [
        "# Boiler",
        "#### Boiler ####",
        "Boiler\n======",
        "Boiler\n---",
        "**Boiler**",
        "__Boiler__",
        "**Boiler**:",
        "BOILER",
        "Boiler:",
        "<h3>Boiler</h3>",
        '<h2 id="b">The boiler</h2>',
    ],
)
@pytest.mark.parametrize("between", ["\n\n", "\n"])
def test_what_stands_below_a_title_is_known_by_it_until_the_next_one(fits, title, between):
    text = between.join(("It was cold.", title, "Leaks.", "Is old.", "# Pump", "Runs.\n"))
    found = fits(text, "boiler")
    assert found[title.partition("\n")[0]] == "name"
    assert [found[line] for line in ("It was cold.", "Leaks.", "Is old.", "Runs.")] == [0, 1, 1, 0]


@each(
    "line",
    [
        "The boiler.",
        "Boiler",
        "Once more I tell you what happened to the boiler:",
        "- **Boiler**",
        "> BOILER",
        "**Boiler** leaks",
        "```\n# Boiler\n```",
        "````md\n```\n# Boiler\n```\n# Boiler\n````",
        "Boiler\n-",
    ],
)
def test_any_other_line_names_nothing(fits, line):
    found = fits(f"It was cold.\n\n{line}\n\nLeaks.\n", "boiler")
    assert set(found.values()) == {0}


def test_a_title_within_a_section_does_not_take_its_name_away(fits):
    found = fits("# Boiler\n\nOld.\n\n**In winter**\n\nLeaks.\n\n## Pump\n\nRuns.\n", "boiler")
    assert [found[line] for line in ("Old.", "Leaks.", "Runs.")] == [1, 1, 0.5]


@pytest.mark.parametrize("mark", ["-", "*", "1.", "- [ ]"])
def test_an_item_names_the_items_below_it_and_may_answer_itself(fits, mark):
    text = f"{mark} Boiler\n  {mark} leaks\n    {mark} always\n{mark} Pump\n  {mark} runs\n"
    assert list(fits(text, "boiler").values()) == [1, 1, 1, 0, 0]


def test_what_follows_a_list_is_not_known_by_its_items(fits):
    found = fits("- Boiler\n  - leaks\n\n  and drips\n\nIt was cold.\n", "boiler")
    assert list(found.values()) == [1, 1, 1, 0]


@each(
    ("text", "fit"),
    [
        ("Boiler\n\nLeaks.", 1),
        ("---\ndate: 2026-01-01\ntags: [pump]\n---\nBoiler\n\nLeaks.", 1),
        ("Boiler\nLeaks.", 0),
        ("The boiler is old.\n\nLeaks.", 0),
        ("- Boiler\n\nLeaks.", 0),
        ("Pump\n\nBoiler\n\nLeaks.", 0),
    ],
)
def test_a_short_line_that_a_note_begins_with_is_its_name(fits, text, fit):
    assert fits(text, "boiler")["Leaks."] == fit


@each(("before", "fit"), [(3, 1), (500, 0)])
def test_of_very_many_aliases_only_the_first_are_names(candidates_of, weigh, before, fit):
    weights = weigh("boiler")
    candidates = [replace(one, context="boiler") for one in candidates_of("It leaks.")]
    (units,) = units_by_file(candidates, weights).values()
    assert Names(weights, [*["Pump"] * before, "Boiler"], units, [0]).fit == fit


def test_front_matter_names_nothing_by_its_looks(fits):
    found = fits("---\naliases:\n- Pump\nBOILER: old\n---\n\nLeaks.\n", "boiler")
    assert found["Leaks."] == 0
