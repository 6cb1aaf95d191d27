"""Passages and notes as a terminal shows them: numbered lines of rendered Markdown, with the best one marked.

The output for a pipe is in `results`. Only front matter without words of the writer and the markup of Markdown are left
out. `look_around` reads the lines around a hit; all else is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import dropwhile, groupby
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from rich.cells import cell_len
from rich.text import Text

from backends.chunking import Fence, fence_below
from backends.interface import BREADCRUMB, Hit
from backends.text.frontmatter import FrontMatter
from gateway.cli.places import is_file, link_to
from gateway.cli.rendering.results import Line, also_in, lines_of, mark, matched_characters, reasons
from gateway.cli.terminal import TableRow
from gateway.escaping import visible_line
from gateway.tools.notes import GetParams

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from backends.interface import Hit, ReadAnswer

SHOWN_LINES: Final = 6
"""The most lines of a passage, unless all of it is asked for."""
_MAX_RENDERED: Final = 5_000
"""The most characters of a line that is rendered; a longer one is no prose."""
_LEFT_OUT: Final = Line(None, "⋮", is_beside=True)


class Around(msgspec.Struct, frozen=True):
    """The text of a note around the passage of a hit."""

    front_matter_end: int = 0
    """The last line of front matter; 0 if there is none."""
    first_line: int = 0
    lines: tuple[str, ...] = ()
    """The lines to show instead of the passage's own, from `first_line` on; empty to show the passage's own."""


class Look(msgspec.Struct, frozen=True):
    """The way in which results are shown."""

    query: str
    url: str | None = None
    """The pattern of links to places; None where the terminal has no links."""
    base: str = "/"
    """The directory that paths are relative to."""
    full: bool = False
    explain: bool = False
    folds: bool = False
    """True if a passage that is unlikely to answer is shortened to one line when there is a better one."""


def shown_hits(hits: Sequence[Hit], look: Look, around: Sequence[Around]) -> Iterator[Text]:
    """Yields the lines of all hits; `around` has the text around each of them."""
    folds = look.folds and bool(hits) and hits[0].confidence in {"likely", "maybe"}
    for number, (hit, beside) in enumerate(zip(hits, around, strict=True), 1):
        if folds and hit.confidence == "unlikely":
            line = shown_line(hit, look.query, beside)
            yield _heading(hit, look, number, line.number or hit.start_line)
            yield from shown_lines([line], look, None)
        else:
            yield from shown_hit(hit, look, number, beside)
        yield Text()


def shown_hit(hit: Hit, look: Look, number: int, around: Around) -> Iterator[Text]:
    lines = [
        one for one in lines_of(hit) if not one.text.startswith(BREADCRUMB) or not one.is_beside
    ]
    best = best_line(hit, look.query, after=around.front_matter_end)
    line = best.number or hit.start_line
    yield _heading(hit, look, number, line)
    if hit.headings:
        yield Text(f"   {' › '.join(hit.headings)}", style="dim italic")
    end = around.front_matter_end
    lines = [one for one in lines if _is_shown(one, end, one.number or end + 1)]
    if end:
        lines = list(dropwhile(lambda one: one.is_beside, lines))
    if around.lines:
        lines = [Line(at, text) for at, text in enumerate(around.lines, around.first_line)]
    elif not look.full:
        lines = _in_sight(lines, best)
    yield from shown_lines(lines, look, best.number)
    yield from also_in(hit, "   ")
    if look.explain:
        yield from (Text(f"   {one}", style="dim") for one in reasons(hit, look.query))


def _heading(hit: Hit, look: Look, number: int, line: int) -> Text:
    """Returns `2  house/boiler.md:14  Boiler log  #house  likely, 0.712`."""
    link = link_to(look.url, look.base, hit, line)
    place = f"bold cyan link {link}" if link else "bold cyan"
    about = visible_line("  ".join(filter(None, [hit.title, *(f"#{tag}" for tag in hit.tags)])))
    score = f"{hit.confidence}, {hit.score:.3f}" if hit.confidence else f"{hit.score:.3f}"
    return Text.assemble(
        (f"{number}  ", "bold"),
        (f"{visible_line(hit.path)}:{line}", place),
        (f"  {about}" if about else "", ""),
        (f"  {score}", "dim"),
    )


def best_line(hit: Hit, query: str, *, after: int = 0) -> Line:
    """Returns the line that ranks the passage highest; if the ranking does not say, the one that matches most.

    Of front matter, whose last line is `after`, only fields of the writer count. Without such a line, it is empty.
    """
    lines = [one for one in lines_of(hit) if not one.is_beside]
    shares = [one["share"] for one in (hit.explain or {}).get("lines", ())]
    if len(shares) != len(lines):
        shares = [0.0] * len(lines)
    weighed = [
        (share, matched_characters(one.text, query), not one.text.startswith("#"), one)
        for share, one in zip(shares, lines, strict=True)
        if _is_shown(one, after, one.number or hit.end_line)
    ]
    best = max(weighed, key=lambda one: one[:3], default=None)
    return best[3] if best else Line(hit.start_line, "")


def _is_shown(line: Line, front_matter_end: int, number: int) -> bool:
    """Returns whether a line is below the front matter, or is a field of it with words of the writer."""
    if number > front_matter_end:
        return True
    from backends.text.frontmatter import is_field

    return not line.is_beside and is_field(line.text)


def shown_line(hit: Hit, query: str, around: Around) -> Line:
    """Returns the best line; if only front matter matches, the first line with text of those that are shown."""
    best = best_line(hit, query, after=around.front_matter_end)
    others = ((at, one) for at, one in enumerate(around.lines, around.first_line) if one.strip())
    return best if best.text else Line(*next(others, (best.number, "")))


def _in_sight(lines: Sequence[Line], best: Line) -> list[Line]:
    """Returns a part that begins with the best line, or above it if there is room; blank lines are left out.

    If it begins with rows of a table, the head of the table is put before them, if the passage has that.
    """
    lines = [one for one in lines if one.text.strip()]
    if len(lines) <= SHOWN_LINES:
        return list(lines)
    at = next((number for number, one in enumerate(lines) if one == best), 0)
    begin = min(at, len(lines) - SHOWN_LINES)
    part = [*_head_above(lines, begin), *lines[begin : begin + SHOWN_LINES]]
    return part if begin + SHOWN_LINES == len(lines) else [*part, _LEFT_OUT]


def _head_above(lines: Sequence[Line], begin: int) -> Sequence[Line]:
    """Returns the head of the table that `begin` is in, and its row of dashes, as far as they are above `begin`."""
    first = begin
    while first and (_is_row(lines[first - 1].text) or lines[first - 1].is_beside):
        first -= 1
    is_headed = _is_row(lines[begin].text) and _is_delimiter(_cells(lines[first + 1].text))
    return lines[first : min(first + 2, begin)] if is_headed else ()


def lines_hidden(text: str, facts: FrontMatter) -> int:
    """Returns the number of lines of a note's front matter, with both of its marks."""
    return text[: facts.end].count("\n") + 2 if facts.end else 0


def shown_note(
    lines: Sequence[str],
    first_line: int,
    hidden: int,
    facts: FrontMatter,
    look: Look,
    best: int | None = None,
) -> Iterator[Text]:
    """Yields lines of a note; in place of the first, `hidden` ones, the facts that they contain."""
    day = facts.day.isoformat() if facts.day else ""
    parts = [facts.title, *(f"#{tag}" for tag in facts.tags), day]
    if hidden and any(parts):
        yield Text("  ".join(filter(None, parts)), style="dim italic")
    numbered = [Line(at, line) for at, line in enumerate(lines, first_line)][hidden:]
    yield from shown_lines(numbered, look, best)


# --- Lines ---------------------------------------------------------------------------------------


def shown_lines(lines: Sequence[Line], look: Look, best: int | None) -> Iterator[Text]:
    """Yields each line with its number, the best one marked, and the words of the query highlighted."""
    width = max((len(str(one.number)) for one in lines if one.number is not None), default=1)
    for line, text in zip(lines, _rendered(lines, with_urls=look.url is None), strict=True):
        is_best = best is not None and line.number == best
        row = TableRow()
        number = "" if line.number is None else str(line.number)
        row.append(" ▶ " if is_best else "   ", "bold green")
        row.append(f"{number:>{width}} ", "bold green" if is_best else "dim")
        row.append("│ ", "dim")
        row.last_cell = len(row.plain)
        row.append_text(mark(text, look.query) if look.query else text)
        yield row


def _rendered(lines: Sequence[Line], *, with_urls: bool) -> Iterator[Text]:
    """Yields each line without the markup of Markdown; no line is dropped."""
    fence: Fence | None = None
    for is_table, group in groupby(lines, lambda one: _is_row(one.text)):
        if is_table and fence is None:
            yield from _table([one.text for one in group], with_urls=with_urls)
            continue
        for one in group:
            above, fence = fence, fence_below(one.text, fence)
            if (above is None) != (fence is None):
                yield Text(one.text, style="dim")
            elif fence is not None:
                yield Text(one.text, style="green")
            else:
                yield _line(one.text, with_urls=with_urls)


_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t#]*")
_ITEM: Final = re.compile(r"(\s*)(?:[-*+]|(\d{1,9}[.)]))[ \t]+(?:\[([ xX])\][ \t]+)?(.*)")
_QUOTE: Final = re.compile(r" {0,3}>[ \t]?(.*)")
_RULE: Final = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}")
_BOXES: Final = {" ": "☐ ", "x": "☑ ", "X": "☑ "}


def _line(line: str, *, with_urls: bool) -> Text:
    if len(line) > _MAX_RENDERED:
        return Text(line)
    if found := _HEADING.fullmatch(line):
        text = _inline(found[1], with_urls=with_urls)
        text.stylize("bold magenta")
        return text
    if _RULE.fullmatch(line):
        return Text("─" * 20, style="dim")
    if found := _QUOTE.fullmatch(line):
        return Text.assemble(("▎ ", "dim"), _line(found[1], with_urls=with_urls))
    if found := _ITEM.fullmatch(line):
        indent, number, box, content = found.groups()
        sign = f"{number} " if number else "• "
        begin = f"{indent}{sign if number or box is None else ''}{_BOXES.get(box or '', '')}"
        return Text.assemble((begin, "cyan"), _inline(content, with_urls=with_urls))
    return _inline(line, with_urls=with_urls)


_STYLES: Final = {"strong": "bold", "em": "italic", "s": "strike"}


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt  # not for a pipe

    return MarkdownIt("commonmark").enable("strikethrough")


def _inline(text: str, *, with_urls: bool) -> Text:
    stripped = text.lstrip(" \t")
    shown = Text(text[: len(text) - len(stripped)])
    styles: list[str] = []
    links: list[str] = []
    for token in _tokens(stripped):
        name, _, side = token.type.rpartition("_")
        if token.type == "link_open":
            links.append(str(token.attrGet("href") or ""))
            styles.append(_link_style(links[-1], with_urls=with_urls))
        elif token.type == "link_close":
            styles.pop()
            url = links.pop()
            shown.append(f" ({url})" if with_urls else "", "dim")
        elif side == "open":
            styles.append(_STYLES.get(name, ""))
        elif side == "close":
            styles.pop()
        else:
            own = "green" if token.type == "code_inline" else ""
            shown.append(_text_of(token), " ".join(filter(None, [*styles, own])))
    return shown


def _tokens(text: str) -> Iterable[Token]:
    return (child for token in _markdown().parseInline(text) for child in token.children or ())


def _text_of(token: Token) -> str:
    if token.type == "image":
        return f"[{token.content or 'image'}: {token.attrGet('src')}]"
    return " " if token.type in {"softbreak", "hardbreak"} else token.content


def _link_style(url: str, *, with_urls: bool) -> str:
    """Returns the style of a link. The parser has encoded all characters that an address may not have."""
    is_plain = re.fullmatch(r"https?://[!-~]+", url) is not None
    return f"underline link {url}" if is_plain and not with_urls else "underline"


_CELL: Final = re.compile(r"(?<!\\)\|")
_DELIMITER: Final = re.compile(r":?-+:?")


def _table(rows: Sequence[str], *, with_urls: bool) -> Iterator[Text]:
    """Yields the rows of a table with its columns aligned; a row of dashes becomes a line."""
    cells = [_cells(row) for row in rows]
    shown = [[_inline(cell, with_urls=with_urls) for cell in row] for row in cells]
    widths = [
        max((one[at].cell_len for one in shown if at < len(one)), default=0)
        for at in range(max(map(len, cells), default=0))
    ]
    for row, texts in zip(cells, shown, strict=True):
        if _is_delimiter(row):
            drawn = "─┼─".join("─" * widths[at] for at in range(len(row)))
            yield Text(drawn, style="dim")
            continue
        line = Text()
        for at, text in enumerate(texts):
            line.append(" │ " if at else "", "dim")
            line.append_text(text)
            line.append(" " * (widths[at] - cell_len(text.plain)))
        line.rstrip()
        yield line


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def _is_delimiter(cells: Sequence[str]) -> bool:
    return bool(cells) and all(map(_DELIMITER.fullmatch, cells))


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(inner)]


_MOST_FRONT_MATTER: Final = 100
"""The first lines of a note, in which front matter is looked for."""


class Readable(Protocol):
    """The memory that notes are read from."""

    async def get(self, params: GetParams) -> ReadAnswer: ...


async def look_around(
    memory: Readable, hits: Sequence[Hit], query: str, context: int | None = None
) -> list[tuple[Hit, Around]]:
    """Returns the hits with text to show, and `context` lines of the note around each if that is given.

    A hit that matches only in front matter shows the beginning of its note, unless another hit shows that note.
    """
    ends = [await _front_matter_end(memory, hit) for hit in hits]
    looked = [
        (hit, end, best_line(hit, query, after=end).text != "")
        for hit, end in zip(hits, ends, strict=True)
    ]
    shown: list[tuple[Hit, Around]] = []
    paths = {hit.path for hit, _, has_text in looked if has_text}
    for hit, end, has_text in looked:
        if has_text or hit.path not in paths:
            paths.add(hit.path)
            shown.append((hit, await _around(memory, hit, query, context, end, has_text=has_text)))
    return shown


async def _front_matter_end(memory: Readable, hit: Hit) -> int:
    from backends.text.frontmatter import read_front_matter

    if not is_file(hit) or hit.start_line > _MOST_FRONT_MATTER:
        return 0
    head = await memory.get(GetParams(hit.path, 1, _MOST_FRONT_MATTER))
    return lines_hidden(head.text, read_front_matter(head.text))


async def _around(
    memory: Readable, hit: Hit, query: str, context: int | None, end: int, *, has_text: bool
) -> Around:
    if not is_file(hit) or (context is None and has_text):
        return Around(end)
    best = best_line(hit, query, after=end).number or hit.start_line
    first, last = end + 1, end + SHOWN_LINES
    if context is not None:
        first, last = max(end + 1, best - context), max(end + 1, best) + context
    read = await memory.get(GetParams(hit.path, first, last - first + 1))
    return Around(end, first, tuple(read.text.split("\n")[: read.line_count]))
