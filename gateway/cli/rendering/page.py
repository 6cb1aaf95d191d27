"""The report as one HTML page that needs nothing else: no network, no server, no other file. Pure.

First the contents of the notes, then the figures of the index. Every text of the page goes through `element`, which
escapes what is not `Markup`: notes, their names and queries are untrusted. The policy of the page permits only its own
style and its own script, whatever might get past that. Its only other links are to places in the page and to the
files of the notes, whose Markdown is rendered without links, pictures and HTML.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from calendar import Calendar, month_name
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from backends.interface import Hit, Overview, SearchAnswer
from config.settings import Source
from gateway import escaping
from gateway.cli.places import EDITORS, absolute_path, url_of
from gateway.cli.rendering.results import lines_of, matched_spans, reasons, remarks
from gateway.cli.rendering.status_lines import detail_rows, sync_summary
from gateway.cli.terminal import counted, duration, short_path, size
from gateway.cli.vault import Known, NameCount, Note
from gateway.metrics import Counted
from gateway.tools.status import StatusResult
from providers.provider_interface import ServiceState


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything in the page; `--json` prints it."""

    made_at: datetime
    """The time of the report, with the time zone of the page."""
    status: StatusResult
    overview: Overview | None
    """None while memory is off."""
    counted: Counted | None
    """None if no gateway runs that could have counted."""
    question: str | None = None
    answer: SearchAnswer | None = None
    """The answer to the question, with `explain`."""
    known: Known | None = None
    """The contents of the notes; None while memory is off."""


def _text_of(name: str) -> str:
    return "\n" + Path(__file__).with_name(name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


SCRIPT: Final = _text_of("page.js")
"""The script that searches the titles in the page. The policy of the page permits this script alone."""
_STYLE: Final = _text_of("page.css")
_POLICY: Final = (
    f"default-src 'none'; style-src {_hash_of(_STYLE)}; script-src {_hash_of(SCRIPT)}; "
    "base-uri 'none'; form-action 'none'"
)

BEGINNING: Final = '<!doctype html>\n<html lang="en" data-made-by="memory-gateway report">\n'
"""The beginning of every report, and of no other file: a file with it may be replaced by the next report."""

_MOST_COLUMNS: Final = 120
"""The most columns of one picture."""


def page_of(report: Report) -> str:
    """Returns the whole page. Of all lists with the notes, only the list of notes may have thousands of entries."""
    status = report.status
    whose = "a folder of notes" if status.notes else f"agent {status.agent_id}"
    title = f"Memory of {whose}"
    known = report.known
    knowledge = [
        ("What was asked", _answer(report)),
        *(sections_of(known, status.workspace) if known else ()),
        ("Languages", _languages(known)),
    ]
    figures = [
        ("By day", _days(report.overview)),
        ("Indexed, and not", _indexed(status)),
        ("Sizes", _sizes(report.overview)),
        ("Freshness", _freshness(status)),
        ("Searches", _searches(report)),
        ("Most shown notes", _shown(report.counted)),
        ("Recalled by itself", _recalled(report.counted)),
        ("Providers", _providers(status)),
        ("How it is set up", _set_up(status)),
    ]
    body = joined(
        [
            _header(report, title),
            *_sections(knowledge),
            _figures(status),
            *_sections(figures),
            Markup(f"<script>{SCRIPT}</script>") if known else Markup(),
        ]
    )
    return f"{BEGINNING}{element('head', _head(title))}\n{element('body', body)}\n</html>\n"


def _head(title: str) -> Markup:
    return joined(
        [
            Markup('<meta charset="utf-8">\n'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
            Markup('<meta name="referrer" content="no-referrer">\n'),
            element("title", title),
            Markup(f"\n<style>{_STYLE}</style>\n"),
        ]
    )


def _header(report: Report, title: str) -> Markup:
    status = report.status
    version = f"memory-gateway {status.version}"
    made = f"Made {_time(report.made_at)} by {version} for {short_path(status.workspace)}."
    parts = [element("h1", title), soft(made)]
    if status.disabled:
        parts.append(element("p", f"Memory is off: {status.disabled}", class_="bad"))
    if report.known:
        parts.append(_tiles(tiles_of(report.known)))
    wrong = [status.last_sync_error, status.config_error, *status.issues, *status.warnings]
    parts += [element("p", one, class_="bad") for one in wrong if one]
    return element("header", *parts)


def _sections(sections: Iterable[tuple[str, Markup]]) -> Iterator[Markup]:
    for name, content in sections:
        if content:
            yield element("section", element("h2", name), content)


def _tiles(tiles: Mapping[str, str]) -> Markup:
    items = (element("li", element("b", value), name) for name, value in tiles.items())
    return element("ul", *items, class_="tiles")


def _figures(status: StatusResult) -> Markup:
    """Returns the beginning of the part for the person who runs the memory."""
    on_disk = sum(one.on_disk for one in status.sources)
    tiles = {
        "files indexed": f"{status.files:,} of {on_disk:,}",
        "passages": f"{status.chunks:,}",
        "index": size(status.database_bytes),
        "state": _state(status),
    }
    intro = element(
        "p", "For whoever runs it: the index, what was asked of it, and how it is set up."
    )
    return element("div", intro, _tiles(tiles), class_="part")


def _state(status: StatusResult) -> str:
    if not status.enabled:
        return "off"
    if status.syncing:
        return f"syncing {status.syncing.done:,} of {status.syncing.total:,}"
    return "behind the disk" if status.dirty else "up to date"


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")


# --- Pictures and tables -------------------------------------------------------------------------


_WIDTH: Final = 960
_HEIGHT: Final = 150
_BELOW: Final = 22


def _columns(bars: Sequence[tuple[str, int]], label: str) -> Markup:
    """Returns a chart with a column for each (name, number), the first and the last of them named below."""
    highest = max(number for _, number in bars)
    step = _WIDTH / max(len(bars), 12)
    drawn = [
        element(
            "rect",
            element("title", f"{name}: {number:,}"),
            x=round(at * step, 2),
            y=round(_HEIGHT - (tall := (_HEIGHT - 20) * number / highest), 2),
            width=round(step * 0.82, 2),
            height=round(tall, 2),
        )
        for at, (name, number) in enumerate(bars)
        if number
    ]
    x = (len(bars) - 1) * step
    place = {"x": _WIDTH, "text_anchor": "end"} if x > _WIDTH / 2 else {"x": max(round(x), 90)}
    texts = [element("text", bars[0][0], x=0, y=_HEIGHT + 16)]
    if len(bars) > 1:
        texts.append(element("text", bars[-1][0], y=_HEIGHT + 16, **place))
    texts.append(element("text", f"{highest:,} at most", x=0, y=12))
    axis = element("line", x1=0, y1=_HEIGHT, x2=_WIDTH, y2=_HEIGHT)
    box = f"0 0 {_WIDTH} {_HEIGHT + _BELOW}"
    return element("svg", *drawn, axis, *texts, viewBox=box, role="img", aria_label=label)


def _bars(rows: Sequence[tuple[str, int, str]], label: str) -> Markup:
    """Returns a chart with a bar for each (name, number, remark), one below the other."""
    longest = max(number for _, number, _ in rows) or 1
    high, begin = 24, 210
    drawn = []
    for at, (name, number, remark) in enumerate(rows):
        y, wide = at * high, round((_WIDTH - begin - 260) * number / longest, 2)
        drawn += [
            element("text", name, x=0, y=y + 16),
            element("rect", x=begin, y=y + 4, width=max(wide, 1), height=high - 8),
            element("text", remark, x=round(begin + wide + 8, 2), y=y + 16),
        ]
    box = f"0 0 {_WIDTH} {len(rows) * high}"
    svg = element("svg", *drawn, viewBox=box, role="img", aria_label=label)
    # On a narrow screen it scrolls sideways rather than becoming unreadable.
    return element("div", svg, class_="wide")


# --- What is indexed -------------------------------------------------------------------------------

_SOURCES: Final[Mapping[Source, str]] = {"memory": "Notes", "sessions": "Conversations"}


def _days(overview: Overview | None) -> Markup:
    if overview is None or not overview.days:
        remark = (
            "Nothing is indexed yet: `memory-gateway index` does it, and so does the first search."
        )
        return element("p", remark) if overview else Markup()
    parts = []
    for source, name in _SOURCES.items():
        rows = [one for one in overview.days if one.source == source]
        dated = {one.day: one.files for one in rows if one.day}
        undated = sum(one.files for one in rows if not one.day)
        if not rows:
            continue
        summary = f"{name}: {sum(dated.values()):,} with a date, {undated:,} without."
        parts.append(element("p", summary))
        if dated:
            unit, bars = columns_of(dated)
            parts.append(_columns(bars, f"{name} by {unit}"))
            earlier = sum(dated.values()) - sum(files for _, files in bars)
            cut = f" Files of earlier years are not drawn: {earlier:,}." if earlier else ""
            parts.append(soft(f"Each column is a {unit}.{cut}"))
    return joined(parts)


def columns_of(dated: Mapping[str, int]) -> tuple[str, Sequence[tuple[str, int]]]:
    """Returns the unit and its columns: days, months or years without gaps, the finest for which there is room.

    Years that are too far apart are drawn without the gaps, the latest of them.
    """
    coarsest = min(map(len, dated))
    for unit, length in (("day", 10), ("month", 7), ("year", 4)):
        if length > coarsest:
            continue
        counts: Counter[str] = Counter()
        for day, files in dated.items():
            counts[day[:length]] += files
        span = _span(min(counts), max(counts))
        if span is not None:
            return unit, [(name, counts[name]) for name in span]
    return "year", sorted(counts.items())[-_MOST_COLUMNS:]


def _span(first: str, last: str) -> list[str] | None:
    """Returns all names from the first to the last; None if they are too many."""
    begin, end = (date.fromisoformat(f"{one}-01-01"[:10]) for one in (first, last))
    if (end.year - begin.year) * (1 if len(first) == 4 else 12 if len(first) == 7 else 365) > 400:
        return None
    names, day = [first], begin
    while names[-1] != last:
        if len(names) == _MOST_COLUMNS:
            return None
        day += timedelta(days=1)
        if (name := day.isoformat()[: len(first)]) != names[-1]:
            names.append(name)
    return names


def _indexed(status: StatusResult) -> Markup:
    if not status.sources:
        return Markup()
    numbers = ("on_disk", "indexed", "pending", "skipped", "chunks")
    rows = [
        (_SOURCES[one.source], *(f"{getattr(one, name):,}" for name in numbers))
        for one in status.sources
    ]
    heads = ("", "on disk", "indexed", "pending", "not indexable", "passages")
    parts = [table(heads, rows, "-nnnnn")]
    why_not = [(why, f"{files:,}") for why, files in (status.details.skipped or {}).items()]
    why_not += [
        (f"left out by {rule}", f"{files:,}")
        for rule, files in (status.details.left_out or {}).items()
        if files
    ]
    if why_not:
        parts.append(table(("Why not", "files"), why_not, "-n"))
    else:
        parts.append(element("p", "Nothing was left out."))
    if status.skipped:
        examples = (f"{one.path}: {one.reason}" for one in status.skipped[:_EXAMPLES])
        summary = element("summary", f"Some of them ({min(len(status.skipped), _EXAMPLES)})")
        items = element("ul", *(element("li", element("bdi", one)) for one in examples))
        parts.append(element("details", summary, items))
    return joined(parts)


_EXAMPLES: Final = 20


def _languages(known: Known | None) -> Markup:
    if known is None or not known.languages:
        return Markup()
    rows = [
        (one.language.title(), one.files, counted(one.files, "note"))
        for one in known.languages[:_EXAMPLES]
    ]
    remark = "Notes with much text in a language, by their scripts and frequent words; a note may have several."
    return joined([_bars(rows, "Notes by language"), soft(remark)])


def _sizes(overview: Overview | None) -> Markup:
    if overview is None or not overview.sizes:
        return Markup()
    rows = [
        (
            f"from {size(one.from_bytes)}" if one.from_bytes else "below 10 B",
            one.files,
            f"{counted(one.files, 'note')}, {size(one.bytes)}",
        )
        for one in overview.sizes
    ]
    return _bars(rows, "Notes by size")


def _freshness(status: StatusResult) -> Markup:
    if not status.enabled:
        return Markup()
    parts = []
    if status.watcher:
        why = f": {status.watcher.reason}" if status.watcher.reason else ""
        parts.append(element("p", f"Watcher: {status.watcher.mode}{why}."))
    if not status.recent_syncs:
        remark = "This process has made no sync. Every search looks for changes of its own."
        return joined([*parts, element("p", remark)])
    rows = [
        (one.reason, sync_summary(one) + (f" Error: {one.error}" if one.error else ""))
        for one in status.recent_syncs
    ]
    return joined([*parts, table(("Last syncs, newest first", ""), rows, "--")])


# --- What was done -------------------------------------------------------------------------------

_NO_GATEWAY: Final = "No gateway runs for this memory, so nothing is counted."


def _searches(report: Report) -> Markup:
    if report.counted is None:
        return element("p", _NO_GATEWAY)
    start = datetime.fromtimestamp(report.counted.since, UTC).astimezone(report.made_at.tzinfo)
    since = f"Since {_time(start)}, when the gateway was started."
    if not report.counted.searches:
        return element("p", f"{since} Nobody has searched yet.")
    rows = []
    for one in report.counted.searches:
        outcomes = ", ".join(f"{count:,} {name}" for name, count in sorted(one.outcomes.items()))
        times = ("–" if ms is None else duration(ms) for ms in (one.ms_median, one.ms_p95))
        rows.append((one.backend, one.mode, f"{sum(one.outcomes.values()):,}", outcomes, *times))
    heads = ("Backend", "mode", "searches", "outcomes", "median", "95 % within")
    return joined([element("p", since), table(heads, rows, "--n-nn")])


def _shown(searched: Counted | None) -> Markup:
    if searched is None:
        return element("p", _NO_GATEWAY)
    if not searched.shown:
        return element("p", "No note was in an answer since the start.")
    rows = [(element("bdi", one.path), f"{one.answers:,}") for one in searched.shown]
    remark = "Counted since the start of the gateway, each note once an answer."
    if searched.shown_forgotten:
        remark += " So many notes were shown that rare ones were forgotten: the numbers are at least these."
    return joined([table(("Note", "answers"), rows, "-n"), soft(remark)])


def _recalled(counts: Counted | None) -> Markup:
    if counts is None:
        return element("p", _NO_GATEWAY)
    if not counts.recalled:
        return element("p", "No note was recalled before a prompt so far.")
    rows = [
        (element("bdi", one.path), f"{one.recalled:,}", f"{one.used:,}") for one in counts.recalled
    ]
    remark = (
        "Of use: the note was then read, or found by a search, in the same conversation. "
        "Counted since the index was made."
    )
    counts_of_notes = table(("Note", "recalled", "of use"), rows, "-nn")
    return joined([counts_of_notes, soft(remark)])


def _providers(status: StatusResult) -> Markup:
    vector = status.details.vector
    if not vector:
        return Markup()
    choice = f"{status.provider or 'None'} is in use. {vector.reason}"
    parts = [element("p", choice)]
    if vector.provider:
        states = (vector.provider.primary, vector.provider.fallback)
        rows = [_service(one) for one in states if one is not None]
        heads = ("Provider", "model", "state", "requests", "given up", "texts")
        parts.append(table(heads, rows, "---nnn"))
    passed_over = [one.provider for one in vector.candidates if not one.usable]
    if passed_over:
        parts.append(soft(f"Not set up: {', '.join(passed_over)}."))
    return joined(parts)


def _service(one: ServiceState) -> tuple[str, ...]:
    state = f"{one.status}: {one.reason}" if one.reason else one.status
    counts = one.statistics
    numbers = (counts.requests, counts.failures, counts.documents)
    return one.provider, one.model, state, *(f"{number:,}" for number in numbers)


def _set_up(status: StatusResult) -> Markup:
    rows = [("Backend", status.backend or "none"), *detail_rows(status.details)]
    rows.append(("Workspace", short_path(status.workspace)))
    if status.database_path:
        rows.append(("Index", short_path(status.database_path)))
    rows.append(("Configuration", short_path(status.config_path or "all defaults")))
    return table(("", ""), rows, "--")


# --- A question ----------------------------------------------------------------------------------


_ABOUT_LINES: Final = (
    "Of each line: its share in what speaks for the passage, and what it scores by itself, "
    "with the lines beside it."
)


def _answer(report: Report) -> Markup:
    if report.question is None or report.answer is None:
        return Markup()
    answer = report.answer
    asked = element("p", element("b", element("bdi", report.question)))
    spent = duration(sum(answer.timings_ms.get(part, 0.0) for part in ("prepare", "search")))
    summary = (
        f"{counted(len(answer.hits), 'passage')}, by {answer.mode or 'no'} search, in {spent}."
    )
    parts = [asked, soft(summary)]
    parts += [element("p", one) for one in ([answer.error] if answer.error else remarks(answer))]
    if any(hit.explain for hit in answer.hits):
        parts.append(soft(_ABOUT_LINES))
    parts += [_hit(hit, report.question) for hit in answer.hits]
    return joined(parts)


def _hit(hit: Hit, question: str) -> Markup:
    place = f"{hit.path}:{hit.start_line}-{hit.end_line}"
    heading = element("h3", f"{hit.score:.3f} ", element("bdi", place))
    parts = [heading, _lines(hit, question)]
    if hit.explain:
        lanes = list(_lanes(hit.explain))
        if lanes:
            heads = ("Lane", "found", "calibrated", "rank of all lines", "weight")
            parts.append(table(heads, lanes, "-nnnn"))
        parts += [soft(one) for one in reasons(hit, question)]
    return element("article", *parts, class_="hit")


def _lines(hit: Hit, question: str) -> Markup:
    """Returns the lines of the passage, each with its number in the file, its scores, and its matches marked."""
    lines = lines_of(hit)
    own = sum(not one.is_beside for one in lines)
    shares = [_share(one) for one in (hit.explain or {}).get("lines", ())]
    names = ("line", "share", "words", "meaning")[
        : 1 if not shares else 3 + any(one[2] for one in shares)
    ]
    nothing = ("", "", "")
    beside = iter(shares if len(shares) == own else ())  # QMD explains no lines
    rows = []
    for line in lines:
        share = nothing if line.is_beside else next(beside, nothing)
        number = "" if line.number is None else str(line.number)
        cells = [element("td", one, class_="n") for one in (number, *share)[: len(names)]]
        text = element("td", _marked(line.text, question), dir="auto")
        rows.append(element("tr", *cells, text))
    head = element("tr", *(element("th", name, class_="n") for name in names), element("th"))
    lines_of_passage = element(
        "table", element("thead", head), element("tbody", *rows), class_="lines"
    )
    return element("div", lines_of_passage, class_="wide")


def _share(line: Mapping[str, object]) -> tuple[str, str, str]:
    """Returns the share of a line in its passage, and its scores by words and by meaning; empty for none."""
    meaning = line["vector"]
    return (
        f"{line['share']:.0%}" if line["share"] else "",
        f"{line['text']:.2f}" if line["text"] else "",
        "" if meaning is None else f"{meaning:.2f}",
    )


def _marked(line: str, question: str) -> Markup:
    at, pieces = 0, []
    for start, end in matched_spans(line, question):
        pieces += [escape(line[at:start]), element("mark", line[start:end])]
        at = end
    return joined([*pieces, escape(line[at:])])


def _lanes(explain: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    """Yields the figures of each lane for the passage; none from QMD, which does not report any."""
    for name, lane in (("words", explain.get("text")), ("meaning", explain.get("vector"))):
        if isinstance(lane, Mapping) and "weight" in lane:
            rank = f"{lane['rank']:,}" if lane["rank"] else "–"
            yield (
                name,
                *(f"{lane[one]:.3f}" for one in ("raw", "calibrated")),
                rank,
                f"{lane['weight']:.2f}",
            )


# --- What the notes contain -----------------------------------------------------------------------

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
        is_here = path in self.known.texts and path in self.numbers
        where = f"#n{self.numbers[path]}" if is_here else self.file(path)
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
