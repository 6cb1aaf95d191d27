"""Two hundred searches while QMD is killed every two seconds: who answers, and how fast."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
from rich.table import Table

from benchmarks.qmd_home import (
    qmd_processes,
    qmd_settings,
    search,
    served_by_qmd,
    write_home,
)
from benchmarks.questions import Collection
from benchmarks.scoring import percentile
from gateway.client import spawn_gateway

SEARCHES = 200
KILL_EVERY_S = 2.0
PAUSE_S = 0.2
"""Between searches, so that there are some in every state of QMD."""
TIMEOUT_MS = 4000
"""The documented default of `memory.qmd.limits.timeoutMs`."""


async def killed_again_and_again(command: str, collection: Collection, root: Path) -> Table:
    arguments = write_home(root, collection.workspace, qmd_settings(command))
    engines: Counter[str] = Counter()
    latencies: list[float] = []
    kills = [0]
    async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
        await served_by_qmd(client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill, root, kills)
            for number in range(SEARCHES):
                question = collection.questions[number % len(collection.questions)]
                started = time.perf_counter()
                answer = await search(client, question.query)
                latencies.append(time.perf_counter() - started)
                fallback = answer.get("fallback") or {}
                engines[
                    f"{answer['backend']}{' for ' if fallback else ''}{fallback.get('from', '')}"
                ] += 1
                await anyio.sleep(PAUSE_S)
            tasks.cancel_scope.cancel()
        _kill_all(root)
        started = time.perf_counter()
        await served_by_qmd(client)
        back_s = time.perf_counter() - started
    late = sum(one * 1000 > TIMEOUT_MS for one in latencies)
    table = Table(title="QMD killed every 2 s", title_justify="left", show_header=False)
    table.add_row("searches answered", f"{len(latencies)} of {SEARCHES}, {kills[0] + 1} kills")
    table.add_row("later than timeoutMs", str(late))
    table.add_row("answered by", ", ".join(f"{name}: {n}" for name, n in engines.most_common()))
    table.add_row("p50", f"{percentile(latencies, 0.5) * 1000:.1f} ms")
    table.add_row("longest", f"{max(latencies) * 1000:.0f} ms")
    table.add_row("back in service after the last kill", f"{back_s:.2f} s")
    return table


async def _kill(root: Path, kills: list[int]) -> None:
    while True:
        await anyio.sleep(KILL_EVERY_S)
        _kill_all(root)
        kills[0] += 1


def _kill_all(root: Path) -> None:
    for pid, _ in list(qmd_processes(root)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
