"""Twenty cold starts at once, the cost of a bridge, and how long a killed owner is missed."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.scoring import percentile
from benchmarks.start import resident_bytes
from gateway.client import GatewayClient, spawn_gateway
from gateway.process.log_output import configure_logs

CALLS = 300
SEARCH = {"query": "boiler"}


class Starts(NamedTuple):
    owners: int
    answered: int
    seconds: float


async def start_at_once(arguments: list[str], count: int) -> Starts:
    """How many owners `count` simultaneous starts make, and when all have answered."""
    pids: list[int] = []
    everybody = anyio.Event()
    started = time.perf_counter()

    async def start() -> None:
        async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
            await client.call("memory_search", SEARCH, timeout_s=60)
            pids.append((await client.call("status", timeout_s=60))["pid"])
            if len(pids) == count:
                everybody.set()
            await everybody.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(start)
        await everybody.wait()
        seconds = time.perf_counter() - started
    return Starts(len(set(pids)), len(pids), seconds)


async def latency_ms(client: GatewayClient) -> float:
    latencies = []
    for _ in range(CALLS):
        started = time.perf_counter()
        await client.call("memory_search", SEARCH)
        latencies.append((time.perf_counter() - started) * 1000)
    return percentile(latencies, 0.5)


async def bridge_cost(arguments: list[str]) -> tuple[float, float, int]:
    """Median latency at the owner and through a bridge, and the bridge's resident bytes."""
    environment = dict(os.environ)
    async with spawn_gateway(arguments, environment=environment) as owner:
        await owner.call("sync")
        async with spawn_gateway(arguments, environment=environment) as guest:
            direct, bridged = await latency_ms(owner), await latency_ms(guest)
            return direct, bridged, resident_bytes(guest.process.pid)


async def takeover_ms(arguments: list[str]) -> float:
    """From the killing of an owner to the answer of its heir."""
    environment = dict(os.environ)
    async with spawn_gateway(arguments, environment=environment) as owner:
        await owner.call("sync")
        async with spawn_gateway(arguments, environment=environment) as guest:
            await guest.call("health")
            owner.process.kill()
            started = time.perf_counter()
            await guest.call("memory_search", SEARCH)
            return (time.perf_counter() - started) * 1000


def make_home(root: Path) -> list[str]:
    """A workspace with one note; the arguments that lead to it."""
    (root / "workspace").mkdir(parents=True)
    (root / "workspace/MEMORY.md").write_text("- The boiler.\n", encoding="utf-8")
    (root / "openclaw.json").write_text(
        json.dumps({"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}),
        encoding="utf-8",
    )
    arguments = ["--workspace", str(root / "workspace"), "--state-dir", str(root)]
    return [*arguments, "--config", str(root / "openclaw.json"), "--log-level", "warning"]


async def measure(rounds: int, count: int, root: Path) -> Table:
    starts = [
        await start_at_once(make_home(root / f"start-{number}"), count) for number in range(rounds)
    ]
    takeovers = [
        await takeover_ms(make_home(root / f"takeover-{number}")) for number in range(rounds)
    ]
    direct, bridged, resident = await bridge_cost(make_home(root / "bridge"))
    table = Table(title=f"One owner for an index; {rounds} rounds", show_header=False)
    owners, answered = {one.owners for one in starts}, {one.answered for one in starts}
    table.add_row(f"owners of {count} cold starts at once", ", ".join(map(str, sorted(owners))))
    table.add_row("of them answered", ", ".join(map(str, sorted(answered))))
    table.add_row("until all have answered", f"{max(one.seconds for one in starts):.1f} s at most")
    table.add_row("owner killed, until its heir answers", f"{percentile(takeovers, 0.5):.0f} ms")
    table.add_row("the longest of these", f"{max(takeovers):.0f} ms")
    table.add_row("warm search at the owner", f"{direct:.2f} ms")
    table.add_row("through a bridge", f"{bridged:.2f} ms")
    table.add_row("resident memory of a bridge", f"{resident / 1e6:.0f} MB")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=20)
    options = parser.parse_args()
    configure_logs("warning")
    with tempfile.TemporaryDirectory(prefix="memory-gateway-ownership-") as root:
        table = anyio.run(measure, options.rounds, options.starts, Path(root))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
