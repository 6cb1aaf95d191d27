"""The files that the filters of a request permit, whichever engine asks."""

from __future__ import annotations

from datetime import date

from backends.files.roots import Filter
from backends.interface import SearchRequest
from fakes.each import each


@each(
    ("fields", "path", "day", "permitted"),
    [
        ({}, "MEMORY.md", None, True),
        ({"include": ("memory/**",)}, "MEMORY.md", None, False),
        ({"include": ("memory/**", "*.md")}, "MEMORY.md", None, True),
        ({"include": ("**",), "exclude": ("memory/*",)}, "memory/a.md", None, False),
        ({"include": ("memory/projects",)}, "memory/projects/a/b.md", None, True),
        ({"include": ("memory/projects/",)}, "memory/projects/a.md", None, True),
        ({"include": ("memory/p*/",)}, "memory/projects/a.md", None, True),
        ({"include": ("memory/project",)}, "memory/projects/a.md", None, False),
        ({"include": ("MEMORY.md",)}, "MEMORY.md", None, True),
        ({"exclude": ("", "/")}, "MEMORY.md", None, True),
        ({"exclude": ("memory/{a,b}",)}, "memory/b/c.md", None, False),
        ({"include": ("K\u00fcche/*",)}, "Ku\u0308che/a.md", None, True),
        ({"exclude": ("Ku\u0308che/*",)}, "K\u00fcche/a.md", None, False),
        ({"after": date(2026, 2, 8)}, "memory/a.md", "2026-02-08", True),
        ({"after": date(2026, 2, 8)}, "memory/a.md", "2026-02-07", False),
        ({"before": date(2026, 2, 8)}, "memory/a.md", "2026-02-07", True),
        ({"before": date(2026, 2, 8)}, "memory/a.md", "2026-02-08", False),
        ({"after": date(2026, 2, 8)}, "MEMORY.md", None, False),
        ({"before": date(2026, 2, 8)}, "MEMORY.md", None, False),
    ],
)
def test_globs_and_days_decide(fields, path, day, permitted):
    filtering = Filter(SearchRequest(query="boiler", **fields))
    assert filtering.permits(path, day) is permitted
    assert filtering.active is bool(fields)
