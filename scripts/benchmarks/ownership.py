"""Measures twenty cold starts at once, the cost of a bridge, and how soon a killed owner is replaced."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.running import facts, home, resident_bytes, timed
from benchmarks.scoring import percentile
from gateway.client import GatewayClient, spawn_gateway
from gateway.process.log_output import configure_logs

CALLS = 300
SEARCH = {"query": "boiler"}


class Starts(NamedTuple):
    owners: int
    answered: int
    seconds: float


async def start_at_once(arguments: list[str], count: int) -> Starts:
    """Starts `count` gateways at once; returns how many owners and answers there were, and when all had answered."""
    pids: list[int] = []
    everybody = anyio.Event()
    started = time.perf_counter()

    async def start() -> None:
        async with spawn_gateway(arguments) as client:
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
    latencies = [(await timed(client.call("memory_search", SEARCH)))[1] for _ in range(CALLS)]
    return percentile(latencies, 0.5)


async def bridge_cost(arguments: list[str]) -> tuple[float, float, int]:
    """Returns the median latency at the owner and through a bridge, and the bridge's resident bytes."""
    async with spawn_gateway(arguments) as owner:
        await owner.call("sync")
        async with spawn_gateway(arguments) as guest:
            direct, bridged = await latency_ms(owner), await latency_ms(guest)
            return direct, bridged, resident_bytes(guest.process.pid)


async def takeover_ms(arguments: list[str]) -> float:
    """Returns the time from killing an owner to the answer of its successor."""
    async with spawn_gateway(arguments) as owner:
        await owner.call("sync")
        async with spawn_gateway(arguments) as guest:
            await guest.call("health")
            owner.process.kill()
            return (await timed(guest.call("memory_search", SEARCH)))[1]


def make_home(root: Path) -> list[str]:
    """Makes a workspace with one note; returns the arguments of its gateway."""
    (root / "workspace").mkdir(parents=True)
    (root / "workspace/MEMORY.md").write_text("- The boiler.\n", encoding="utf-8")
    return home(root, root / "workspace", "warning")


async def measure(rounds: int, count: int, root: Path) -> Table:
    starts = [
        await start_at_once(make_home(root / f"start-{number}"), count) for number in range(rounds)
    ]
    takeovers = [
        await takeover_ms(make_home(root / f"takeover-{number}")) for number in range(rounds)
    ]
    direct, bridged, resident = await bridge_cost(make_home(root / "bridge"))
    owners, answered = {one.owners for one in starts}, {one.answered for one in starts}
    return facts(
        f"One owner for an index; {rounds} rounds",
        {
            f"owners of {count} cold starts at once": ", ".join(map(str, sorted(owners))),
            "of them answered": ", ".join(map(str, sorted(answered))),
            "until all have answered": f"{max(one.seconds for one in starts):.1f} s at most",
            "owner killed, until its heir answers": f"{percentile(takeovers, 0.5):.0f} ms",
            "the longest of these": f"{max(takeovers):.0f} ms",
            "warm search at the owner": f"{direct:.2f} ms",
            "through a bridge": f"{bridged:.2f} ms",
            "resident memory of a bridge": f"{resident / 1e6:.0f} MB",
        },
    )


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
