"""The sections of the report on the contents of the notes: notes to search and read, tags, names, links, days. Pure.

The only links are to places in the page and to the files of the notes. Markdown is rendered without links, pictures
and HTML.
"""

from __future__ import annotations

import html
import re
from calendar import Calendar, month_name
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec

from gateway import escaping
from gateway.cli.places import EDITORS, absolute_path, url_of
from gateway.cli.terminal import counted
from gateway.cli.vault import Known, NameCount, Note

_MOST_NOTES: Final = 20_000
"""The most notes listed in one page; older ones are only counted."""
_RECENT: Final = 12
_MOST: Final = 40
"""The most tags, names and links of each kind."""
_MONTHS: Final = 6
_MOST_MONTHS: Final = 240


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_NO_CHARACTER: Final = re.compile(
    f"[\ud800-\udfff{''.join(chr((plane << 16) | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))}]"
)


def visible(text: str) -> str:
    """Returns the text with characters that could deceive a reader shown as their numbers."""
    return _NO_CHARACTER.sub("\ufffd", escaping.visible(text))


def escape(text: str) -> Markup:
    """Returns the visible text as escaped HTML, also for attributes."""
    return Markup(html.escape(visible(text)))


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """Returns an element. `class_` is `class`, `aria_label` is `aria-label`. Names are ours, never untrusted."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    inner = "".join(one if isinstance(one, Markup) else escape(one) for one in children)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def soft(*children: str) -> Markup:
    """Returns a paragraph of less weight."""
    return element("p", *children, class_="soft")


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("".join(parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Markup]], numbers: str) -> Markup:
    """Returns a table. `numbers` has an `n` for each column of numbers, and anything else for the others."""
    classes = [{"class_": "n"} if one == "n" else {} for one in numbers]
    lines = [
        element(
            "tr", *(element("td", cell, **kind) for cell, kind in zip(row, classes, strict=True))
        )
        for row in rows
    ]
    head = element(
        "tr", *(element("th", name, **kind) for name, kind in zip(heads, classes, strict=True))
    )
    made = element("table", element("thead", head), element("tbody", *lines))
    return element("div", made, class_="wide")


class _Pages(msgspec.Struct, frozen=True):
    """The notes of the page, with the number and the title of each."""

    known: Known
    base: str
    numbers: Mapping[str, int]
    titles: Mapping[str, str]

    def link(self, path: str, *children: str) -> Markup:
        """Returns a link to a note's text if that is in the page, else to its file."""
        if path in self.known.texts and path in self.numbers:
            where = f"#n{self.numbers[path]}"
        else:
            where = self.file(path)
        shown = children or (element("bdi", self.titles[path]),)
        return element("a", *shown, href=where)

    def file(self, path: str) -> str:
        return url_of(EDITORS["file"], absolute_path(self.base, path), 1)


def tiles_of(known: Known) -> dict[str, str]:
    days = sorted(one.day for one in known.notes if one.day)
    links = sum(len(one.to) for one in known.links.values())
    return {
        "notes": f"{len(known.notes):,}",
        "tags": f"{len(known.tags):,}",
        "links between notes": f"{links:,}",
        "days": f"{days[0]} – {days[-1]}" if days else "none is dated",
    }


def sections_of(known: Known, base: str) -> list[tuple[str, Markup]]:
    """Returns the sections with their titles. `base` is the directory that paths are relative to."""
    listed = known.notes[:_MOST_NOTES]
    pages = _Pages(
        known,
        base,
        {one.path: number for number, one in enumerate(listed, 1)},
        {one.path: _title(one) for one in known.notes},
    )
    return [
        ("Notes", _notes(listed, pages)),
        ("Tags", _tags(known)),
        ("People and things named most", _named(known.named, pages)),
        ("Links", _links(pages)),
        ("Calendar", _calendar(known.notes)),
    ]


def _title(note: Note) -> str:
    return note.title or note.path.rpartition("/")[2].removesuffix(".md")


# --- Notes ---------------------------------------------------------------------------------------


def _notes(listed: Sequence[Note], pages: _Pages) -> Markup:
    if not listed:
        return element("p", "There are no notes yet.")
    field = Markup(
        '<input id="find" type="search" autocomplete="off" placeholder="Find a note by title, tag, day or place"'
        ' aria-label="Find a note by title, tag, day or place">'
    )
    render = _renderer()
    rows = [_row(note, pages, render) for note in listed]
    recent = element("ul", *rows[:_RECENT], class_="notes")
    parts = [field, element("p", id="found", class_="soft", role="status"), recent]
    if len(rows) > _RECENT:
        summary = element("summary", f"All {counted(len(rows), 'note')}")
        older = element("ul", *rows[_RECENT:], class_="notes")
        parts.append(element("details", summary, older, id="older"))
    left_out = len(pages.known.notes) - len(listed)
    if left_out:
        parts.append(soft(f"{counted(left_out, 'older note')} not listed."))
    unread = len(pages.known.notes) - len(pages.known.texts)
    if pages.known.texts and unread:
        remark = f"Of {counted(unread, 'older note')} only the file is linked: their text has no room here."
        parts.append(soft(remark))
    return element("div", *parts, id="notes")


def _row(note: Note, pages: _Pages, render: Callable[[str], Markup]) -> Markup:
    about = " · ".join((note.shown_day.isoformat(), note.path, *(f"#{one}" for one in note.tags)))
    details = element("span", " ", element("bdi", about), class_="soft")
    number = f"n{pages.numbers[note.path]}"
    text = pages.known.texts.get(note.path)
    if text is None:
        key = element("span", pages.link(note.path), details, class_="key")
        return element("li", key, id=number)
    title = element("span", element("bdi", _title(note)), class_="link")
    summary = element("summary", element("span", title, details, class_="key"))
    body = element("article", render(text), class_="text", dir="auto")
    return element("li", element("details", summary, _beside(note, pages), body), id=number)


def _beside(note: Note, pages: _Pages) -> Markup:
    links = pages.known.links[note.path]
    parts = [element("a", "The file", href=pages.file(note.path))]
    for name, paths in (("links to", links.to), ("is linked from", links.linked_from)):
        if paths:
            parts.append(joined([element("span", f" · {name} "), _listed(paths, pages)]))
    return soft(*parts)


def _listed(paths: Iterable[str], pages: _Pages) -> Markup:
    found: list[Markup] = []
    for path in paths:
        found += [Markup(", "), pages.link(path)]
    return joined(found[1:])


def _renderer() -> Callable[[str], Markup]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.disable(
        ["link", "image", "autolink", "html_inline", "html_block", "reference", "entity"]
    )

    def render(text: str) -> Markup:
        """Returns escaped text in tags of ours: without attributes, and with headings below those of the page."""
        tokens = parser.parse(visible(text))
        for token in tokens:
            for one in (token, *(token.children or ())):
                one.attrs = {}
                if one.tag in _HEADINGS:
                    one.tag = _HEADINGS[one.tag]
                if one.type == "fence":
                    one.info = ""
        return Markup(parser.renderer.render(tokens, parser.options, {}))

    return render


_HEADINGS: Final = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}


# --- Tags, names and links -----------------------------------------------------------------------


def _chips(rows: Iterable[tuple[Markup, str]]) -> Markup:
    """Returns a list of names and the like, each with a remark behind it."""
    items = (
        element("li", one, element("span", f" {remark}", class_="soft")) for one, remark in rows
    )
    return element("ul", *items, class_="chips")


def _tag(tag: str) -> Markup:
    return element("a", element("bdi", tag), href="#notes", data_find=tag)


def _tags(known: Known) -> Markup:
    if not known.tags:
        return Markup()
    parts = [_chips((_tag(f"#{one.tag}"), f"{one.notes:,}") for one in known.tags[:_MOST])]
    if len(known.tags) > _MOST:
        parts.append(soft(f"And {counted(len(known.tags) - _MOST, 'rarer tag')}."))
    return joined(parts)


def _named(named: Sequence[NameCount], pages: _Pages) -> Markup:
    if not named:
        return Markup()
    remark = (
        "By simple counting, in how many notes: words with a capital letter within a sentence, titles of notes and "
        "links. Nothing here understands who they are."
    )
    chips = []
    for one in named:
        number = element("span", f" {len(one.notes):,}", class_="soft")
        summary = element("summary", element("bdi", one.name), number)
        notes = element("p", _listed(one.notes[:_MOST], pages))
        chips.append(element("li", element("details", summary, notes)))
    return joined([element("ul", *chips, class_="chips"), soft(remark)])


def _links(pages: _Pages) -> Markup:
    links = pages.known.links.values()
    if not any(one.to or one.missing for one in links):
        remark = "No note links to another one: [[the name of a note]] does."
        return element("p", remark) if pages.known.notes else Markup()
    parts = []
    most = sorted(
        (one for one in links if one.linked_from), key=lambda one: (-len(one.linked_from), one.path)
    )
    if most:
        rows = ((pages.link(one.path), f"← {len(one.linked_from):,}") for one in most[:_MOST])
        parts += [element("h3", "Linked most"), _chips(rows)]
    missing = Counter(name for one in links for name in one.missing)
    if missing:
        rows = ((element("bdi", one), f"← {n:,}") for one, n in missing.most_common(_MOST))
        parts += [element("h3", "Linked, and no note yet"), _chips(rows)]
    is_linked = {one.path for one in links if one.to or one.linked_from}
    alone = [one.path for one in pages.known.notes if one.path not in is_linked]
    if alone:
        summary = f"{counted(len(alone), 'note')} without a link to or from another one"
        rest = f" and {len(alone) - _MOST_ALONE:,} more" if len(alone) > _MOST_ALONE else ""
        shown = element("p", _listed(alone[:_MOST_ALONE], pages), rest)
        parts.append(element("details", element("summary", summary), shown))
    return joined(parts)


_MOST_ALONE: Final = 500


# --- Days ----------------------------------------------------------------------------------------


def _calendar(notes: Iterable[Note]) -> Markup:
    """Returns the months that have dated notes, the latest first."""
    days = Counter(one.day for one in notes if one.day)
    months = sorted({(one.year, one.month) for one in days}, reverse=True)
    if not months:
        return Markup()
    drawn = [_month(*one, days) for one in months[:_MOST_MONTHS]]
    parts = [element("div", *drawn[:_MONTHS], class_="months")]
    if len(drawn) > _MONTHS:
        summary = element("summary", f"{counted(len(drawn) - _MONTHS, 'earlier month')}")
        parts.append(element("details", summary, element("div", *drawn[_MONTHS:], class_="months")))
    if len(months) > len(drawn):
        remark = f"{counted(len(months) - len(drawn), 'month')} before that not drawn."
        parts.append(soft(remark))
    return joined(parts)


def _month(year: int, month: int, days: Mapping[date, int]) -> Markup:
    dates = (date(year, month, one) for one, _ in Calendar().itermonthdays2(year, month) if one)
    cells = [_day(day, days.get(day, 0)) for day in dates]
    name = element("h3", f"{month_name[month]} {year}")
    weekdays = [element("span", one) for one in ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")]
    return element("div", name, element("div", *weekdays, *cells, class_="grid"), class_="month")


def _day(day: date, notes: int) -> Markup:
    """Returns the cell of a day; the first day of a month is placed below its weekday."""
    names = [f"w{day.weekday()}"] if day.day == 1 else []
    if not notes:
        return element("span", str(day.day), class_=" ".join(names))
    names.append("one" if notes == 1 else "many")
    return element(
        "a",
        str(day.day),
        class_=" ".join(names),
        href="#notes",
        data_find=day.isoformat(),
        title=counted(notes, "note"),
    )
