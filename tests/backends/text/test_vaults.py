"""Notes as Obsidian, Logseq and Joplin keep them: tags in the text, dates in names and headings, and noise."""

from __future__ import annotations

from datetime import date

import pytest

from backends.text.frontmatter import read_front_matter, tags_in, without_noise
from backends.text.times import date_in, date_of


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Repaired #heating and #house/boiler.", ("heating", "house/boiler")),
        ("#start of a line, #größe, #日本, #to-do/", ("start", "größe", "日本", "to-do")),
        ("# Heading\n## Another one #last", ("last",)),
        ("a#b, https://example.org/#part, [x](#part), &#35; C#", ()),
        ("`#code` and ``a ` #code`` but #text", ("text",)),
        ("```sh\n#fenced\n```\n#after\n~~~\n#fenced\n```\n~~~", ("after",)),
        ("````md\n```\n#fenced\n```\n#fenced\n````\n#after", ("after",)),
        ("```code``` is no fence\n#after", ("after",)),
        ("colours #fff #1e90ff #AABBCC00, issue #12, but #cafe", ("cafe",)),
        ("Logseq's #[[two words]]", ("two words",)),
    ],
)
def test_tags_in_the_text(text, tags):
    assert tags_in(text) == tags


def test_tags_of_both_kinds_are_the_notes_but_those_in_the_text_are_no_words_of_every_passage():
    facts = read_front_matter("---\ntitle: Log\ntags: [house]\n---\n\nText #house #garden/quince\n")
    assert facts.tags == ("house", "garden/quince")
    assert facts.words == "Log house"


def test_properties_of_a_page_of_logseq_are_read():
    facts = read_front_matter(
        "title:: Heating\ntags:: house, [[old things]]\nalias:: Boiler\n\n- Text\n"
    )
    assert (facts.title, facts.aliases) == ("Heating", ("Boiler",))
    assert facts.tags[0] == "house"


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-02-08-plan.md", date(2026, 2, 8)),
        ("journals/2026_02_08.md", date(2026, 2, 8)),
        ("Daily/20260208.md", date(2026, 2, 8)),
        ("Daily/2026/02/08.md", date(2026, 2, 8)),
        ("Daily/8 February 2026.md", date(2026, 2, 8)),
        ("Daily/Feb 8th, 2026.md", date(2026, 2, 8)),
        ("Tagebuch/8.2.2026.md", date(2026, 2, 8)),
        ("Tagebuch/8. Februar 2026.md", date(2026, 2, 8)),
        ("notas/8 de febrero de 2026.md", date(2026, 2, 8)),
        ("日記/2026年2月8日.md", date(2026, 2, 8)),
        ("napló/2026. február 8..md", date(2026, 2, 8)),
        ("일기/2026. 2. 8..md", date(2026, 2, 8)),
        ("jurnal/8 februarie 2026.md", date(2026, 2, 8)),
        ("diari/8 d'abril de 2026.md", date(2026, 4, 8)),
        ("nhật ký/Ngày 8 tháng 2 năm 2026.md", date(2026, 2, 8)),
        ("invoice 12345678.md", None),
        ("2026-13-40.md", None),
        ("room 12 people 2026.md", None),
    ],
)
def test_dates_in_names(path, day):
    assert date_of(path) == day


def test_a_heading_tells_a_day():
    assert date_in("Monday, 23 November 2026: the boiler") == date(2026, 11, 23)
    assert date_in("2026/2/8（日）") == date_in("2026 m. vasario 8 d.") == date(2026, 2, 8)
    assert date_in("notes/2026/02/08/plan") is date_in("version 10.2026.2.8") is None


def test_what_programs_keep_for_themselves_is_blanked_and_no_line_moves():
    text = (
        "- Boiler\n  id:: 6553f0a2-1\n  collapsed:: true\n  author:: Krause\n"
        "  :LOGBOOK:\n  CLOCK: x\n  :END:\n- End\n"
    )
    assert without_noise(text) == "- Boiler\n\n\n  author:: Krause\n\n\n\n- End\n"
    joplin = f"Title\n\nText\n\nid: {'0a' * 16}\nparent_id: \ncreated_time: x\nsource: y\ntype_: 1"
    assert without_noise(joplin) == "Title\n\nText" + "\n" * 6


def test_a_tag_of_logseq_may_have_several_words_and_a_title_a_comma():
    facts = read_front_matter(
        "title:: Heating, old\ntags:: house, [[old things]], #plan\n\n- Text\n"
    )
    assert facts.title == "Heating, old"
    assert facts.tags == ("house", "old things", "plan")


JOPLIN = (
    "Bicycle repair\n\nThe chain was replaced.\n\n"
    f"id: {'0a' * 16}\nparent_id: {'0b' * 16}\ncreated_time: 2026-06-08T12:34:56.000Z\nsource: joplin\ntype_: 1"
)


def test_an_export_of_joplin_has_its_first_line_as_title_and_the_day_when_it_was_written():
    facts = read_front_matter(JOPLIN)
    assert facts.title == "Bicycle repair"
    assert facts.day == date(2026, 6, 8)
    assert read_front_matter(JOPLIN + "\n\nand more text\n").title == ""


def test_made_up_ids_of_paragraphs_are_no_text_but_what_a_person_wrote_is():
    assert without_noise("Feed it. ^37066d\nx\n") == "Feed it.\nx\n"
    for kept in ("git log HEAD ^main", "2 ^10", "Feed it. ^starter", "a^37066d"):
        assert without_noise(kept) == kept
