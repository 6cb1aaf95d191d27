"""`search`, `get` and `remember`: what the tools of an agent do, for people and scripts."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec.structs import replace

from config.errors import ErrorKind
from gateway.cli import output
from gateway.cli.guard import NOTHING_FOUND, AnsweredRefusalError, NotThereError
from gateway.cli.options import PROGRAM, CommandLineError, Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    import typer

    from backends.interface import ReadAnswer, SearchAnswer
    from config.settings import Settings
    from gateway.cli.access import Access
    from gateway.cli.rendering.on_terminal import Around
    from gateway.tools.notes import GetParams
    from gateway.tools.search import SearchParams


_ONE_OF_THEM = "Give one of them; --before may go with either."
_PLACE: Final = re.compile(r"(?P<path>.+?)(?::|#L)(?P<first>[1-9]\d{0,8})(?:-L?(?P<last>\d{1,9}))?")
"""`memory/2026-02-08.md:14-16`, `MEMORY.md#L3-L4`."""


_FIELDS: Final = ("path", "line", "start", "end", "score", "confidence", "title", "source", "text")
_MARKED: Final = re.compile(r"([-*+>]|#{1,6}|\d{1,9}[.)])\s|```|\|")
_WHY = {
    "small_talk": "Nothing: the prompt has no subject.",
    "machine_output": "Nothing: what was pasted asks nothing.",
    "command": "Nothing: this is a command of the client.",
    "nothing_likely": "Nothing in memory likely answers this.",
    "no_room": "Nothing: no passage fits into so few tokens.",
}


def search(
    options: Options,
    query: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUERY", help="What to look for, in any words; none with --tag lists notes."
        ),
    ] = None,
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
    full: Annotated[
        bool, typer.Option("--full", help="On a terminal: all of each passage.")
    ] = False,
    context: Annotated[
        int | None,
        typer.Option(
            "--context", "-C", min=0, max=1000, metavar="N",
            help="On a terminal: N lines of the note before and after the best one.",
        ),
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", "-l", help="Print the paths of the notes alone.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="TEXT",
            help="Print a line a passage, such as '{path}:{line}: {text}'.",
        ),
    ] = None,
    editor: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where links lead: file, vscode, obsidian, ..., none."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print on a terminal what a pipe gets.")
    ] = False,
) -> int:  # fmt: skip
    """Find the passages of memory that answer a query, best first.

    Ends with 1 if nothing was found.
    """
    from config.host_keys import is_disabled
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.session_start import agent_now
    from gateway.tools.search import SearchParams

    settings = load(options)
    if not query and tag:
        from gateway.cli.commands.listing import list_notes

        return list_notes(settings, options, tag, max_results or 1_000)
    if not query:
        raise CommandLineError(
            "search needs a query.",
            remedy="Say what to look for in any words, or give --tag alone to list notes.",
        )
    looked_at = output.is_terminal() and not (plain or files or form or options.json)
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
    ask = partial(_search, params, context=context, looked_at=looked_at, weighed=form is not None)
    found = with_memory(settings, options, ask, patient=True)
    result = found.answer
    if result.disabled and not is_disabled(settings):
        raise AnsweredRefusalError(result.error or "Nothing was searched.", result.kind)
    if options.json:
        output.write_json(result)
    elif files or form:
        _show_lines(result, params.query, form)
    else:
        manner = _Manner(
            looked_at, full, editor, folds=not (full or explain or context is not None)
        )
        _show_result(found, params, settings, manner)
    return os.EX_OK if result.hits or result.error else NOTHING_FOUND


class _Found(NamedTuple):
    answer: SearchAnswer
    files: int = 0
    """Where nothing was found: in how many files, ..."""
    issues: tuple[str, ...] = ()
    """... and what is odd about them."""
    around: Mapping[int, Around] = {}
    """For a person: what stands around each hit, by its number from 1 on."""


async def _search(
    params: SearchParams, memory: Access, *, context: int | None, looked_at: bool, weighed: bool
) -> _Found:
    """With the shares of lines where the best of them is to be shown."""
    if looked_at or weighed:
        params = replace(params, explain=True)
    result = await memory.search(params)
    if result.hits and looked_at:
        from gateway.cli.rendering.on_terminal import look_around

        shown = await look_around(memory, result.hits, params.query, context)
        hits, around = tuple(hit for hit, _ in shown), [one for _, one in shown]
        return _Found(replace(result, hits=hits), around=dict(enumerate(around, 1)))
    if result.hits or result.error:
        return _Found(result)
    wanted, status = params.sources, await memory.status()
    files = sum(one.indexed for one in status.sources if not wanted or one.source in wanted)
    return _Found(result, files, status.issues)


class _Manner(NamedTuple):
    looked_at: bool
    full: bool
    editor: str | None
    folds: bool


def _show_result(found: _Found, params: SearchParams, settings: Settings, manner: _Manner) -> None:
    from gateway.cli.rendering.results import no_match, remarks, result_lines
    from gateway.cli.rendering.words import short_path
    from gateway.cli.state import may_hint
    from gateway.cli.terminal import print_lines
    from gateway.tools.search import ONLY_WORDS

    result = found.answer
    if result.error:
        output.note(result.error)
    elif not result.hits:
        place = short_path(str(settings.workspace))
        output.say(no_match(params, found.files, place, found.issues))
    if manner.looked_at:
        _show_on_terminal(found, params, settings, manner)
    else:
        print_lines(result_lines(result, params.query))
    is_hint = result.warning == ONLY_WORDS and not params.explain
    if is_hint and (not found.files or not may_hint()):  # meaning finds nothing in no notes
        result = replace(result, warning=None)
    for remark in remarks(result, with_times=params.explain):
        output.note(remark)


def _show_on_terminal(
    found: _Found, params: SearchParams, settings: Settings, manner: _Manner
) -> None:
    """Keeps where the hits stand, too: `open 2` is about the second of them."""
    from gateway.cli.rendering.on_terminal import Look, best_line, shown_hits
    from gateway.cli.rendering.places import absolute_path, url_pattern
    from gateway.cli.state import keep_hits
    from gateway.cli.terminal import print_lines

    look = Look(
        query=params.query,
        url=url_pattern(manner.editor, os.environ),
        base=str(settings.workspace),
        full=manner.full,
        explain=params.explain,
        folds=manner.folds,
    )
    hits = found.answer.hits
    print_lines(shown_hits(hits, look, found.around))
    if not hits:
        return
    ends = [found.around[number].front_matter_end for number in sorted(found.around)]
    keep_hits(
        [
            (
                absolute_path(look.base, one.path),
                best_line(one, look.query, after=end).number or one.start_line,
            )
            for one, end in zip(hits, ends, strict=True)
        ]
    )


def _show_lines(result: SearchAnswer, query: str, form: str | None) -> None:
    """Without a form the paths alone, each once. Raises CommandLineError for a form with other names."""
    if form is None:
        for path in dict.fromkeys(hit.path for hit in result.hits):
            output.say(path)
        return
    from gateway.cli.rendering.on_terminal import best_line
    from gateway.escaping import visible_line

    parts = _parts(form)
    for hit in result.hits:
        best = best_line(hit, query)
        values = {
            "path": visible_line(hit.path),
            "line": best.number or hit.start_line,
            "start": hit.start_line,
            "end": hit.end_line,
            "score": f"{hit.score:.3f}",
            "confidence": hit.confidence or "",
            "title": visible_line(hit.title or ""),
            "source": hit.source,
            "text": best.text.strip(),
        }
        output.say_text("".join(str(values[one[1:-1]]) if one[:1] == "{" else one for one in parts))


def _parts(form: str) -> list[str]:
    """The form, cut at its fields, which keep their braces."""
    parts = re.split(r"(\{\w+\})", form)
    for one in parts[1::2]:
        if one[1:-1] not in _FIELDS:
            raise CommandLineError(
                f"--format: there is no {one}.",
                remedy=f"There are {', '.join(f'{{{name}}}' for name in _FIELDS)}.",
            )
    return parts


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
    *,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print on a terminal what a pipe gets.")
    ] = False,
) -> int:
    """Print a memory file, or some lines of it: rendered on a terminal, as it is elsewhere."""
    from config.host_keys import is_disabled
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.notes import GetParams

    params = _with_lines(GetParams(path, first_line, lines))
    settings = load(options)
    result = with_memory(settings, options, lambda memory: memory.get(params))
    if _may_be_a_name(result, params.path) and not is_disabled(settings):
        named = replace(params, path=_named(settings, params.path.strip(), options))
        result = with_memory(settings, options, lambda memory: memory.get(named))
    _check_read(result)
    if options.json:
        output.write_json(result)
    else:
        _show_text(result, params, plain=plain)
    return os.EX_OK


def _may_be_a_name(result: ReadAnswer, asked: str) -> bool:
    """Whether a path that gave nothing may be a name; why a file may not be read is not hidden by that."""
    from backends.files.roots import MARKDOWN_SUFFIX

    name = asked.strip()
    is_refused = result.status == "error" and name.endswith(MARKDOWN_SUFFIX)
    return result.status != "ok" and bool(name) and "/" not in name and not is_refused


def _named(settings: Settings, name: str, options: Options) -> str:
    """The path of the note of this name, or of the only one that is nearly of it; for people it is said.

    Raises NotThereError.
    """
    from gateway.cli.commands.listing import find_note
    from gateway.cli.vault import Vault

    path = find_note(Vault(settings), name)
    if not options.json:
        output.note(f"{name} is {path}.")
    return path


def _with_lines(params: GetParams) -> GetParams:
    """What `search` prints and cites names lines behind the path; options say it better."""
    found = _PLACE.fullmatch(params.path)
    if found is None or params.first_line is not None or params.lines is not None:
        return params if found is None else replace(params, path=found["path"])
    first = int(found["first"])
    last = int(found["last"] or first)
    return replace(params, path=found["path"], first_line=first, lines=max(1, last - first + 1))


def _show_text(result: ReadAnswer, params: GetParams, *, plain: bool) -> None:
    if output.is_terminal() and not plain and result.text:
        _render(result, params)
    else:
        _write(result, params)
    if result.truncated:
        output.note(f"Cut off here; --from {result.next_line} shows what follows.")


def _render(result: ReadAnswer, params: GetParams) -> None:
    """Without front matter, unless lines were asked for that may belong to it."""
    from backends.text.frontmatter import read_front_matter
    from gateway.cli.rendering.on_terminal import Look, lines_hidden, shown_note
    from gateway.cli.rendering.places import url_pattern
    from gateway.cli.terminal import print_lines

    is_whole = params.first_line is None and params.lines is None
    facts = read_front_matter(result.text if is_whole else "")
    hidden = lines_hidden(result.text, facts)
    lines = result.text.split("\n")[: result.line_count]
    look = Look(query="", url=url_pattern(None, os.environ))
    print_lines(shown_note(lines, result.first_line, hidden, facts, look))


def _write(result: ReadAnswer, params: GetParams) -> None:
    output.write_content(result.text)
    if result.text and not result.text.endswith("\n") and (params.lines or output.is_terminal()):
        output.write_text("\n")  # the next prompt is not part of a note


def _check_read(result: ReadAnswer) -> None:
    """Raises NotThereError, AnsweredRefusalError."""
    if result.status == "not_found":
        raise NotThereError(
            f"There is no file {result.path}.", remedy=f"`{PROGRAM} recent` lists notes."
        )
    if result.status == "error":
        raise AnsweredRefusalError(result.error or "Nothing was read.", result.kind)
    if result.first_line > 1 and not result.line_count:
        raise NotThereError(f"{result.path} ends before line {result.first_line}.")


def remember(
    options: Options,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to write down.")],
    *,
    longterm: Annotated[
        bool, typer.Option("--longterm", help="Append it to MEMORY.md instead.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Make a folder for daily notes where none is.")
    ] = False,
) -> int:
    """Append an entry to today's log; the next search finds it."""
    from config.host_keys import is_disabled
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.notes import AppendParams, read_entry

    settings = load(options)
    params = AppendParams(text=_as_item(" ".join(text)), target="longterm" if longterm else "daily")
    if settings.notes_folder is not None and not longterm and not is_disabled(settings):
        read_entry(params)  # what would be refused is no reason for a new folder
        if not _has_place(options, settings, yes=yes):
            output.note("Nothing was written.")
            return os.EX_OK
    result = with_memory(settings, options, lambda memory: memory.append(params))
    if result.error:
        raise AnsweredRefusalError(result.error, result.kind)
    if options.json:
        output.write_json(result)
    else:
        output.say(f"{result.path}:{result.start_line}-{result.end_line}")
    return os.EX_OK


def _has_place(options: Options, settings: Settings, *, yes: bool) -> bool:
    """Whether today's note has a folder; where none is, the person is asked.

    Raises CommandLineError, FileUnwritableError.
    """
    from backends.backend_errors import FileUnwritableError
    from config.runtime.files import make_directories
    from gateway.daily_notes import daily_note
    from gateway.session_start import agent_now

    name = daily_note(settings, agent_now(settings.user_timezone).date()).new_folder
    if name is None:
        return True
    folder = settings.workspace / name
    question = f"There are no daily notes yet. Make the folder {folder} for them?"
    if not yes and (options.json or not output.may_ask()):
        raise CommandLineError(
            f"Nothing was written: there are no daily notes yet, and nobody is there to be asked "
            f"whether to make {folder}.",
            remedy="--yes makes it.",
        )
    if not yes and not output.ask(question, default=True):
        return False
    try:
        make_directories(folder, mode=0o755)
    except OSError as error:
        raise FileUnwritableError(
            f"{folder} cannot be made: {error.strerror}.", remedy="Check the permissions."
        ) from None
    return True


def _as_item(text: str) -> str:
    """A line becomes an item, lest it runs on the one before it; what is Markdown already stays so."""
    is_one_line = text.strip() and "\n" not in text.strip()
    return f"- {text.strip()}" if is_one_line and not _MARKED.match(text.strip()) else text


def browse(options: Options) -> int:
    """Search as you type, with a preview of each note. Without any command, it is what starts on a terminal."""
    from config.host_keys import is_disabled
    from gateway.cli.access import with_memory
    from gateway.cli.browser import Browser
    from gateway.cli.options import load

    if options.json or not (output.is_terminal() and output.may_ask()):
        raise CommandLineError(
            "browse needs a terminal, to read keys from and to draw on.",
            remedy="`memory-gateway search` prints what it finds.",
        )
    options = replace(options, log_level="error")  # a line of the log would stand across the screen
    settings = load(options)
    if is_disabled(settings):
        raise AnsweredRefusalError(
            "Memory is off: see `memory-gateway status`.", ErrorKind.DISABLED
        )
    with_memory(settings, options, Browser(settings).run, patient=True, beside=True)
    return os.EX_OK


def recall(
    options: Options,
    prompt: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="What a person would say.")
    ] = None,
    *,
    max_tokens: Annotated[
        int, typer.Option(min=1, max=4000, metavar="N", help="At most about this many.")
    ] = 400,
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT",
            help="Answer an event of claude-code, codex, gemini or copilot on standard input, at once or not at all.",
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", hidden=True, help="Stay for hooks: they start it so.")
    ] = False,
) -> int:
    """Show what a model is told before a prompt, without being asked."""
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.recall import RecallParams

    if serve:
        from gateway.cli.running import run_staying

        return run_staying(options)
    del hook  # `gateway.hook` answers it before any of this is imported
    if not prompt:
        raise CommandLineError(
            "There is no prompt.",
            remedy='Give one: memory-gateway recall "When is the boiler serviced?"',
        )
    params = RecallParams(prompt=" ".join(prompt), max_tokens=max_tokens)
    result = with_memory(load(options), options, lambda memory: memory.recall(params))
    if result.error:
        raise AnsweredRefusalError(result.error, result.kind)
    if options.json:
        output.write_json(result)
    elif result.text:
        output.say_text(result.text)
    else:
        output.note(_WHY.get(result.reason or "", f"Nothing ({result.reason})."))
    return os.EX_OK
