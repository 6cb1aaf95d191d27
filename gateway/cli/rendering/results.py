"""What a search found, for people. Pure.

Owns the documented form: score and place, then the passage, then a blank line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from rich.text import Text

from backends.interface import Hit, SearchAnswer, Stale
from gateway.cli.rendering.highlight import matched_spans
from gateway.cli.rendering.words import counted
from gateway.tools.search import SearchParams

_SHOWN_WORDS: Final = 8


def result_lines(result: SearchAnswer, query: str) -> Iterator[Text]:
    for hit in result.hits:
        yield heading(hit)
        yield mark(hit.snippet.rstrip("\n"), query)
        if hit.explain:
            yield from (Text(f"  {line}", style="dim") for line in _reasons(hit, query))
        yield Text()


def heading(hit: Hit) -> Text:
    """`0.712 memory/2026-02-08.md:14-16`."""
    lines = f":{hit.start_line}-{hit.end_line}"
    return Text.assemble((f"{hit.score:.3f} ", "cyan"), (hit.path, "bold"), (lines, "dim"))


def mark(text: str, query: str) -> Text:
    """A passage with what matches the query standing out."""
    marked = Text(text)
    for start, end in matched_spans(text, query):
        marked.stylize("bold yellow", start, end)
    return marked


def no_match(params: SearchParams, files: int, workspace: str) -> str:
    """That nothing was found, and in what."""
    if not files:
        return f"No matches. Nothing is indexed: is {workspace} the right workspace?"
    filtered = params.include or params.exclude or params.after or params.before or params.sources
    limits = ", within the given limits" if filtered else ""
    return f"No matches. Searched {counted(files, 'file')} in {workspace}{limits}."


def remarks(result: SearchAnswer) -> Iterator[str]:
    """What a reader of the results should know about them."""
    if result.warning:
        yield f"Note: {result.warning}"
    if result.fallback:
        yield f"Note: answered without {result.fallback.origin}: {result.fallback.reason}"
    if result.stale:
        yield _staleness(result.stale)
    if result.timings_ms and any(hit.explain for hit in result.hits):
        yield f"Time (ms): {_flat(result.timings_ms)}"


def _staleness(stale: Stale) -> str:
    """Where no file is known to be behind, indexing may be no remedy."""
    if not stale.files:
        return (
            f"Note: something may be missing in this answer: {stale.reason}. "
            "`memory-gateway status` says more."
        )
    files = counted(stale.files, "file")
    return (
        f"Note: {files} not up to date in this answer: {stale.reason}. "
        "`memory-gateway index` brings the index up to date."
    )


def _reasons(hit: Hit, query: str) -> Iterator[str]:
    """Why a passage stands where it stands; the raw figures are in `--json`."""
    explain = hit.explain or {}
    if "fused" not in explain:  # of QMD
        yield f"why: {_flat(explain)}"
        return
    yield f"words: {_words(explain, hit.snippet, query)}"
    yield f"meaning: {_meaning(explain['vector'])}"
    yield f"age: {_age(explain)}"
    yield f"order: {_rule(explain)}"


def _words(explain: Mapping[str, Any], snippet: str, query: str) -> str:
    text = explain["text"]
    if text["rank"] is None:
        return "none of the question's words"
    spans = matched_spans(snippet, query)
    found = list(dict.fromkeys(snippet[start:end].casefold() for start, end in spans))
    held = f"{', '.join(found[:_SHOWN_WORDS])}: {explain['coverage']:.0%} of what the question says"
    if not found:
        held = "only in its path, title or headings, or in lines beside it"
    return f"{held}; score {text['calibrated']:.2f}{_ranked(text)}"


def _meaning(vector: Mapping[str, Any] | None) -> str:
    if vector is None:
        return "not compared"
    above = vector["calibrated"]
    unusual = f"{above:.1f} deviations above other notes" if above > 0 else "no nearer than others"
    return f"similarity {vector['raw']:.2f}, {unusual}{_ranked(vector)}"


def _ranked(lane: Mapping[str, Any]) -> str:
    return f", rank {lane['rank']:,} of all lines" if lane["rank"] else ""


def _age(explain: Mapping[str, Any]) -> str:
    day = f"of {explain['date']}" if explain.get("date") else "without a date"
    left = explain["freshness"]
    return day if left == 1 else f"{day}, which leaves {left:.0%} of its weight (query.decay)"


def _rule(explain: Mapping[str, Any]) -> str:
    if explain["assured"]:
        return "kept, because it is among the best three by words alone"
    text, vector = explain["text"]["weight"], explain["vector"]
    if vector is None or not vector["weight"]:
        return "by words alone"
    if not text:
        return "by meaning alone"
    return f"by words and meaning together (weights {text:.2g} and {vector['weight']:.2g})"


def _flat(values: Mapping[str, Any]) -> str:
    """`score 0.71, terms {"tea":2}`."""
    return ", ".join(f"{name} {_plain(value)}" for name, value in values.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
