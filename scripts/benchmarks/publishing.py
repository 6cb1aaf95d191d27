"""Writes figures into the documentation: replaces the text between two marks of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.families import LIMITS, PLACES

FAMILIES_KEPT: Final = "docs/families.json"
_FAMILIES: Final = ("families", "scripts/bench recall --publish")


def between_marks(page: str, name: str, command: str, text: str) -> str:
    """Returns the page with `text` in the place of this name. Raises ValueError if it has none."""
    begin, end = f"<!-- {name}: {command} -->", f"<!-- /{name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no place between {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(heads), *(" | ".join(row) for row in rows)]
    table = [f"| {line} |" for line in lines]
    return "\n".join([table[0], "|" + "---|" * len(heads), *table[1:]])


def publish_families(figures: Mapping[str, Any], root: Path) -> None:
    """Writes the figures, as `bench recall --json` keeps them, and their tables."""
    kept = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    (root / FAMILIES_KEPT).write_text(kept, encoding="utf-8")
    page = root / "docs/benchmarks.md"
    text = between_marks(page.read_text("utf-8"), *_FAMILIES, families_tables(figures))
    page.write_text(text, encoding="utf-8")


def families_tables(figures: Mapping[str, Any]) -> str:
    """Returns what is shown at each size of a page, what pages consist of, and RealMem as its paper counts."""
    sessions = (
        f"RealMem as its paper counts, {system}: "
        + ", ".join(f"{share:.3f} in {count} results" for count, share in found.items())
        for system, one in figures.items()
        if (found := one.get("RealMem, sessions"))
    )
    return "\n\n".join([_shares(figures), _forms(figures), *sessions])


def _shares(figures: Mapping[str, Any]) -> str:
    places = ["six results", *(f"{limit:,} characters" for limit in LIMITS)]
    rows = []
    for system, one in figures.items():
        for name, family in one["families"].items():
            cells = (_any_all(family["shares"][place]) for place in PLACES)
            rows.append([system, name, str(family["n"]), *cells])
        mean = one["mean"]
        cells = (f"**{_any_all(mean[place])}**" for place in PLACES)
        rows.append([system, "**mean of families**", "", *cells])
    return markdown(["system", "family", "n", *places], rows)


def _any_all(shares: Mapping[str, Any]) -> str:
    found, every = shares["any"], shares["all"]
    return f"{found['share']:.3f} ({found['low']:.2f}-{found['high']:.2f}) / {every['share']:.3f}"


def _forms(figures: Mapping[str, Any]) -> str:
    heads = [
        "system",
        "family",
        "characters a page",
        "parts a snippet",
        "parts under 60",
        "evidence",
    ]
    rows = [
        [
            system,
            name,
            f"{family['characters']:,.0f}",
            f"{family['parts_a_snippet']:.2f}",
            f"{100 * family['short_parts']:.0f} %",
            f"{100 * family['evident']:.0f} %",
            f"{error:.3f}" if (error := one.get("calibration error", {}).get(name)) else "",
        ]
        for system, one in figures.items()
        for name, family in one["families"].items()
    ]
    return markdown([*heads, "score off by"], rows)
