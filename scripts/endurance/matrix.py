"""The fault matrix: its cells, what one run of a cell does and checks, and how a plan of runs is carried out.

Every answer is right or says what it lacks, nothing is damaged, lost or paid for twice, a right answer comes
again within a bound, the end is orderly, no process or file is left behind, and the index equals a fresh one.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import anyio
import msgspec
from anyio import to_thread

from config.errors import MemoryGatewayError
from endurance import local_model
from endurance.activities import ACTIVITIES, Activity, keep_at_work
from endurance.agent import ANSWER_S, Agent
from endurance.database import Database
from endurance.faults import FAULTS, Fault, Impossible
from endurance.oracle import Content, Oracle, damage, read_content
from endurance.run import Launch, Run
from fakes import postgres
from fakes.vendors import FakeVendor
from fakes.wire import embedding
from gateway.client import GatewayGoneError

END_S: Final = 30.0
"""An orderly end is promised within 2 s; this is the bound on a busy machine."""
_HASTY: Final = "ending without waiting for work that hangs"
"""Logged by a gateway whose end took too long, so that it no longer tidies up. On a busy machine that may happen."""
_ENDS: Final = 5
"""One of this many ends must not be hasty."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    fault: str
    activity: str
    number: int
    failures: list[str]
    recovery_s: float | None
    kills: int
    answers: int
    incomplete: int = 0
    """Answers that lacked something and said so."""
    stored: int = 0
    """Texts that were embedded in this run and whose vector was stored when the fault was over."""


async def execute(fault: Fault, activity: Activity, run: Run) -> Outcome:
    """Runs a cell once, on an agent whose index was up to date and sound before."""
    agent = run.agent
    sometimes = run.number % 3 == 0 and not fault.without_host
    embeds = activity.embeds or fault.needs_host or sometimes
    agent.configure(embeds=embeds, sessions=activity.sessions)
    activity.prepare(agent)
    agent.removed.clear()
    before = await _content(agent)
    run.note_what_is_stored(before.embedded)
    recovery_s = None
    try:
        await fault.before(run)
        recovery_s = await _meet_the_fault(fault, activity, run, before)
        await _end_level(fault, run, activity)
        _check_payments(fault, run)
    except (MemoryGatewayError, TimeoutError) as error:
        run.fail(f"{type(error).__name__}: {error}"[:800])
    finally:
        with anyio.CancelScope(shield=True):
            await fault.after(run)
    return Outcome(
        fault=fault.name,
        activity=activity.name,
        number=run.number,
        failures=run.failures,
        recovery_s=recovery_s,
        kills=run.kills,
        answers=run.answers,
        incomplete=run.incomplete,
        stored=run.stored,
    )


async def _meet_the_fault(
    fault: Fault, activity: Activity, run: Run, before: Content
) -> float | None:
    """Returns the seconds to the first right answer: of the same gateway if it lives on, else of a new one."""
    try:
        async with _at_work(activity, run):
            await activity.instant(run)
            await fault.inject(run)
            await anyio.sleep(fault.hold_s)
            await fault.remove(run)
            since = time.perf_counter()
            if not fault.kills_gateway and run.is_alive and activity.name != "shutdown":
                found = await run.until_right(since, may_end=fault.may_prevent_start)
                if run.is_alive and activity.fetches:
                    await local_model.until_fetched(run)
                if run.is_alive:
                    return found
            await _ended(fault, run)
    except GatewayGoneError:
        await fault.remove(run)
    await _check_what_is_left(fault, run, before, activity)
    run.launch = Launch()
    since = time.perf_counter()
    async with run.started():
        return await run.until_right(since)


@asynccontextmanager
async def _at_work(activity: Activity, run: Run) -> AsyncIterator[None]:
    async with run.started(), anyio.create_task_group() as tasks:
        tasks.start_soon(keep_at_work, activity, run)
        if activity.name != "shutdown":
            tasks.start_soon(run.keep_asking)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _ended(fault: Fault | None, run: Run) -> None:
    """Waits for the end that is due; the exit code must be that of an orderly end, or of the fault."""
    process = run.gateway.process
    code = None
    with anyio.move_on_after(END_S):
        code = await process.wait()
    if code is None:
        run.fail(f"did not end within {END_S:g} s")
        process.kill()
    elif fault is not None and fault.kills_gateway:
        return
    elif code != 0 and not (code in _NO_INDEX and fault and fault.may_prevent_start):
        run.fail(f"exit code {code}: {' '.join(run.gateway.last_words)[-600:]}")


_NO_INDEX: Final = (os.EX_UNAVAILABLE, os.EX_TEMPFAIL)
"""The exit codes of a gateway that cannot open its index; the second one if its disk is full."""


async def _content(agent: Agent) -> Content:
    if agent.database is not None:
        return await to_thread.run_sync(agent.database.read)
    return read_content(agent.index)


async def _check_what_is_left(fault: Fault, run: Run, before: Content, activity: Activity) -> None:
    """Checks that the index as it was left is sound and has every file that was published and still exists."""
    if fault.tolerates_damaged:
        return
    agent = run.agent
    found = (
        await to_thread.run_sync(agent.database.problems, agent.settings)
        if agent.database
        else damage(agent.index)
    )
    run.failures += [f"damaged: {one}" for one in found]
    if activity.fetches:
        run.failures += local_model.cache_faults(run.agent)
    after = await _content(agent)
    if lost := before.files.keys() - run.agent.removed - after.files.keys():
        run.fail(f"{len(lost)} published files lost by {activity.name}, such as {min(lost)}")
    _check_payments(fault, run)
    run.stored = len(after.embedded & set(run.paid()))
    run.note_what_is_stored(after.embedded)


def _check_payments(fault: Fault, run: Run) -> None:
    """Checks that no text is embedded again whose vector was stored when the gateway was killed."""
    if fault.kills_gateway and not fault.tolerates_damaged and (again := run.paid_again()):
        run.fail(f"{len(again)} texts were embedded again, such as {min(again)[:60]!r}")


async def _end_level(fault: Fault, run: Run, activity: Activity) -> None:
    """Brings the index up to date, ends in order, and checks the index."""
    agent, run.launch = run.agent, Launch()
    for _ in range(_ENDS):
        async with run.started() as client:
            thorough = activity.sessions or fault.tolerates_damaged
            await client.call("sync", {"force": thorough}, timeout_s=2 * ANSWER_S)
            if activity.fetches:
                await local_model.until_embedded(run)
            process = client.process
            assert process.stdin is not None
            await process.stdin.aclose()
            await _ended(None, run)
        if not any(_HASTY in line for line in client.last_words):
            break
    if left := run.left_behind():
        run.fail(f"left behind: processes {left}")
    kept = tuple(fault.leftovers())
    usual = {agent.index.name, agent.lock.name}
    for file in agent.index.parent.iterdir():
        if file.name not in usual and not file.name.startswith(kept or "\0"):
            run.fail(f"left behind: {file.name}")
    if activity.fetches:
        run.failures += local_model.faults_at_the_end(run)
    expected = _expected(activity, agent)
    if agent.database is not None:
        run.failures += await agent.database.faults(agent.settings, expected)
    else:
        run.failures += await Oracle(agent.settings).faults(agent.index, expected=expected)


def _expected(activity: Activity, agent: Agent) -> Callable[[str], Sequence[float]] | None:
    """Returns the function that gives the vector of a text; None if nobody embeds."""
    if activity.fetches:
        return local_model.expected(agent)
    if agent.host is None:
        return None
    return partial(embedding, dimensions=agent.host.dimensions)


class Plan(NamedTuple):
    """The cells to run (empty: all of them), and how often (None: as usual for the fault)."""

    faults: tuple[str, ...] = ()
    activities: tuple[str, ...] = ()
    runs: int | None = None
    seed: int = 1


class Cell(NamedTuple):
    fault: Fault
    activity: Activity

    @property
    def impossible(self) -> str | None:
        """The reason why the cell cannot run, here or at all; None if it can."""
        if reason := self.fault.impossible.get(self.activity.name) or self.activity.missing():
            return reason
        try:
            self.fault.require()
        except Impossible as error:
            return str(error)
        return None


def cells(plan: Plan) -> list[Cell]:
    """Returns the cells of a plan, row by row."""
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
    """Does all runs of a plan, one after the other; `keep` gets the outcomes of each cell."""
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
    """Does the runs of one cell, on one agent as long as nothing fails."""
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
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="endurance-"))
        host = stack.enter_context(FakeVendor("openai", delay_s=0.01, max_items=64))
        hub = stack.enter_context(local_model.open_hub()) if cell.activity.fetches else None
        if cell.activity.embeds:
            host.with_batches()
        database = None
        if cell.fault.needs_database:
            database = Database(stack.enter_context(postgres.running()))
            stack.callback(cell.fault.clean_database, database)
        agent = Agent(Path(root), host, plan.seed + first, hub, database)
        try:
            for number in range(first, runs):
                rng = Random(f"{cell.fault.name} {cell.activity.name} {number} {plan.seed}")
                column = ACTIVITIES.index(cell.activity)
                run = Run(agent, rng, number, cell.activity.name, column)
                outcomes.append(await execute(cell.fault, cell.activity, run))
                if outcomes[-1].failures:
                    break
        finally:
            cell.fault.clean(Path(root))
    return outcomes
