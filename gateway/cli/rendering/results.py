"""The results of a search and the events of the demo, for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from rich.text import Text

from backends.interface import BREADCRUMB, GAP, Hit, SearchAnswer, Stale
from backends.ranking.query import QueryAnalyser
from backends.text.analyser import UNSPACED, Analyser, normalise, tokens
from gateway.cli.options import PROGRAM
from gateway.cli.terminal import counted, duration, size
from gateway.escaping import visible_line
from gateway.tools.search import SearchParams, nothing_indexed

if TYPE_CHECKING:
    from gateway.sample import Answered, DemoFinished, Event

_SHOWN_WORDS: Final = 8

Span = tuple[int, int]
"""Start and end (exclusive) in characters."""

_UNSPACED_START = re.compile(f"[{UNSPACED}]")


def matched_spans(text: str, query: str) -> list[Span]:
    """Returns the places in `text` that match `query`, in order, without overlaps."""
    asked = QueryAnalyser().analyse(query)
    pieces = [normalise(character) for character in text]
    origins = [number for number, piece in enumerate(pieces) for _ in piece]
    spans = _spans("".join(pieces), frozenset(asked.terms()), Analyser(asked.language))
    return _merged((origins[start], origins[end - 1] + 1) for start, end in spans)


def _spans(text: str, terms: frozenset[str], analyser: Analyser) -> Iterator[Span]:
    end = 0
    for token in tokens(text):
        start = text.index(token, end)
        end = start + len(token)
        found = [not terms.isdisjoint(concept) for concept in analyser.concepts(token)]
        if _UNSPACED_START.match(token):
            width = min(2, len(token))
            yield from ((start + at, start + at + width) for at, hit in enumerate(found) if hit)
        elif any(found):
            yield start, end


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def result_lines(result: SearchAnswer, query: str) -> Iterator[Text]:
    for hit in result.hits:
        yield heading(hit)
        yield from mark(hit.snippet.rstrip("\n"), query).split("\n", allow_blank=True)
        yield from also_in(hit)
        if hit.explain:
            yield from (Text(f"  {line}", style="dim") for line in reasons(hit, query))
        yield Text()


def also_in(hit: Hit, indent: str = "") -> Iterator[Text]:
    """Yields a line on other notes that have the passage, too."""
    if hit.also_in:
        places = ", ".join(f"{visible_line(one.path)}:{one.line}" for one in hit.also_in)
        more = counted(len(hit.also_in), "more note")
        yield Text(f"{indent}The same line in {more}: {places}", style="dim")


def heading(hit: Hit) -> Text:
    """Returns `0.712 memory/2026-02-08.md:14-16  likely`."""
    lines = f":{hit.start_line}-{hit.end_line}"
    about = visible_line(" ".join(filter(None, [hit.title, *(f"#{tag}" for tag in hit.tags)])))
    return Text.assemble(
        (f"{hit.score:.3f} ", "cyan"),
        (visible_line(hit.path), "bold"),
        (lines, "dim"),
        (f"  {hit.confidence}" if hit.confidence else "", "cyan"),
        (f"  {about}" if about else "", "dim"),
    )


def mark(text: str | Text, query: str) -> Text:
    """Returns a passage with its matches of the query highlighted."""
    marked = Text(text) if isinstance(text, str) else text
    for start, end in matched_spans(marked.plain, query):
        marked.stylize("bold yellow", start, end)
    return marked


class Line(NamedTuple):
    """A line of a snippet, and its number in the file; None if it is no line of the file, and in conversations, where
    a turn may be many lines.
    """

    number: int | None
    text: str
    is_beside: bool = False
    """True if it is no line of the file, but says where those are or that some are left out."""


def lines_of(hit: Hit) -> list[Line]:
    """Returns the lines of a hit's snippet.

    A line of the note may look like one beside it: a stretch that has no line too many consists of its own lines.
    """
    snippet = hit.snippet.rstrip("\n")
    parts = [one.split("\n") for one in (snippet.split(GAP) if hit.stretches else [snippet])]
    places = [range(one.start_line, one.end_line + 1) for one in hit.stretches or (hit,)]
    if len(places) != len(parts):
        places = [range(0)] * len(parts)
    found: list[Line] = []
    for part, place in zip(parts, places, strict=True):
        if found:
            found.append(Line(None, GAP.strip(), is_beside=True))
        may_be_path = bool(hit.stretches or hit.headings) and len(part) != len(place)
        paths = 1 if may_be_path and part[0].startswith(BREADCRUMB) else 0
        found += (Line(None, line, is_beside=True) for line in part[:paths])
        own = part[paths:]
        numbers = place if len(place) == len(own) else [None] * len(own)
        found += map(Line, numbers, own)
    return found


def no_match(
    params: SearchParams,
    files: int,
    workspace: str,
    issues: Sequence[str] = (),
    unread: Sequence[str] = (),
    *,
    is_explained: bool = False,
) -> str:
    """Returns a message that nothing was found, and in what. If nothing is indexed, `issues` or `unread` may say why,
    unless a remark on the answer has explained it.
    """
    if not files:
        if is_explained:
            return f"No matches. Nothing is indexed in {workspace}."
        return f"No matches. {nothing_indexed(workspace, issues, unread)}"
    filtered = params.include or params.exclude or params.after or params.before or params.sources
    limited = filtered or params.tags or params.min_score
    limits = ", within the given limits" if limited else ""
    return f"No matches. Searched {counted(files, 'file')} in {workspace}{limits}."


def remarks(result: SearchAnswer, *, with_times: bool = True) -> Iterator[str]:
    """Yields what a reader of the results should know about them."""
    if result.warning:
        yield f"Note: {result.warning}"
    if result.fallback:
        yield f"Note: answered without {result.fallback.origin}: {result.fallback.reason}"
    if result.undated:
        left_out = "undated file was" if result.undated == 1 else "undated files were"
        yield (
            f"Note: {result.undated:,} {left_out} left out: a date is read from the file's name, its title, or "
            "date, created or updated in its front matter."
        )
    if result.stale:
        yield staleness(result.stale)
    if with_times and result.timings_ms and any(hit.explain for hit in result.hits):
        yield f"Time (ms): {_flat(result.timings_ms)}"


def staleness(stale: Stale) -> str:
    """Returns a remark on an answer that is behind; indexing is a remedy only if files are known to be behind."""
    if not stale.files:
        return (
            f"Note: something may be missing in this answer: {stale.reason.rstrip('.')}. "
            "`memory-gateway status` says more."
        )
    files = counted(stale.files, "file")
    return (
        f"Note: {files} not up to date in this answer: {stale.reason.rstrip('.')}. "
        "`memory-gateway index` brings the index up to date, or says why it cannot."
    )


def reasons(hit: Hit, query: str) -> Iterator[str]:
    """Yields the reasons for a passage's rank; the raw figures are in `--json`."""
    explain = hit.explain or {}
    if "fused" not in explain:  # it comes from QMD
        yield f"why: {_flat(explain)}"
        return
    yield f"words: {_words(explain, hit.snippet, query)}"
    yield f"meaning: {_meaning(explain['vector'])}"
    yield from (f"time: {_time(one)}" for one in explain.get("time", ()))
    yield f"age: {_age(explain)}"
    yield f"order: {_rule(explain)}"


def _words(explain: Mapping[str, Any], snippet: str, query: str) -> str:
    text = explain["text"]
    if text["rank"] is None:
        return "none of the question's words"
    spans = matched_spans(snippet, query)
    found = list(dict.fromkeys(snippet[start:end].casefold() for start, end in spans))
    instead = explain["otherForms"].items()
    found += [f"{', '.join(terms)} instead of {asked}" for asked, terms in instead]
    matched = (
        f"{', '.join(found[:_SHOWN_WORDS])}: {explain['coverage']:.0%} of what the question says"
    )
    if not found:
        matched = "only in its path, title or headings, or in lines beside it"
    return f"{matched}; score {text['calibrated']:.2f}{_ranked(text)}"


def _meaning(vector: Mapping[str, Any] | None) -> str:
    if vector is None:
        return "not compared"
    above = vector["calibrated"]
    unusual = f"{above:.1f} deviations above other notes" if above > 0 else "no nearer than others"
    return f"similarity {vector['raw']:.2f}, {unusual}{_ranked(vector)}"


def _ranked(lane: Mapping[str, object]) -> str:
    return f", rank {lane['rank']:,} of all lines" if lane["rank"] else ""


def _age(explain: Mapping[str, object]) -> str:
    day = f"of {explain['date']}" if explain.get("date") else "without a date"
    left = explain["freshness"]
    return day if left == 1 else f"{day}, which leaves {left:.0%} of its weight"


def _time(asked: Mapping[str, object]) -> str:
    days = asked["from"] if asked["from"] == asked["to"] else f"{asked['from']} to {asked['to']}"
    return f'"{asked["text"]}" is {days}, {"" if asked["matches"] else "not "}the day of this note'


def _rule(explain: Mapping[str, Any]) -> str:
    if explain["assured"]:
        return "kept, because it is among the best three by words alone"
    text, vector = explain["text"]["weight"], explain["vector"]
    if vector is None or not vector["weight"]:
        return "by words alone"
    if not text:
        return "by meaning alone"
    return f"by words and meaning together (weights {text:.2g} and {vector['weight']:.2g})"


def _flat(values: Mapping[str, object]) -> str:
    """Returns `score 0.71, terms {"tea":2}`."""
    plain = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in values.items()
    }
    return ", ".join(f"{name} {value}" for name, value in plain.items())


_SHOWN_ANSWERS = 2
_SHOWN_LINES = 3


def event_lines(event: Event) -> Iterator[Text]:
    from gateway.sample import Answered, DemoFinished, DemoStarted, Indexed, Progressed, Wrote

    match event:
        case DemoStarted():
            server = event.exchange.result
            yield Text(
                f"{server['name']} {server['version']} serves a copy of the sample workspace; "
                f"first reply after {duration(event.ms)}."
            )
        case Progressed():
            yield Text(f"  {event.done} of {counted(event.total, 'file')}", style="dim")
        case Indexed():
            found = event.exchange.result
            read = f"{counted(found['scanned'], 'file')}, {size(found['bytesRead'])}"
            yield Text(f"Indexed {read}, in {duration(found['durationMs'])}.")
        case Answered():
            yield from _answered(event)
        case Wrote():
            yield Text()
            yield Text.assemble(("A note is added to ", "bold"), (event.path, "bold cyan"))
            yield Text("  " + event.text.rstrip())
        case DemoFinished():
            yield from _finished(event)


def _answered(event: Answered) -> Iterator[Text]:
    verdict = ("found", "green") if event.found else ("NOT FOUND", "bold red")
    question = event.question
    yield Text()
    yield Text.assemble(
        (f"? {question.query}", "bold"),
        (f"  ({question.language}; {event.exchange.ms:.1f} ms; ", "dim"),
        verdict,
        (")", "dim"),
    )
    for hit in event.exchange.result["results"][:_SHOWN_ANSWERS]:
        place = f"{hit['path']}#L{hit['startLine']}-L{hit['endLine']}"
        yield Text.assemble((f"  {hit['score']:.3f} ", "cyan"), place)
        for line in distinctive_lines(hit["snippet"], question.query):
            yield Text("    ").append(mark(line, question.query))


def _finished(event: DemoFinished) -> Iterator[Text]:
    from statistics import median

    status, times = event.exchange.result, event.search_ms
    yield Text()
    yield Text(
        f"{counted(status['files'], 'file')}, {counted(status['chunks'], 'chunk')}, "
        f"index {size(status['databaseBytes'])}. {len(times)} searches, "
        f"median {median(times):.1f} ms, slowest {max(times):.1f} ms."
    )
    yield Text()
    yield Text("Your own notes, any folder of Markdown (nothing in it is changed):")
    yield Text(f"  {PROGRAM} setup")
    yield Text(f'  {PROGRAM} search "your question"')


def distinctive_lines(snippet: str, query: str) -> list[str]:
    """Returns the lines of a snippet that match most of the query, in their order; its first if only other forms of the
    words match.
    """
    lines = [line.strip() for line in snippet.split("\n") if line.strip()]
    weights = [matched_characters(line, query) for line in lines]
    best = sorted(range(len(lines)), key=lambda at: (-weights[at], at))[:_SHOWN_LINES]
    return [lines[at] for at in sorted(best) if weights[at]] or lines[:1]


def matched_characters(line: str, query: str) -> int:
    """Returns the number of characters of the line that match; repetitions are not counted."""
    return sum(map(len, {line[start:end].casefold() for start, end in matched_spans(line, query)}))
