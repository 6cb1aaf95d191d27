"""One soak test: a real gateway, all its clients at the same time, and a fresh index to compare with.

It lasts a number of minutes or, in fast motion, until its goals are reached. The clients are in `soak_clients`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import anyio
import msgspec
from anyio.abc import TaskGroup
from rich.console import Console

from benchmarks.notes import NoteWriter
from benchmarks.plot import panels
from benchmarks.running import figures
from benchmarks.scoring import percentile
from endurance.agent import Home
from endurance.oracle import compare
from endurance.processes import Sample, Sampler
from endurance.soak_clients import (
    EDITS,
    MOST_TURNS,
    MOSTLY_SEARCHES,
    NOTE_OPERATIONS,
    Findings,
    NoteClient,
    Notes,
    Operator,
    Pace,
    TranscriptClient,
    shuffled,
)
from fakes.embedding import embedded
from fakes.faults import Fault, fault, rate_limited, status
from fakes.vendors import FakeVendor
from fakes.wire import embedding
from gateway.client import GatewayClient, SpawnedGateway, connect
from gateway.ownership.sockets import reach_owner
from gateway.process.log_output import configure_logs

FAULTS: Final[tuple[Fault, ...]] = (
    status(500), status(503), rate_limited(), rate_limited("1"),
    *map(fault, ("hang", "drip", "reset", "invalid-json", "html", "short", "wrong-dimension", "nan", "zero")),
)  # fmt: skip
_EVERY: Final = 4
"""The vendor fails in one of this many rounds."""


async def fail_now_and_then(
    vendor: FakeVendor, findings: Findings, pace: Pace, rng: Random
) -> None:
    """Makes the vendor misbehave in one way after the other, and work in between; in the end it works."""
    kinds = shuffled(FAULTS, rng)
    async for number in pace():
        vendor.heal()
        vendor.requests.clear()
        if number % _EVERY == 0:
            kind = next(kinds)
            findings.done[f"provider: {kind.status if kind.kind == 'status' else kind.kind}"] += 1
            vendor.misbehave(kind)
        await anyio.sleep(0.01)
    vendor.heal()


NOTE_CLIENTS: Final = 3
_BULLETS: Final = 12
_LONG_S: Final = 600.0
_SMALL: Final = Path(__file__).with_name("small_memories.py")
_LOG: Final = "SOAK_LOG"
"""The variable that names the file to which the gateway's log goes."""


@dataclass(frozen=True)
class Goals:
    """The least that is to be done."""

    searches: int
    edits: int
    sessions: int

    def noted(self, findings: Findings) -> bool:
        edits = sum(findings.done[name] for name in EDITS)
        return len(findings.search_s) >= self.searches and edits >= self.edits

    def talked(self, findings: Findings) -> bool:
        return findings.done["sessions"] >= self.sessions

    def reached(self, findings: Findings) -> bool:
        return self.noted(findings) and self.talked(findings)


@dataclass(frozen=True)
class Plan:
    """The pace of each part; `pace` is that of the clients that keep notes."""

    pace: Pace
    talking: Pace
    operating: Pace
    provider_faults: Pace
    samples: Pace
    goals: Goals | None = None
    """The goals at which the clients stop, if their time is not over before; None: only time counts."""
    operations: Sequence[str] = NOTE_OPERATIONS
    bullets: tuple[int, int] = (3, 25)
    """The fewest and the most bullets of a note."""
    most_turns: int = MOST_TURNS
    """The most turns of a conversation."""
    record: Path | None = None
    """The file to which each sample is appended as it is taken."""
    memories: int = 1
    """The divisor of what the gateway may remember; see `small_memories`."""
    quiet_notes: int = 150
    """The number of notes that nobody touches."""
    seed: int = 1

    def towards(self, findings: Findings) -> Plan:
        """Returns the plan with paces that end when the goals are reached."""
        goals = self.goals
        if goals is None:
            return self
        reached = partial(goals.reached, findings)
        return replace(
            self,
            pace=replace(self.pace, is_over=partial(goals.noted, findings)),
            talking=replace(self.talking, is_over=partial(goals.talked, findings)),
            operating=replace(self.operating, is_over=reached),
            provider_faults=replace(self.provider_faults, is_over=reached),
            samples=replace(self.samples, is_over=reached),
        )


@dataclass(frozen=True)
class Outcome:
    findings: Findings
    samples: Sequence[Sample]
    database_bytes: int
    fresh_bytes: int
    """The size of a fresh index of the same files."""
    exit_code: int | None


async def soak(root: Path, plan: Plan) -> Outcome:
    findings = Findings()
    plan = plan.towards(findings)
    home = Home(root / "state", root / "workspace")
    if plan.memories > 1:
        home.command = (sys.executable, "-P", str(_SMALL), str(plan.memories), "serve")
    NoteWriter(seed=plan.seed).workspace(home.workspace, plan.quiet_notes, _BULLETS)
    with FakeVendor("openai") as vendor:
        rng = Random(plan.seed)
        operator = Operator(home.config, home.workspace, vendor, findings, rng)
        log = root / "gateway.log"
        redirected = ("/bin/sh", "-c", f'exec "$@" 2>>"${_LOG}"', "sh")
        async with home.gateway(redirected, {_LOG: str(log)}) as client:
            await client.call("sync", {}, timeout_s=_LONG_S)
            await embedded(client, _LONG_S)
            sampler = Sampler(client.process.pid, home.index, log, plan.record)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_sample, sampler, plan.samples)
                tasks.start_soon(
                    fail_now_and_then, vendor, findings, plan.provider_faults, Random(plan.seed)
                )
                _use(tasks, client, home, operator, findings, plan)
            await _settle(operator, client)
        exit_code = client.process.returncode
        fresh = await _fresh_index(root / "fresh", home)
    findings.wrong += compare(
        home.index, fresh, grown=True, expected=partial(embedding, dimensions=vendor.dimensions)
    )
    return Outcome(
        findings,
        sampler.samples,
        home.index.stat().st_size,
        fresh.stat().st_size,
        exit_code,
    )


def _use(
    tasks: TaskGroup,
    pipe: GatewayClient,
    home: Home,
    operator: Operator,
    findings: Findings,
    plan: Plan,
) -> None:
    transcript_client = TranscriptClient(
        home.sessions, findings, Random(plan.seed), plan.most_turns
    )
    notes = [
        Notes(home.workspace, f"note_client-{number}", plan.seed, plan.bullets)
        for number in range(NOTE_CLIENTS)
    ]
    note_clients = [NoteClient(one, home.lock, findings, plan.operations) for one in notes]
    tasks.start_soon(note_clients[0].keep_over, pipe, plan.pace)
    for note_client in note_clients[1:]:
        tasks.start_soon(note_client.keep, plan.pace)
    tasks.start_soon(_with_a_connection, home, transcript_client.talk, plan.talking)
    tasks.start_soon(_with_a_connection, home, operator.operate, plan.operating)


async def _with_a_connection(home: Home, work: Any, pace: Pace) -> None:
    stream = await reach_owner(home.lock)
    async with connect(stream, stream) as client:
        await work(client, pace)


async def _sample(sampler: Sampler, pace: Pace) -> None:
    async for _ in pace():
        sampler.take()


async def _settle(operator: Operator, client: SpawnedGateway) -> None:
    """Restores the usual settings, and waits until every file is indexed and every text embedded."""
    operator.configure()
    await client.call("reload", timeout_s=_LONG_S)
    await client.call("sync", {}, timeout_s=_LONG_S)
    await embedded(client, _LONG_S)


async def _fresh_index(root: Path, home: Home) -> Path:
    fresh = Home(root, home.workspace)
    shutil.copy(home.config, fresh.config)
    shutil.copytree(home.sessions, fresh.sessions)
    async with fresh.gateway() as client:
        await client.call("sync", {}, timeout_s=_LONG_S)
        await embedded(client, _LONG_S)
    return fresh.index


_HOUR_S: Final = 3600.0
_NORMAL_95: Final = 1.96


class Slope(NamedTuple):
    """Per hour, with the bounds of its 95 % confidence interval."""

    value: float
    low: float
    high: float


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope:
    """Returns the slope by ordinary least squares. Needs three points at least.

    Neighbouring samples resemble each other, so there are fewer independent ones than samples; their
    number is corrected by the residuals' first autocorrelation r: n (1 - r) / (1 + r)
    (G. V. Bayley and J. M. Hammersley, 1946).
    """
    hours = [at / _HOUR_S for at in seconds]
    centre, level = fmean(hours), fmean(values)
    spread = sum((hour - centre) ** 2 for hour in hours)
    value = sum((h - centre) * (v - level) for h, v in zip(hours, values, strict=True)) / spread
    rest = [v - level - value * (h - centre) for h, v in zip(hours, values, strict=True)]
    squares = sum(one * one for one in rest)
    if squares == 0:
        return Slope(value, value, value)
    likeness = max(0.0, sum(a * b for a, b in pairwise(rest)) / squares)
    independent = max(3.0, len(rest) * (1 - likeness) / (1 + likeness))
    error = math.sqrt(squares / (independent - 2) / spread)
    return Slope(value, value - _NORMAL_95 * error, value + _NORMAL_95 * error)


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Returns the medians of the first and of the last quarter."""
    size = max(1, len(values) // 4)
    return median(values[:size]), median(values[-size:])


SERIES: Final = {
    "resident_mib": "resident memory, MiB",
    "anonymous_mib": "of it no part of a file, MiB",
    "descriptors": "open descriptors",
    "threads": "threads",
    "database_mib": "database, MiB",
    "wal_mib": "write-ahead log, MiB",
    "vectors": "vectors in the cache",
    "log_mib": "written to the log so far, MiB",
}
"""The curves of a soak, by the field of its samples."""
_ENDLESS: Final = frozenset({"log_mib"})
"""The curves that rise as long as something is logged: it is not the gateway that limits its log."""


_MIB: Final = 1 << 20


class Plateau(NamedTuple):
    """The rise of a curve over the second half of a soak, with the bounds of its 95 % confidence interval."""

    level: float
    """The median of that half."""
    rise: float
    low: float
    high: float

    @property
    def is_level(self) -> bool:
        """True if the rise is not significant, or less than a hundredth of the level."""
        return self.low <= 0 or self.rise < 0.01 * self.level


def plateaus(samples: Sequence[Sample]) -> dict[str, Plateau]:
    half = samples[len(samples) // 2 :]
    at = [one.at_s for one in half]
    hours = (at[-1] - at[0]) / _HOUR_S
    found = {}
    for name in SERIES:
        values = [float(getattr(one, name)) for one in half]
        found[name] = Plateau(median(values), *(one * hours for one in slope(at, values)))
    return found


def draw_samples(samples: Sequence[Sample], path: Path, title: str) -> None:
    """Draws one panel for each curve."""
    found = plateaus(samples)
    curves = {}
    for name, meaning in SERIES.items():
        one = found[name]
        judged = f"second half: {one.rise:+.2f} ({one.low:+.2f} to {one.high:+.2f})"
        line = [(sample.at_s / 60, float(getattr(sample, name))) for sample in samples]
        curves[f"{meaning}; {judged}"] = line
    panels(path, curves, title=title, x="minutes")


WARM_UP: Final = 0.15
"""The share of the samples that does not count: caches fill, arenas grow."""


def summary(outcome: Outcome) -> dict[str, Any]:
    samples = outcome.samples
    warm = samples[int(len(samples) * WARM_UP) :]
    resident = [one.resident_mib for one in warm]
    first, last = quarters(resident)
    growth = slope([one.at_s for one in warm], resident)
    descriptors = quarters([one.descriptors for one in warm])
    findings = outcome.findings
    return {
        "minutes": samples[-1].at_s / 60,
        "samples": len(samples),
        "activities": dict(sorted(findings.done.items())),
        "searches": len(findings.search_s),
        "modes": dict(findings.modes),
        "staleAnswers": findings.stale,
        "errors": findings.errors,
        "wrong": findings.wrong,
        "searchMs": {
            name: percentile(findings.search_s, share) * 1000
            for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
        },
        "residentMiB": {
            "first": samples[0].resident_mib,
            "warmQuarter": first,
            "lastQuarter": last,
            "max": max(one.resident_mib for one in samples),
            "slopePerHour": list(growth),
        },
        "descriptors": {"warmQuarter": descriptors[0], "lastQuarter": descriptors[1]},
        "threadsMax": max(one.threads for one in samples),
        "childrenMax": max(one.children for one in samples),
        "walMiBMax": max(one.wal_mib for one in samples),
        "logMiB": samples[-1].log_mib,
        "plateaus": plateaus(samples),
        "databaseMiB": {
            "max": max(one.database_mib for one in samples),
            "end": outcome.database_bytes / _MIB,
            "fresh": outcome.fresh_bytes / _MIB,
        },
        "exitCode": outcome.exit_code,
    }


def show(found: dict[str, Any], console: Console) -> None:
    resident, database, ms = found["residentMiB"], found["databaseMiB"], found["searchMs"]
    value, low, high = resident["slopePerHour"]
    descriptors = found["descriptors"]
    table = figures(f"Soak of {found['minutes']:.1f} minutes", "| value")
    for name, shown in (
        ("activities", f"{sum(found['activities'].values()):,}"),
        ("searches with a known answer", f"{found['searches']:,}"),
        ("of them with vectors / words only",
            f"{found['modes'].get('hybrid', 0):,} / {found['modes'].get('keyword', 0):,}"),
        ("errors", str(len(found["errors"]))),
        ("wrong or empty answers", str(len(found["wrong"]))),
        ("answers that said they were stale", str(found["staleAnswers"])),
        ("search p50 / p95 / max, ms", f"{ms['p50']:.0f} / {ms['p95']:.0f} / {ms['max']:.0f}"),
        ("resident MiB, quarter after warm-up / last",
            f"{resident['warmQuarter']:.1f} / {resident['lastQuarter']:.1f}"),
        ("resident MiB, first sample / max", f"{resident['first']:.1f} / {resident['max']:.1f}"),
        ("slope, MiB an hour (95 %)", f"{value:+.1f} ({low:+.1f} to {high:+.1f})"),
        ("descriptors, quarter after warm-up / last",
            f"{descriptors['warmQuarter']:g} / {descriptors['lastQuarter']:g}"),
        ("threads, children, max", f"{found['threadsMax']}, {found['childrenMax']}"),
        ("write-ahead log, MiB max", f"{found['walMiBMax']:.1f}"),
        *_levels(found["plateaus"]),
        ("database MiB, max / end / fresh", f"{database['max']:.1f} / {database['end']:.1f} / {database['fresh']:.1f}"),
        ("exit code", str(found["exitCode"])),
    ):  # fmt: skip
        table.add_row(name, shown)
    console.print(table)
    console.print(", ".join(f"{name} {count}" for name, count in found["activities"].items()))
    for one in [*found["errors"], *found["wrong"]][:20]:
        console.print(one[:600], markup=False)


def _levels(found: dict[str, Plateau]) -> Iterator[tuple[str, str]]:
    for name, one in found.items():
        said = "" if name in _ENDLESS else ", level" if one.is_level else ", NOT level"
        shown = f"{one.level:.1f}, {one.rise:+.2f} ({one.low:+.2f} to {one.high:+.2f}){said}"
        yield f"second half: {SERIES[name]}", shown


def plan(minutes: float) -> Plan:
    seconds = minutes * 60
    return Plan(
        pace=Pace(seconds, pause_s=0.1),
        talking=Pace(seconds, pause_s=0.5),
        operating=Pace(seconds, pause_s=0.5),
        provider_faults=Pace(seconds, pause_s=8.0),
        samples=Pace(seconds, pause_s=min(5.0, seconds / 60)),
    )


def fast_motion(minutes: float, goals: Goals) -> Plan:
    """Returns a plan as fast as the gateway answers, with short notes and conversations, for `minutes` at most."""
    seconds = minutes * 60
    return Plan(
        pace=Pace(seconds),
        talking=Pace(seconds),
        operating=Pace(seconds, pause_s=2.0),
        provider_faults=Pace(seconds, pause_s=8.0),
        samples=Pace(seconds, pause_s=2.0),
        goals=goals,
        operations=MOSTLY_SEARCHES,
        bullets=(2, 6),
        most_turns=3,
    )


def read_samples(path: Path) -> list[Sample]:
    """Returns the samples of a soak that may still be running."""
    return [msgspec.json.decode(line, type=Sample) for line in path.read_bytes().splitlines()]


def _title(samples: Sequence[Sample]) -> str:
    return f"One gateway in a soak of {samples[-1].at_s / 60:.0f} minutes"


def main(arguments: Sequence[str]) -> int:
    """An hour of everything at once against one gateway, and what it held meanwhile."""
    parser = argparse.ArgumentParser(prog="./scripts/soak", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="at most, with --searches")
    parser.add_argument("--searches", type=int, help="in fast motion, until so much was done")
    parser.add_argument("--edits", type=int, default=0, help="with --searches: files changed")
    parser.add_argument("--sessions", type=int, default=0, help="with --searches: conversations")
    parser.add_argument(
        "--memories", type=int, default=1, metavar="N", help="divide what is remembered by N"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=Path, metavar="FILE", help="append each sample to it")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the samples")
    parser.add_argument("--drawn-only", action="store_true", help="draw those in --samples")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.drawn_only:
        samples = read_samples(options.samples)
        draw_samples(samples, options.plot, _title(samples))
        return 0
    configure_logs("error")
    chosen = plan(options.minutes)
    if options.searches is not None:
        goals = Goals(options.searches, options.edits, options.sessions)
        chosen = fast_motion(options.minutes, goals)
    chosen = replace(chosen, seed=options.seed, record=options.samples, memories=options.memories)
    with tempfile.TemporaryDirectory(prefix="soak-") as root:
        outcome = anyio.run(partial(soak, Path(root), chosen))
    if options.plot:
        draw_samples(outcome.samples, options.plot, _title(outcome.samples))
    found = summary(outcome)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found, Console(width=120))
    return int(bool(outcome.findings.faults()) or outcome.exit_code != 0)
