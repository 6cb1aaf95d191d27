"""The demo as people see it: every event of it as some lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from rich.text import Text

from gateway.cli.rendering.highlight import matched_spans
from gateway.cli.rendering.results import mark
from gateway.cli.rendering.words import counted, duration, size
from gateway.sample.demo import Answered, Event, Finished, Indexed, Progressed, Started, Wrote

_SHOWN_ANSWERS = 2
_SHOWN_LINES = 3


def event_lines(event: Event) -> Iterator[Text]:
    match event:
        case Started():
            yield from _started(event)
        case Progressed():
            yield Text(f"  {event.done} of {counted(event.total, 'file')}", style="dim")
        case Indexed():
            yield from _indexed(event.exchange.result)
        case Answered():
            yield from _answered(event)
        case Wrote():
            yield Text.assemble(("\nA note is added to ", "bold"), (event.path, "bold cyan"))
            yield Text("  " + event.text.rstrip())
        case Finished():
            yield from _finished(event)


def _started(event: Started) -> Iterator[Text]:
    server = event.exchange.result
    yield Text(
        f"{server['name']} {server['version']} serves a copy of the sample workspace; "
        f"first reply after {duration(event.ms)}."
    )


def _indexed(report: Mapping[str, Any]) -> Iterator[Text]:
    read = f"{counted(report['scanned'], 'file')}, {size(report['bytesRead'])}"
    yield Text(f"Indexed {read}, in {duration(report['durationMs'])}.")


def _answered(event: Answered) -> Iterator[Text]:
    verdict = ("found", "green") if event.found else ("NOT FOUND", "bold red")
    question = event.question
    yield Text.assemble(
        (f"\n? {question.query}", "bold"),
        (f"  ({question.language}; {event.exchange.ms:.1f} ms; ", "dim"),
        verdict,
        (")", "dim"),
    )
    for hit in event.exchange.result["results"][:_SHOWN_ANSWERS]:
        place = f"{hit['path']}#L{hit['startLine']}-L{hit['endLine']}"
        yield Text.assemble((f"  {hit['score']:.3f} ", "cyan"), place)
        for line in telling_lines(hit["snippet"], question.query):
            yield Text("    ").append(mark(line, question.query))


def _finished(event: Finished) -> Iterator[Text]:
    status, times = event.exchange.result, event.search_ms
    yield Text(
        f"\n{counted(status['files'], 'file')}, {counted(status['chunks'], 'chunk')}, "
        f"index {size(status['databaseBytes'])}. {len(times)} searches, "
        f"median {median(times):.1f} ms, slowest {max(times):.1f} ms."
    )


def telling_lines(snippet: str, query: str) -> list[str]:
    """The lines of a snippet that match most of the query, in their order."""
    lines = [line.strip() for line in snippet.split("\n") if line.strip()]
    weights = [_matched_characters(line, query) for line in lines]
    best = sorted(range(len(lines)), key=lambda at: (-weights[at], at))[:_SHOWN_LINES]
    return [lines[at] for at in sorted(best) if weights[at]]


def _matched_characters(line: str, query: str) -> int:
    """How much of the line matches, repetitions not counted."""
    return sum(map(len, {line[start:end].casefold() for start, end in matched_spans(line, query)}))
