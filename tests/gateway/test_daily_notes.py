"""The place of a person's daily note, from Obsidian's settings and from the existing notes."""

from datetime import date

import pytest

from gateway.daily_notes import as_the_newest, set_in_obsidian, write_day

DAY = date(2026, 2, 8)


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("YYYY-MM-DD", "2026-02-08"),
        ("YYYYMMDD", "20260208"),
        ("YYYY/MM-MMMM/D MMM, dddd", "2026/02-February/8 Feb, Sunday"),
        ("ddd D.M.YYYY [Day of]", "Sun 8.2.2026 Day of"),
        ("YYYY年M月D日", "2026年2月8日"),
        *((form, None) for form in ("YY-MM-DD", "gggg-[W]ww", "Do MMMM", "DDDD", "[open", "a\\b")),
    ],
)
def test_a_format_is_written_as_moment_does_or_not_at_all(form, written):
    assert write_day(form, DAY) == written


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (b"{}", "2026-02-08.md"),
        (
            b'{"folder": "/Notes/Daily/", "format": "", "autorun": true}',
            "Notes/Daily/2026-02-08.md",
        ),
        (b'{"folder": "Daily", "format": "YYYY/MM/YYYY-MM-DD"}', "Daily/2026/02/2026-02-08.md"),
        *(
            (unusable, None)
            for unusable in (
                b'{"folder": "../elsewhere"}',
                b'{"folder": "Daily/./x"}',
                b'{"folder": ".trash"}',
                b'{"folder": "a\\\\b"}',
                b'{"folder": "a\\u0000"}',
                b'{"format": "[../../]YYYY"}',
                b'{"format": "/YYYY"}',
                b'{"format": "Do"}',
                b'{"folder": 1}',
                b"[" * 100_000,
                b"\xff",
                b"",
            )
        ),
    ],
)
def test_the_settings_of_obsidian_lead_to_a_note_inside_or_nowhere(settings, path):
    assert set_in_obsidian(settings, DAY) == path


@pytest.mark.parametrize(
    ("paths", "path"),
    [
        (["Daily/2026-02-06.md", "x.md"], "Daily/2026-02-08.md"),
        (["journals/2026_02_06.md", "memory/2026-02-05.md"], "journals/2026_02_08.md"),
        (["J/2025/12/2025-12-31 Wednesday.md"], "J/2026/02/2026-02-08 Sunday.md"),
        (["2025/12/31.md"], "2026/02/08.md"),
        (["Day/1.2.2026.md", "Plans/2026-03-01.md"], "Day/8.2.2026.md"),
        (["A/2026-02-06.md", "B/2026-02-06.md", "A/2026-02-05.md"], "A/2026-02-08.md"),
        (["B/2026-02-06.md", "A/2026-02-06.md", "B/2026-02-05.md"], "B/2026-02-08.md"),
        (["Talks/2026-02-06-budget.md", "2026-02-06/x.md", "[Old]/2026-02-06.md"], None),
        ([], None),
    ],
)
def test_the_newest_note_that_is_a_day_shows_where_the_next_one_is(paths, path):
    assert as_the_newest(paths, DAY) == path
