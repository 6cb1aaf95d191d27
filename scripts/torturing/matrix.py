"""The cells of the matrix: which there are, why some are impossible, and running those of a plan."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

from fakes.vendors import FakeVendor
from torturing.activities import ACTIVITIES, Activity
from torturing.faults import FAULTS, Fault, Impossible
from torturing.models import open_hub
from torturing.playing import Outcome, play
from torturing.scene import Scene
from torturing.subject import Subject


class Plan(NamedTuple):
    """Which cells to run, and how often; empty: all of them."""

    faults: tuple[str, ...] = ()
    activities: tuple[str, ...] = ()
    runs: int | None = None
    seed: int = 1


class Cell(NamedTuple):
    fault: Fault
    activity: Activity

    @property
    def impossible(self) -> str | None:
        """Why it cannot be, here or at all."""
        if reason := self.fault.impossible.get(self.activity.name) or self.activity.missing():
            return reason
        try:
            self.fault.require()
        except Impossible as error:
            return str(error)
        return None


def cells(plan: Plan) -> list[Cell]:
    """Those of a plan, row by row."""
    return [
        Cell(fault, activity)
        for fault in FAULTS
        if not plan.faults or fault.name in plan.faults
        for activity in ACTIVITIES
        if not plan.activities or activity.name in plan.activities
    ]


async def run_matrix(
    plan: Plan, say: Callable[[str], None], keep: Callable[[list[Outcome]], None]
) -> list[Outcome]:
    """All runs of a plan, one after the other; `keep` gets those of each cell."""
    outcomes: list[Outcome] = []
    for cell in cells(plan):
        if reason := cell.impossible:
            say(f"{cell.fault.name:14} {cell.activity.name:12} not possible: {reason}")
            continue
        done = await run_cell(cell, plan, say)
        keep(done)
        outcomes += done
    return outcomes


async def run_cell(cell: Cell, plan: Plan, say: Callable[[str], None]) -> list[Outcome]:
    """The runs of one cell, on one subject as long as nothing fails."""
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    runs = plan.runs or cell.fault.runs
    while len(outcomes) < runs:
        outcomes += await _until_failure(cell, plan, len(outcomes), runs)
    failed = sum(bool(one.failures) for one in outcomes)
    slowest = max((one.recovery_s or 0 for one in outcomes), default=0)
    say(
        f"{cell.fault.name:14} {cell.activity.name:12} {runs:4} runs {failed:3} failed"
        f"  recovery {slowest:5.2f} s at most  {time.perf_counter() - started:6.1f} s"
    )
    return outcomes


async def _until_failure(cell: Cell, plan: Plan, first: int, runs: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-"))
        host = stack.enter_context(FakeVendor("openai", delay_s=0.01, max_items=64))
        hub = stack.enter_context(open_hub()) if cell.activity.fetches else None
        if cell.activity.embeds:
            host.with_batches()
        subject = Subject(Path(root), host, plan.seed + first, hub)
        try:
            for number in range(first, runs):
                rng = Random(f"{cell.fault.name} {cell.activity.name} {number} {plan.seed}")
                scene = Scene(subject, rng, number, ACTIVITIES.index(cell.activity))
                outcomes.append(await play(cell.fault, cell.activity, scene))
                if outcomes[-1].failures:
                    break
        finally:
            cell.fault.clean(Path(root))
    return outcomes
