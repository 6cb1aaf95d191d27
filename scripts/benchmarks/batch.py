"""Embeds a large backlog with batch jobs: counts the jobs, and what it costs to kill the process in each state.

Each row is an agent of its own, with a loopback host that speaks one vendor's format. Its gateway is killed with
SIGKILL at the named point and started again; then jobs, uploads and vectors are counted. The gateway of a vendor's
first row is not killed. Another run measures how soon a note that is saved during a job has its vector.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.notes import vocabulary
from benchmarks.running import embedding_with, figures, home
from fakes.batches import FakeBatches
from fakes.vendors import FakeVendor
from gateway.client import GatewayClient, spawn_gateway

POINTS: Final = ("-", "files", "upload", "create", "look", "read", "delete")
WORDS_A_SECTION: Final = 230
"""The words of a section, which makes about two chunks."""
JOB_LIMITS: Final[dict[str, int]] = {"openai": 50_000, "gemini": 50_000, "voyage": 100_000}
PATIENCE_S: Final = 600
NOTE: Final = "A kingfisher sat on the weir."


class Agent:
    """A workspace with a backlog, and how its gateway is started."""

    def __init__(self, root: Path, host: FakeVendor, files: int, sections: int) -> None:
        self.memory = root / "workspace" / "memory"
        self.memory.mkdir(parents=True)
        rng, words = random.Random(5), vocabulary(5_000)
        for number in range(files):
            parts = [
                f"## Part {number}.{part}\n\n{' '.join(rng.choices(words, k=WORDS_A_SECTION))}.\n"
                for part in range(sections)
            ]
            (self.memory / f"{number:04}.md").write_text("\n".join(parts), encoding="utf-8")
        search = embedding_with(host, batch={"pollIntervalMs": 100}) | {"provider": host.vendor}
        self.arguments = home(root / "state", self.memory.parent, **search)


async def run_until_done(agent: Agent) -> dict[str, Any]:
    """Indexes and embeds everything; returns the last status of the vectors."""
    async with spawn_gateway(agent.arguments) as client:
        await client.call("sync", {}, timeout_s=PATIENCE_S)
        return await vectors_when(client, is_done)


async def vectors(client: GatewayClient) -> dict[str, Any]:
    status = await client.call("status", {}, timeout_s=60)
    found: dict[str, Any] = status["details"].get("vector") or {}
    return found


async def vectors_when(
    client: GatewayClient, condition: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Waits for a status of the vectors that meets the condition, and returns it."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            vector = await vectors(client)
            if condition(vector):
                return vector
            await anyio.sleep(0.05)


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while True:
            if condition():
                return
            await anyio.sleep(0.01)


def is_done(vector: dict[str, Any]) -> bool:
    coverage = vector.get("backfill", {}).get("coverage", {"total": 0, "embedded": -1})
    jobs = vector.get("batch", {}).get("jobs", [])
    closed = all(job["state"] == "closed" for job in jobs)
    return 0 < coverage["total"] == coverage["embedded"] and bool(jobs) and closed


async def killed_at(agent: Agent, is_there: Callable[[], object]) -> None:
    async with (
        spawn_gateway(agent.arguments) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(ask_for_sync, client)
        await until(is_there)
        client.process.kill()
        tasks.cancel_scope.cancel()


async def ask_for_sync(client: GatewayClient) -> None:
    await client.call("sync", {}, timeout_s=PATIENCE_S)


async def note_saved_now(agent: Agent, batches: FakeBatches) -> float:
    """Returns the seconds from saving a note to its vector, while the whole backlog waits for a job."""
    batches.held = True
    async with spawn_gateway(agent.arguments) as client:
        await client.call("sync", {}, timeout_s=PATIENCE_S)
        await until(lambda: any(job.status == "in_progress" for job in batches.jobs.values()))
        before = (await vectors(client))["backfill"]["coverage"]["embedded"]
        (agent.memory / "now.md").write_text(f"{NOTE}\n", encoding="utf-8")
        started = time.perf_counter()
        await client.call("sync", {}, timeout_s=PATIENCE_S)
        await vectors_when(client, lambda now: now["backfill"]["coverage"]["embedded"] > before)
        return time.perf_counter() - started


async def measure(vendor: str, point: str, files: int, sections: int, table: Table) -> None:
    with tempfile.TemporaryDirectory() as scratch, FakeVendor(vendor) as host:
        batches = host.with_batches()
        agent = Agent(Path(scratch), host, files, sections)
        started = time.perf_counter()
        if point != "-":
            batches.stalls = point
            await killed_at(agent, lambda: batches.stalled)
            batches.stalls = None
        coverage = (await run_until_done(agent))["backfill"]["coverage"]
        paid = Counter([*batches.texts(), *host.embedded()])
    most = math.ceil(coverage["total"] / JOB_LIMITS[vendor]) + 1
    table.add_row(
        vendor,
        point,
        f"{coverage['total']:,}",
        f"{len(batches.jobs)}/{most}",
        str(batches.uploads),
        f"{coverage['stored']:,}",
        str(sum(count - 1 for count in paid.values())),
        str(len(batches.files)),
        f"{time.perf_counter() - started:.0f} s",
    )


async def main(vendors: Sequence[str], points: Sequence[str], files: int, sections: int) -> None:
    table = figures(
        f"{files} files",
        "vendor | killed at | chunks | jobs | uploads | vectors | paid twice | files left | ",
    )
    for vendor in vendors:
        for point in points:
            await measure(vendor, point, files, sections, table)
    Console().print(table)
    for vendor in vendors:
        with tempfile.TemporaryDirectory() as scratch, FakeVendor(vendor) as host:
            batches = host.with_batches()
            agent = Agent(Path(scratch), host, files, sections)
            seconds = await note_saved_now(agent, batches)
        print(f"{vendor}: a note saved while the job goes on has its vector after {seconds:.2f} s.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vendors", nargs="+", choices=JOB_LIMITS, default=list(JOB_LIMITS))
    parser.add_argument("--points", nargs="+", choices=POINTS, default=POINTS)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--sections", type=int, default=8)
    anyio.run(main, *vars(parser.parse_args()).values())
