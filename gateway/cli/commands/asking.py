"""`search`, `get` and `remember`: what the tools of an agent do, for people and scripts."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec.structs import replace

from config.errors import ErrorKind
from gateway.cli import output
from gateway.cli.guard import EXIT_CODES, NOT_FOUND
from gateway.cli.options import CommandLineError, Options

if TYPE_CHECKING:
    import typer

    from backends.interface import ReadAnswer, SearchAnswer
    from config.settings import Settings
    from gateway.cli.access import Access
    from gateway.tools.get import GetParams
    from gateway.tools.search import SearchParams


_ONE_OF_THEM = "Give one of them; --before may go with either."
_PLACE: Final = re.compile(r"(?P<path>.+?)(?::|#L)(?P<first>[1-9]\d{0,8})(?:-L?(?P<last>\d{1,9}))?")
"""`memory/2026-02-08.md:14-16`, `MEMORY.md#L3-L4`."""


def search(
    options: Options,
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="What to look for, in any words.")
    ],
    *,
    max_results: Annotated[
        int | None,
        typer.Option(
            "--max-results", min=1, metavar="N", help="At most this many passages; or -n N."
        ),
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="X", help="Leave out passages with a lower score."),
    ] = None,
    source: Annotated[
        Literal["memory", "sessions"] | None,
        typer.Option("--source", "-s", help="Search only notes, or only past conversations."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Only paths that match; may be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="No paths that match; may be repeated."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            "--since",
            metavar="DAY",
            help="Notes of this day or later: 2026-02-08, today or yesterday.",
        ),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="DAY", help="Notes from before this day.")
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Notes of the last N days, today included."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Only notes with this tag; may be repeated."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", "-e", help="Say why each passage was found.")
    ] = False,
) -> int:
    """Find the passages of memory that answer a query, best first."""
    from config.host_keys import is_disabled
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.session_start import agent_now
    from gateway.tools.search import SearchParams

    settings = load(options)
    today = agent_now(settings.user_timezone).date()
    params = SearchParams(
        query=" ".join(query),
        max_results=max_results,
        min_score=min_score,
        sources=(source,) if source else None,
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        after=_first_day(after, days, today),
        before=_day("--before", before, today),
        explain=explain,
        tags=tuple(tag or ()),
    )
    ask = partial(_search, params)
    result, files, issues = with_memory(settings, options, ask, patient=True)
    if options.json:
        output.write_json(result)
    else:
        _show_result(result, params, settings, files, issues)
    if result.disabled and not is_disabled(settings):
        return EXIT_CODES[ErrorKind.INDEX_UNAVAILABLE]
    return os.EX_OK


async def _search(
    params: SearchParams, memory: Access
) -> tuple[SearchAnswer, int, tuple[str, ...]]:
    """The result; when nothing is found, in how many files, and what is odd about them."""
    result = await memory.search(params)
    if result.hits or result.error:
        return result, 0, ()
    wanted, status = params.sources, await memory.status()
    files = sum(one.indexed for one in status.sources if not wanted or one.source in wanted)
    return result, files, status.issues


def _show_result(
    result: SearchAnswer,
    params: SearchParams,
    settings: Settings,
    files: int,
    issues: tuple[str, ...],
) -> None:
    from gateway.cli.rendering.results import no_match, remarks, result_lines
    from gateway.cli.rendering.words import short_path
    from gateway.cli.terminal import print_lines

    if result.error:
        output.note(result.error)
    elif not result.hits:
        output.say(no_match(params, files, short_path(str(settings.workspace)), issues))
    print_lines(result_lines(result, params.query))
    for remark in remarks(result):
        output.note(remark)


def _first_day(after: str | None, days: int | None, today: date) -> date | None:
    if days is None:
        return _day("--after", after, today)
    if after is not None:
        raise CommandLineError("--days and --after both say where to begin.", remedy=_ONE_OF_THEM)
    return today - timedelta(days=min(days, today.toordinal()) - 1)


def _day(option: str, text: str | None, today: date) -> date | None:
    """Raises CommandLineError."""
    if text is None:
        return None
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        return named.get(text.strip().lower()) or date.fromisoformat(text.strip())
    except ValueError:
        raise CommandLineError(
            f"{option}: {text!r} is not a day.",
            remedy="Write a day as 2026-02-08, or today or yesterday.",
        ) from None


def get(
    options: Options,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="As `search` shows it, with or without lines: MEMORY.md, MEMORY.md:14-16.",
        ),
    ],
    first_line: Annotated[
        int | None, typer.Option("--from", min=1, metavar="LINE", help="First line to show.")
    ] = None,
    lines: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many lines to show.")
    ] = None,
) -> int:
    """Print a memory file, or some lines of it, as it is."""
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.get import GetParams

    params = _with_lines(GetParams(path, first_line, lines))
    result = with_memory(load(options), options, lambda memory: memory.get(params))
    if options.json:
        output.write_json(result)
    else:
        _show_text(result, params)
    return _get_code(result)


def _with_lines(params: GetParams) -> GetParams:
    """What `search` prints and cites names lines behind the path; options say it better."""
    found = _PLACE.fullmatch(params.path)
    if found is None or params.first_line is not None or params.lines is not None:
        return params if found is None else replace(params, path=found["path"])
    first = int(found["first"])
    last = int(found["last"] or first)
    return replace(params, path=found["path"], first_line=first, lines=max(1, last - first + 1))


def _show_text(result: ReadAnswer, params: GetParams) -> None:
    output.write_content(result.text)
    if result.text and not result.text.endswith("\n") and (params.lines or output.is_terminal()):
        output.write_text("\n")  # the next prompt is not part of a note
    if _is_beyond(result):
        output.note(f"{result.path} ends before line {result.first_line}.")
    elif result.status == "not_found":
        output.note(f"There is no file {result.path}.")
    elif result.error:
        output.note(result.error)
    elif result.truncated:
        output.note(f"Cut off here; --from {result.next_line} shows what follows.")


def _is_beyond(result: ReadAnswer) -> bool:
    return result.status == "ok" and result.first_line > 1 and not result.line_count


def _get_code(result: ReadAnswer) -> int:
    if _is_beyond(result):
        return NOT_FOUND
    if result.status == "ok":
        return os.EX_OK
    if result.status == "not_found":
        return NOT_FOUND
    return EXIT_CODES[result.kind or ErrorKind.INDEX_UNAVAILABLE]


_MARKED: Final = re.compile(r"([-*+>]|#{1,6}|\d{1,9}[.)])\s|```|\|")


def remember(
    options: Options,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to write down.")],
    *,
    longterm: Annotated[
        bool, typer.Option("--longterm", help="Append it to MEMORY.md instead.")
    ] = False,
) -> int:
    """Append an entry to today's log; the next search finds it."""
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.append import AppendParams

    params = AppendParams(text=_as_item(" ".join(text)), target="longterm" if longterm else "daily")
    result = with_memory(load(options), options, lambda memory: memory.append(params))
    if options.json:
        output.write_json(result)
    elif result.error:
        output.note(result.error)
    else:
        output.say(f"{result.path}:{result.start_line}-{result.end_line}")
    return os.EX_UNAVAILABLE if result.error else os.EX_OK


def _as_item(text: str) -> str:
    """A line becomes an item, lest it runs on the one before it; what is Markdown already stays so."""
    is_one_line = text.strip() and "\n" not in text.strip()
    return f"- {text.strip()}" if is_one_line and not _MARKED.match(text.strip()) else text
