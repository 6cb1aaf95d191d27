"""The gateway's counts of its own work: counters and histograms, their snapshot, OpenMetrics text.

The notes that were shown are counted, too, but never among the metrics: names of notes are for the operator alone.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

import msgspec

from backends.interface import Hit, SearchAnswer, SyncReport
from config.errors import MemoryGatewayError
from config.runtime.files import replace_file
from config.runtime.remembered import ENTRY_BYTES, size_of
from config.runtime.standard_error import dropped_lines
from gateway.recalled import NoteUse, UseRecord


class Activity(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    uptime_s: float
    requests: int
    failed_requests: int
    searches: Mapping[str, int]
    """Searches by mode."""
    search_ms_median: float | None = None
    search_ms_p95: float | None = None
    syncs: int
    prompts: Mapping[str, int] = {}
    """Prompts for which memory was asked, by outcome."""
    recalled: int = 0
    """Passages that were recalled since the index was made."""
    recalled_of_use: int = 0
    """Those of them whose note was then read, or found by a search, in the same conversation."""
    dropped_log_lines: int = 0
    """Lines of the log that could not be written: nobody reads standard error, or its disk is full."""


class SearchesOfMode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    backend: str
    mode: str
    """`none`: the search failed, or nothing was asked."""
    outcomes: Mapping[str, int]
    ms_median: float | None
    ms_p95: float | None


class ShownNote(msgspec.Struct, frozen=True):
    path: str
    answers: int
    """The number of answers that it was in."""


class Counted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The searches of one process."""

    since: float
    """The time at which it began to serve, in seconds since 1970."""
    searches: tuple[SearchesOfMode, ...]
    shown: tuple[ShownNote, ...] | None
    """The notes that were in the most answers, in this order; None where the client may not know them."""
    shown_forgotten: bool
    """True if rarely shown notes were forgotten; the counts are then lower bounds."""
    recalled: tuple[NoteUse, ...] | None = None
    """The notes that were recalled most since the index was made; None as for `shown`."""


SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)  # fmt: skip
"""Upper bounds of the buckets of every duration."""

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value of a family. `buckets` of a histogram are cumulative, one per bound and one above all."""

    labels: tuple[str, ...] = ()
    value: float = 0.0
    """For a histogram, the sum of what was observed."""
    buckets: tuple[int, ...] = ()


class Family(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All samples of one name. `labels` names what the labels of each sample mean, in their order."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()


def single(
    kind: Kind, name: str, meaning: str, value: float, labels: Mapping[str, str] = {}
) -> Family:
    """A family of one sample."""
    sample = Sample(labels=tuple(labels.values()), value=value)
    return Family(name=name, kind=kind, help=meaning, labels=tuple(labels), samples=(sample,))


class _Instrument:
    kind: Kind

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self._name, self._meaning, self._labels = name, meaning, labels

    def family(self) -> Family:
        return Family(
            name=self._name, kind=self.kind, help=self._meaning, labels=self._labels,
            samples=tuple(self._samples()),
        )  # fmt: skip

    def _samples(self) -> Iterator[Sample]:
        raise NotImplementedError


class Counter(_Instrument):
    """A number that only grows, for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        super().__init__(name, meaning, *labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, amount: float = 1.0) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def total(self) -> int:
        return int(sum(self.values.values()))

    def _samples(self) -> Iterator[Sample]:
        return (Sample(labels=labels, value=value) for labels, value in sorted(self.values.items()))


class Histogram(_Instrument):
    """Durations in seconds, counted by `SECONDS`."""

    kind = "histogram"

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        super().__init__(name, meaning, *labels)
        self._counts: dict[Labels, list[int]] = defaultdict(lambda: [0] * (len(SECONDS) + 1))
        self._sums: dict[Labels, float] = defaultdict(float)

    def observe(self, seconds: float, *labels: str) -> None:
        self._counts[labels][bisect_left(SECONDS, seconds)] += 1
        self._sums[labels] += seconds

    def quantile(self, share: float, *labels: str) -> float | None:
        """Returns the value below which this share of the observations lies; None without observations.

        It is interpolated within its bucket, as Prometheus' `histogram_quantile` does; a value above all
        bounds counts as the highest bound.
        """
        cumulative = list(accumulate(self._counts[labels])) if labels in self._counts else [0]
        if not cumulative[-1]:
            return None
        rank = share * cumulative[-1]
        index = bisect_left(cumulative, rank)
        if index >= len(SECONDS):
            return SECONDS[-1]
        lower = SECONDS[index - 1] if index else 0.0
        before = cumulative[index - 1] if index else 0
        return lower + (SECONDS[index] - lower) * (rank - before) / (cumulative[index] - before)

    def _samples(self) -> Iterator[Sample]:
        for labels in sorted(self._counts):
            buckets = tuple(accumulate(self._counts[labels]))
            yield Sample(labels=labels, value=round(self._sums[labels], 6), buckets=buckets)


SHOWN_BYTES: Final = 1024 * 1024
"""Some 6,000 notes."""
_MOST_SHOWN: Final = 20


def _note_bytes(path: str) -> int:
    return size_of(path) + ENTRY_BYTES


class ShownNotes:
    """Counts in how many answers each note was, in a limited number of bytes.

    When the notes take more, those that were shown least are forgotten until half of the bytes are left. A forgotten
    note begins again at 1.
    """

    def __init__(self, most_bytes: int = SHOWN_BYTES) -> None:
        self._most_bytes = most_bytes
        self._answers: dict[str, int] = {}
        self._bytes = 0
        self.forgotten = False

    def add(self, paths: Collection[str]) -> None:
        """Counts one answer with these notes."""
        for path in paths:
            before = self._answers.get(path, 0)
            self._answers[path] = before + 1
            self._bytes += 0 if before else _note_bytes(path)
        if self._bytes > self._most_bytes:
            self._forget()

    def _forget(self) -> None:
        often = sorted(self._answers.items(), key=lambda one: -one[1])
        self._answers, self._bytes, self.forgotten = {}, 0, True
        for path, answers in often:
            self._bytes += _note_bytes(path)
            if self._bytes > self._most_bytes // 2:
                self._bytes -= _note_bytes(path)
                return
            self._answers[path] = answers

    def most(self, count: int = _MOST_SHOWN) -> tuple[ShownNote, ...]:
        """Returns the notes that were in the most answers, equal ones by path."""
        first = sorted(self._answers.items(), key=lambda one: (-one[1], one[0]))[:count]
        return tuple(ShownNote(path, answers) for path, answers in first)


_LANES = {
    "keyword": ("keyword",),
    "vector": ("vector",),
    "hybrid": ("keyword", "vector"),
    "rerank": ("keyword", "vector", "rerank"),
}
"""The lanes that take part in each mode of searching."""


class Metrics:
    """The counts of one process since its start."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.started_at = time.time()
        self.last_sync: SyncReport | None = None
        self.last_sync_at = self.started_at
        self._requests = Counter("requests", "Requests answered.", "method", "outcome")
        self._request_time = Histogram("request_seconds", "From accepted to answered.", "method")
        self._searches = Counter("searches", "Searches done.", "backend", "mode", "outcome")
        self._lanes = Counter("search_lanes", "Searches in which a lane took part.", "lane")
        self._weakened = Counter("searches_weakened", "Searches weaker than asked.", "cause")
        self._search_time = Histogram(
            "search_seconds", "Parts of a search, and all of it.", "stage"
        )
        self._mode_time = Histogram(
            "search_mode_seconds", "Whole searches, by backend and mode.", "backend", "mode"
        )
        self._recalls = Counter("recalls", "Prompts for which memory was asked.", "outcome")
        self._recall_time = Histogram("recall_seconds", "From a prompt to its answer.")
        self._shown = ShownNotes()
        self._syncs = Counter("syncs", "Syncs of index and disk.", "outcome")
        self._sync_time = Histogram("sync_seconds", "How long syncs took.")
        self._synced = Counter("synced_files", "Files that syncs found changed.", "change")

    def answered(self, method: str, outcome: str, seconds: float) -> None:
        """Counts a request of the pipe; `outcome` is `ok` or the kind of its error."""
        self._requests.add(method, outcome)
        self._request_time.observe(seconds, method)

    async def observe_search(self, backend: str, search: Awaitable[SearchAnswer]) -> SearchAnswer:
        """Counts a search; returns its answer or raises its error."""
        started = time.perf_counter()
        try:
            answer = await search
        except MemoryGatewayError:
            self._searches.add(backend, "none", "failed")
            raise
        self.searched(answer, time.perf_counter() - started)
        return answer

    async def observe_sync(self, sync: Awaitable[SyncReport]) -> SyncReport:
        """Counts a sync; returns its report or raises its error."""
        try:
            report = await sync
        except MemoryGatewayError:
            self._syncs.add("failed")
            raise
        self.synced(report)
        return report

    def searched(self, answer: SearchAnswer, seconds: float) -> None:
        mode = answer.mode or "none"
        self._searches.add(answer.backend or "none", mode, answer.outcome)
        for lane in _LANES.get(mode, ()):
            self._lanes.add(lane)
        causes = {"warning": answer.warning, "stale": answer.stale, "fallback": answer.fallback}
        for cause, found in causes.items():
            if found is not None:
                self._weakened.add(cause)
        self._search_time.observe(seconds, "total")
        self._mode_time.observe(seconds, answer.backend or "none", mode)
        for stage, milliseconds in answer.timings_ms.items():
            self._search_time.observe(milliseconds / 1000, stage)

    def shown(self, hits: Iterable[Hit]) -> None:
        """Counts the notes that an answer shows; an internal search may find more."""
        self._shown.add({hit.path for hit in hits})

    def recalled(self, outcome: str, seconds: float) -> None:
        """Counts a prompt; `outcome` is `shown`, or the reason why nothing was shown."""
        self._recalls.add(outcome)
        self._recall_time.observe(seconds)

    def synced(self, report: SyncReport) -> None:
        self.last_sync, self.last_sync_at = report, time.time()
        self._syncs.add("complete" if report.complete and not report.error else "incomplete")
        self._sync_time.observe(report.duration_ms / 1000)
        changes = {"added": report.added, "changed": report.changed, "removed": report.removed}
        for change, files in changes.items():
            self._synced.add(change, amount=files)

    def activity(self, uses: UseRecord | None = None) -> Activity:
        """Returns a summary for people."""
        recalled, of_use = uses.totals() if uses is not None else (0, 0)
        by_mode: dict[str, int] = {}
        for (_, mode, _), count in self._searches.values.items():
            by_mode[mode] = by_mode.get(mode, 0) + int(count)
        failed = sum(
            count for (_, outcome), count in self._requests.values.items() if outcome != "ok"
        )
        return Activity(
            uptime_s=round(time.monotonic() - self._started, 1),
            requests=self._requests.total(),
            failed_requests=int(failed),
            searches=by_mode,
            search_ms_median=_milliseconds(self._search_time.quantile(0.5, "total")),
            search_ms_p95=_milliseconds(self._search_time.quantile(0.95, "total")),
            syncs=self._syncs.total(),
            prompts={outcome: int(n) for (outcome,), n in sorted(self._recalls.values.items())},
            recalled=recalled,
            recalled_of_use=of_use,
            dropped_log_lines=dropped_lines(),
        )

    def counted(self, uses: UseRecord, *, with_notes: bool) -> Counted:
        """Returns a summary of the searches; the notes that they showed only `with_notes`."""
        outcomes: dict[tuple[str, str], dict[str, int]] = {}
        for (backend, mode, outcome), count in sorted(self._searches.values.items()):
            outcomes.setdefault((backend, mode), {})[outcome] = int(count)
        return Counted(
            since=round(self.started_at, 3),
            searches=tuple(
                SearchesOfMode(
                    backend=backend,
                    mode=mode,
                    outcomes=found,
                    ms_median=_milliseconds(self._mode_time.quantile(0.5, backend, mode)),
                    ms_p95=_milliseconds(self._mode_time.quantile(0.95, backend, mode)),
                )
                for (backend, mode), found in outcomes.items()
            ),
            shown=self._shown.most() if with_notes else None,
            recalled=uses.most(_MOST_SHOWN) if with_notes else None,
            shown_forgotten=self._shown.forgotten,
        )

    def families(self) -> tuple[Family, ...]:
        instruments = (
            *(self._requests, self._request_time),
            *(self._searches, self._lanes, self._weakened, self._search_time),
            self._mode_time,
            *(self._recalls, self._recall_time),
            *(self._syncs, self._sync_time, self._synced),
        )
        lost = "Lines of the log that could not be written to standard error."
        dropped = single("counter", "dropped_log_lines", lost, dropped_lines())
        return (*(instrument.family() for instrument in instruments), dropped)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


PREFIX: Final = "memory_gateway_"
_BOUNDS: Final = (*map(str, SECONDS), "+Inf")
_TOTAL: Final = "_total"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def openmetrics_text(families: Iterable[Family]) -> str:
    return "".join(line for family in families for line in _lines(family)) + "# EOF\n"


def write_textfile(path: Path, families: Iterable[Family]) -> None:
    """Replaces the file in one step; everybody may read it. Raises OSError."""
    text = "".join(line for family in families for line in _lines(family, counter=_TOTAL))
    replace_file(path, text.encode(), mode=0o644)


def _lines(family: Family, *, counter: str = "") -> Iterator[str]:
    """Yields the lines of a family. `counter` is the suffix of a counter's family: the formats differ in it."""
    name = PREFIX + family.name
    head = name + (counter if family.kind == "counter" else "")
    yield f"# HELP {head} {family.help.translate(_ESCAPES)}\n"
    yield f"# TYPE {head} {family.kind}\n"
    for sample in family.samples:
        labels = dict(zip(family.labels, sample.labels, strict=True))
        if family.kind != "histogram":
            total = _TOTAL if family.kind == "counter" else ""
            yield f"{name}{total}{_written(labels)} {sample.value}\n"
            continue
        for bound, count in zip(_BOUNDS, sample.buckets, strict=True):
            yield f"{name}_bucket{_written({'le': bound, **labels})} {count}\n"
        yield f"{name}_count{_written(labels)} {sample.buckets[-1]}\n"
        yield f"{name}_sum{_written(labels)} {sample.value}\n"


def _written(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
