"""Ten gateways of ten agents on one machine: their embedding runs, collections and processes."""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
from rich.table import Table

from benchmarks.notes import NoteWriter
from benchmarks.qmd_home import PATIENCE_S, qmd_processes, qmd_settings, qmd_status, write_home
from fakes.gguf import write_embedder
from gateway.client import SpawnedGateway, spawn_gateway

AGENTS = 10
NOTES, BULLETS = 2, 4
SAMPLE_EVERY_S = 0.02


class _Agents:
    """The homes of all agents below one directory, and the variables that they share."""

    def __init__(self, root: Path, command: str) -> None:
        self.root = root
        runtime = root / "runtime"
        runtime.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "XDG_RUNTIME_DIR": str(runtime),
            "QMD_EMBED_MODEL": str(write_embedder(root / "embed.gguf")),
            "QMD_FORCE_CPU": "1",
        }
        self._settings = qmd_settings(command, searchMode="vsearch")
        self.most_embedding = 0

    def arguments(self, number: int) -> list[str]:
        workspace = self.root / f"workspace-{number}"
        return [*write_home(self.root / f"a{number}", workspace, self._settings)]

    def collections(self) -> dict[str, Any]:
        return {
            str(file.relative_to(self.root)): json.loads(file.read_bytes())["collections"]
            for file in sorted(self.root.glob("a*/memory-gateway/*/qmd/xdg-config/qmd/index.yml"))
        }

    def processes(self) -> list[tuple[int, str]]:
        return list(qmd_processes(self.root))

    async def watch(self) -> None:
        while True:
            seen = [pid for pid, line in self.processes() if " embed " in f"{line} "]
            # One may have ended while the others were looked for; helpers are in the group of theirs.
            groups = {group for pid in seen if (group := _group(pid)) is not None}
            self.most_embedding = max(self.most_embedding, len(groups))
            await anyio.sleep(SAMPLE_EVERY_S)


def _group(pid: int) -> int | None:
    """None for a process that is gone or has ended."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if state[0] in "ZX" else int(state[2])
    return None


async def ten_agents(command: str, root: Path) -> Table:
    """Starts all at once, kills all, starts one again."""
    agents = _Agents(root, command)
    for number in range(AGENTS):
        NoteWriter(seed=number).workspace(root / f"workspace-{number}", NOTES, BULLETS)
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        tasks.start_soon(agents.watch)
        started = [
            await stack.enter_async_context(
                spawn_gateway(agents.arguments(number), environment=agents.environment)
            )
            for number in range(AGENTS)
        ]
        async with anyio.create_task_group() as waiting:
            for client in started:
                waiting.start_soon(_embedded, client)
        before, running = agents.collections(), len(agents.processes())
        for client in started:
            client.process.kill()
        tasks.cancel_scope.cancel()
    async with spawn_gateway(agents.arguments(0), environment=agents.environment) as client:
        await _embedded(client)
        own = str(root / "a0/")
        strangers = [
            pid for pid, _ in agents.processes() if pid not in dict(qmd_processes(Path(own)))
        ]
        after = agents.collections()
    table = Table(
        title=f"{AGENTS} gateways of {AGENTS} agents", title_justify="left", show_header=False
    )
    table.add_row("`embed` runs at one time, at most", str(agents.most_embedding))
    table.add_row("collections before the kill", str(sum(map(len, before.values()))))
    table.add_row("the same after it", str(before == after))
    table.add_row("QMD processes before the kill", str(running))
    table.add_row("of the other nine after one restart", str(len(strangers)))
    return table


async def _embedded(client: SpawnedGateway) -> None:
    with anyio.fail_after(PATIENCE_S):
        while (await qmd_status(client)).get("lastEmbedSecondsAgo") is None:  # noqa: ASYNC110 - another process sets no event
            await anyio.sleep(0.1)
