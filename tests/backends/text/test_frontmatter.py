from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from backends.builtin.links import links_in
from backends.text.frontmatter import (
    FrontMatter,
    has_tag,
    is_field,
    read_front_matter,
    searchable_text,
    tags_in,
)
from fakes.each import each


def read(*lines):
    return read_front_matter("\n".join(("---", *lines, "---", "# Text", "")))


def test_title_aliases_tags_and_date_are_read():
    assert read(
        'title: "The boiler: a story"  # a comment',
        "aliases: [Heater, 'Old, rusty one']",
        "tags:",
        "  - house/heating",
        "- '#winter'",
        "date: 2026-02-08T10:00:00",
        "other: {a: [1, 2]}",
    ) == FrontMatter(
        title="The boiler: a story",
        aliases=("Heater", "Old, rusty one"),
        tags=("house/heating", "winter"),
        day=date(2026, 2, 8),
        end=162,
    )


@each(
    ("line", "told"),
    [
        ("date: 2026-01-05", "2026-01-05"),
        ("tags:", ""),
        ("- boiler", "- boiler"),
        ("no key here", "no key here"),
        ("key:value", "key:value"),
    ],
)
def test_a_line_tells_what_its_key_does_not(line, told):
    assert searchable_text(line) == told


@each(
    ("line", "is_told"),
    [
        ("phone: 0171 2298", True),
        ("due_date: 2026-05-01", True),
        ("next check-up: May", True),
        ("Größe: 42", True),
        ("電話: 0171", True),
        ("phone:", False),
        ("tags: [house]", False),
        ("- phone: 0171", False),
        ("---", False),
    ],
)
def test_a_field_is_told_under_a_word_of_whoever_wrote_the_note(line, is_told):
    assert is_field(line) is is_told


def test_the_name_by_which_claude_code_links_a_note_is_an_alias():
    assert read("name: heron-nest", "metadata:", "  type: project").aliases == ("heron-nest",)


@each(
    ("lines", "tags"),
    [
        (["tags: a"], ("a",)),
        (["tags: a, b"], ("a", "b")),
        (["Tags: a b"], ("a", "b")),
        (["tag: #a"], ("a",)),  # to YAML a comment, to people a tag
        (['tags: ["#a", b]'], ("a", "b")),
        (["tags:", "other:", "  - a"], ()),
        (["tags: []"], ()),
        (["tags: null # none yet"], ()),
        (["tags:", "  - ~", "  - 'null'", "  - a"], ("null", "a")),
    ],
)
def test_tags_are_read_in_each_of_the_usual_forms(lines, tags):
    assert read(*lines).tags == tags


@each(
    ("lines", "day"),
    [
        (["created: 2026-01-01", "date: 2026-02-02"], date(2026, 2, 2)),
        (["updated: 2026-03-03", "created: '2026-01-01'"], date(2026, 1, 1)),
        (["date: soon", "updated: 2026-03-03"], date(2026, 3, 3)),
        (["date: 2026-02-30"], None),
        (["date: 2026/02/08"], date(2026, 2, 8)),
        (["date: 08.02.2026"], date(2026, 2, 8)),
        (["date: 20260208"], date(2026, 2, 8)),
        (["date: 8 February 2026"], date(2026, 2, 8)),
        (["date: 2026-02-08T10:00:00+01:00"], date(2026, 2, 8)),
        (["date: 1234567890"], None),
        (["date:"], None),
    ],
)
def test_the_first_real_date_counts(lines, day):
    assert read(*lines).day == day


@each("mark", [">-", "|", ">", "|2-"])
def test_a_value_may_stand_in_the_indented_lines_below_its_key(mark):
    found = read(f"title: {mark}", "  The garden", "", "  of Anna: a plan", "tags: [house]")
    assert (found.title, found.tags) == ("The garden", ("house",))


@each("text", ["", "title: x\n", "---\ntitle: x\n", "# A\n---\ntitle: x\n---\n"])
def test_without_closed_front_matter_at_the_beginning_there_is_none(text):
    assert read_front_matter(text) == FrontMatter()


@given(st.text(alphabet=st.sampled_from("ab:-[]'\"#, \n\ttitle{}&*!|>%@`")))
def test_garbage_fails_nothing(text):
    assert isinstance(read_front_matter(f"---\n{text}\n---\n"), FrontMatter)


def test_a_tag_holds_those_below_it_in_any_case():
    assert has_tag(("House/Heating",), "#house") and has_tag(("house",), "HOUSE")
    assert not has_tag(("household",), "house") and not has_tag((), "house")


def test_a_line_of_backticks_takes_no_longer_than_another_line():
    """A million of them would not come to an end with a pattern that tried each from each."""
    marks = "x " + "`" * 1_000_000
    assert tags_in(f"{marks} #house") == ("house",)
    assert links_in(f"{marks} [[House]]") == ("House",)
