"""`search`, `get` and `remember`: what the tools of an agent do, for people and scripts."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from config.errors import ErrorKind
from config.host_keys import is_disabled
from config.runtime.files import make_directories
from gateway.cli import output
from gateway.cli.commands.listing import find_note, list_notes
from gateway.cli.guard import EXIT_CODES, NOTHING_FOUND, AnsweredRefusalError, NotThereError
from gateway.cli.options import PROGRAM, CommandLineError, Options, load
from gateway.escaping import visible_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.interface import ReadAnswer, SearchAnswer
    from config.settings import Settings
    from gateway.cli import arguments as typed
    from gateway.cli.access import Access
    from gateway.cli.rendering.on_terminal import Around
    from gateway.tools.notes import GetParams
    from gateway.tools.search import SearchParams


_PLACE: Final = re.compile(r"(?P<path>.+?)(?::|#L)(?P<first>[1-9]\d{0,8})(?:-L?(?P<last>\d{1,9}))?")
"""`memory/2026-02-08.md:14-16`, `MEMORY.md#L3-L4`."""


_FIELDS: Final = ("path", "line", "start", "end", "score", "confidence", "title", "source", "text")
_FIELD: Final = re.compile(r"\{(\w+)\}")
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
    query: typed.Query = None,
    *,
    max_results: typed.MaxResults = None,
    min_score: typed.MinScore = None,
    source: typed.OnlySource = None,
    include: typed.Include = None,
    exclude: typed.Exclude = None,
    after: typed.After = None,
    before: typed.Before = None,
    days: typed.Days = None,
    tag: typed.OnlyTags = None,
    explain: typed.Explain = False,
    full: typed.Full = False,
    context: typed.Context = None,
    files: typed.OnlyFiles = False,
    form: typed.Form = None,
    editor: typed.LinkEditor = None,
    plain: typed.Plain = False,
) -> int:
    """Find the passages of memory that answer a query, best first.

    Ends with 1 if nothing was found, and with 69 if nothing could be searched.
    """
    from gateway.tools.search import SearchParams

    settings = load(options)
    if not query and tag:
        return list_notes(settings, options, tag, max_results or 1_000)
    first, end = _period(settings, after, before, days)
    params = SearchParams(
        query=_text_of(query), max_results=max_results, min_score=min_score,
        sources=(source,) if source else None, include=tuple(include or ()), exclude=tuple(exclude or ()),
        after=first, before=end, explain=explain, tags=tuple(tag or ()),
    )  # fmt: skip
    looked_at = output.is_terminal() and not (plain or files or form or options.json)
    return _answer(
        settings, options, params, _Manner(looked_at, full, context, files, form, editor)
    )


class _Manner(NamedTuple):
    """The way in which the answer is shown."""

    looked_at: bool
    """True if a person looks at it, on a terminal."""
    full: bool
    context: int | None
    files: bool
    form: str | None
    editor: str | None


def _text_of(query: list[str] | None) -> str:
    if not query:
        raise CommandLineError(
            "search needs a query.",
            remedy="Say what to look for in any words, or give --tag alone to list notes.",
        )
    return " ".join(query)


def _answer(settings: Settings, options: Options, params: SearchParams, manner: _Manner) -> int:
    from gateway.cli.access import with_memory

    found = with_memory(settings, options, partial(_search, params, manner), patient=True)
    result = found.answer
    if result.disabled and not is_disabled(settings):
        raise AnsweredRefusalError(result.error or "Nothing was searched.", result.kind)
    if options.json:
        output.write_json(result)
    elif manner.files or manner.form:
        from gateway.cli.rendering.results import remarks

        _show_lines(result, params.query, manner.form)
        if result.error:
            output.note(result.error)
        for remark in remarks(result, with_times=params.explain):
            output.note(remark)
    else:
        _show_result(found, params, settings, manner)
    if result.error and not result.hits:
        return EXIT_CODES[result.kind or ErrorKind.DISABLED]
    return os.EX_OK if result.hits else NOTHING_FOUND


class _Found(NamedTuple):
    answer: SearchAnswer
    files: int = 0
    """The number of files that were searched, if nothing was found, ..."""
    issues: tuple[str, ...] = ()
    """... what is wrong with their places, ..."""
    unread: tuple[str, ...] = ()
    """... and the files that are not indexed."""
    around: Sequence[Around] = ()
    """For a person, the text around each hit."""


async def _search(params: SearchParams, manner: _Manner, memory: Access) -> _Found:
    """Searches, with the shares of lines if the best line is to be shown."""
    if manner.looked_at or manner.form is not None:
        params = replace(params, explain=True)
    result = await memory.search(params)
    if result.hits and manner.looked_at:
        from gateway.cli.rendering.on_terminal import look_around

        shown = await look_around(memory, result.hits, params.query, manner.context)
        hits, around = tuple(hit for hit, _ in shown), [one for _, one in shown]
        return _Found(replace(result, hits=hits), around=around)
    if result.hits or result.error:
        return _Found(result)
    from gateway.tools.search import unread_of

    wanted, status = params.sources, await memory.status()
    files = sum(one.indexed for one in status.sources if not wanted or one.source in wanted)
    return _Found(result, files, status.issues, unread_of(status))


def _show_result(found: _Found, params: SearchParams, settings: Settings, manner: _Manner) -> None:
    from gateway.cli.places import may_hint
    from gateway.cli.rendering.results import no_match, remarks, result_lines
    from gateway.cli.terminal import print_lines, short_path
    from gateway.tools.search import NOTHING_INDEXED, ONLY_WORDS

    result = found.answer
    if result.error:
        output.note(result.error)
    elif not result.hits:
        place = short_path(str(settings.workspace))
        stale = result.stale  # the remark on it may name the problem with the files
        explained = stale is not None and any(stale.reason in one for one in found.issues)
        output.say(
            no_match(params, found.files, place, found.issues, found.unread, is_explained=explained)
        )
    if manner.looked_at:
        _show_on_terminal(found, params, settings, manner)
    else:
        print_lines(result_lines(result, params.query))
    is_hint = result.warning == ONLY_WORDS and not params.explain
    if is_hint and (not found.files or not may_hint()):  # without notes, meaning cannot help
        result = replace(result, warning=None)
    if result.warning and not (result.hits or found.files):  # "No matches." went before it
        rest = result.warning.partition(NOTHING_INDEXED)[0].strip()
        result = replace(result, warning=rest or None)
    for remark in remarks(result, with_times=params.explain):
        output.note(remark)


def _show_on_terminal(
    found: _Found, params: SearchParams, settings: Settings, manner: _Manner
) -> None:
    """Shows the hits and keeps their places: `open 2` opens the second of them."""
    from gateway.cli.places import absolute_path, keep_hits, url_pattern
    from gateway.cli.rendering.on_terminal import Look, best_line, shown_hits
    from gateway.cli.terminal import print_lines

    look = Look(
        query=params.query,
        url=url_pattern(manner.editor, os.environ),
        base=str(settings.workspace),
        full=manner.full,
        explain=params.explain,
        folds=not (manner.full or params.explain or manner.context is not None),
    )
    hits = found.answer.hits
    print_lines(shown_hits(hits, look, found.around))
    if not hits:
        return
    places = []
    for hit, around in zip(hits, found.around, strict=True):
        best = best_line(hit, look.query, after=around.front_matter_end)
        places.append((absolute_path(look.base, hit.path), best.number or hit.start_line))
    keep_hits(places)


def _show_lines(result: SearchAnswer, query: str, form: str | None) -> None:
    """Prints the hits in this form, else only their paths, each once. Raises CommandLineError for unknown fields.

    Braces around anything else are text.
    """
    if form is None:
        for path in dict.fromkeys(hit.path for hit in result.hits):
            output.say(path)
        return
    from gateway.cli.rendering.on_terminal import best_line

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
        output.say_text("".join(str(values[one]) if n % 2 else one for n, one in enumerate(parts)))


def _parts(form: str) -> list[str]:
    """Returns text and names of fields in turn. Raises CommandLineError."""
    parts = _FIELD.split(form)
    for name in parts[1::2]:
        if name not in _FIELDS:
            raise CommandLineError(
                f"--format: there is no {{{name}}}.",
                remedy=f"There are {', '.join(f'{{{one}}}' for one in _FIELDS)}.",
            )
    return parts


def _period(
    settings: Settings, after: str | None, before: str | None, days: int | None
) -> tuple[date | None, date | None]:
    """Returns the first day and the day after the last. Raises CommandLineError."""
    from gateway.tools.search import agent_now

    today = agent_now(settings.user_timezone).date()
    first, end = _day("--after", after, today), _day("--before", before, today)
    if days is None:
        return first, end
    if first is not None:
        raise CommandLineError(
            "--days and --after both say where to begin.",
            remedy="Give one of them; --before may go with either.",
        )
    tomorrow = today + timedelta(days=1)
    return today - timedelta(days=min(days, today.toordinal()) - 1), min(end or tomorrow, tomorrow)


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
    path: typed.ReadPath,
    first_line: typed.FirstLine = None,
    lines: typed.LineCount = None,
    *,
    plain: typed.Plain = False,
) -> int:
    """Print a memory file, or some lines of it: rendered on a terminal, as it is elsewhere."""
    from gateway.cli.access import with_memory
    from gateway.tools.notes import GetParams

    params = _with_lines(GetParams(path, first_line, lines))
    settings = load(options)
    result = with_memory(settings, options, lambda memory: memory.get(params))
    if _may_be_a_name(result, params.path, settings) and not is_disabled(settings):
        named = replace(params, path=_named(settings, params.path.strip(), options))
        result = with_memory(settings, options, lambda memory: memory.get(named))
    _check_read(result)
    if options.json:
        output.write_json(result)
    else:
        _show_text(result, params, plain=plain)
    return os.EX_OK


def _may_be_a_name(result: ReadAnswer, asked: str, settings: Settings) -> bool:
    """Returns whether a path that gave nothing may be a name. The reason why a file may not be read is kept, unless it
    is that there is no workspace.
    """
    from backends.files.roots import MARKDOWN_SUFFIX

    name = asked.strip()
    is_missing = result.kind == ErrorKind.PATH_NOT_ALLOWED and not settings.workspace.is_dir()
    is_refused = result.status == "error" and name.endswith(MARKDOWN_SUFFIX) and not is_missing
    may_be = "/" not in name or "\\" in name  # a path as it is shown has characters as numbers
    return result.status != "ok" and bool(name) and may_be and not is_refused


def _named(settings: Settings, name: str, options: Options) -> str:
    """Returns the path of the note with this name, or of the only one with a similar name, and prints it for people.

    Raises NotThereError.
    """
    from gateway.cli.vault import Vault

    path = find_note(Vault(settings), name)
    if not options.json and visible_line(path) != name:
        output.note(f"{name} is {path}.")
    return path


def _with_lines(params: GetParams) -> GetParams:
    """Takes the lines from a path such as `search` prints and cites; options have precedence over them."""
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
        output.write_content(result.text)
        is_open = result.text and not result.text.endswith("\n")
        if is_open and (params.lines or output.is_terminal()):
            output.write_text("\n")  # the next prompt is not part of a note
    if result.truncated:
        output.note(f"Cut off here; --from {result.next_line} shows what follows.")


def _render(result: ReadAnswer, params: GetParams) -> None:
    """Prints a note without front matter, unless lines were asked for that may belong to it."""
    from backends.text.frontmatter import read_front_matter
    from gateway.cli.places import url_pattern
    from gateway.cli.rendering.on_terminal import Look, lines_hidden, shown_note
    from gateway.cli.terminal import print_lines

    is_whole = params.first_line is None and params.lines is None
    facts = read_front_matter(result.text if is_whole else "")
    hidden = lines_hidden(result.text, facts)
    lines = result.text.split("\n")[: result.line_count]
    look = Look(query="", url=url_pattern(None, os.environ))
    print_lines(shown_note(lines, result.first_line, hidden, facts, look))


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
    text: typed.EntryText,
    *,
    longterm: typed.LongTerm = False,
    yes: typed.MakeFolder = False,
) -> int:
    """Append an entry to today's log; the next search finds it."""
    from gateway.cli.access import with_memory
    from gateway.tools.notes import AppendParams, read_entry

    settings = load(options)
    params = AppendParams(text=_as_item(" ".join(text)), target="longterm" if longterm else "daily")
    if settings.notes_folder is not None and not longterm and not is_disabled(settings):
        read_entry(params)  # a refused entry is no reason for a new folder
        if not _has_place(options, settings, yes=yes):
            output.note("Nothing was written.")
            return os.EX_OK
    result = with_memory(settings, options, lambda memory: memory.append(params))
    if result.error:
        raise AnsweredRefusalError(result.error, result.kind)
    place = f"{result.path}:{result.start_line}-{result.end_line}"
    return output.answer(options, result, place)


def _has_place(options: Options, settings: Settings, *, yes: bool) -> bool:
    """Returns whether today's note has a folder; if not, a person is asked whether to make it.

    Raises CommandLineError, FileUnwritableError.
    """
    from backends.interface import FileUnwritableError
    from gateway.daily_notes import daily_note
    from gateway.tools.search import agent_now

    name = daily_note(settings, agent_now(settings.user_timezone).date()).new_folder
    if name is None or not settings.workspace.is_dir():  # appending will report it
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
    """Makes a line an item, so that it does not continue the line before it; Markdown stays as it is."""
    is_one_line = text.strip() and "\n" not in text.strip()
    return f"- {text.strip()}" if is_one_line and not _MARKED.match(text.strip()) else text


def browse(options: Options) -> int:
    """Search as you type, with a preview of each note. Without any command, it is what starts on a terminal."""
    from gateway.cli.access import with_memory
    from gateway.cli.browser import Browser

    if options.json or not (output.is_terminal() and output.may_ask()):
        raise CommandLineError(
            "browse needs a terminal, to read keys from and to draw on.",
            remedy="`memory-gateway search` prints what it finds.",
        )
    options = replace(options, log_level="error")  # a line of the log would disturb the screen
    settings = load(options)
    if is_disabled(settings):
        raise AnsweredRefusalError(
            "Memory is off: see `memory-gateway status`.", ErrorKind.DISABLED
        )
    with_memory(settings, options, Browser(settings).run, patient=True, beside=True)
    return os.EX_OK


def recall(
    options: Options,
    prompt: typed.Prompt = None,
    *,
    max_tokens: typed.MaxTokens = 400,
    hook: typed.HookOf = None,
    serve: typed.Stays = False,
) -> int:
    """Show what recall shows a model before this prompt."""
    from gateway.cli.access import with_memory
    from gateway.tools.search import RecallParams

    if serve:
        from gateway.cli.commands.serving import serve_hooks

        return serve_hooks(options)
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
    if result.stale and not options.json:
        from gateway.cli.rendering.results import staleness

        output.note(staleness(result.stale))
    return os.EX_OK
