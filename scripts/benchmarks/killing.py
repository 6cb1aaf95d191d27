"""Kills the gateway with SIGKILL at random instants, and looks at what that did to its index.

Each round starts the real process on what the last one left, times its first answer, lets it index edits,
rebuild or search, and kills it. Afterwards nothing published may be lost and no text paid twice.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.index_files import look_into, rows
from benchmarks.notes import NoteWriter
from benchmarks.scoring import percentile
from config.errors import MemoryGatewayError
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

FILES: Final = 120
EDITS: Final = 6
STABLE: Final = "memory/stable.md"
WORDS: Final = "the lighthouse keeper of the northern reef"
_PATIENCE_S: Final = 60.0
EARLY: Final = 0.2
"""The share of rounds that are killed while the process starts."""


@dataclass
class Losses:
    """What all rounds together did. The lists of faults have to be empty."""

    damaged: list[str] = field(default_factory=list)
    lost_files: list[str] = field(default_factory=list)
    paid_again: list[str] = field(default_factory=list)
    """Texts that were embedded again although their vector was stored when the process was killed."""
    wrong_answers: list[str] = field(default_factory=list)
    kept: int = 0
    """Texts that were embedded and stored before the process was killed."""
    in_flight: int = 0
    """Texts that were embedded and not stored yet when the process was killed."""
    first_answers_s: list[float] = field(default_factory=list)

    def faults(self) -> list[str]:
        return [*self.damaged, *self.lost_files, *self.paid_again, *self.wrong_answers]


class Victim:
    """One agent with notes that are edited between the rounds, and a host that embeds them."""

    def __init__(self, root: Path, host: FakeVendor, seed: int, *, embeds: bool) -> None:
        self.rng = Random(seed)
        self.workspace = root / "workspace"
        self.state = root / "state"
        self.index = self.state / "memory/main.memory-gateway.sqlite"
        self._host = host
        self._writer = NoteWriter(words=2000, seed=seed)
        self._paid = 0
        self.state.mkdir(parents=True)
        remote = {"baseUrl": host.base_url, "apiKey": host.key}
        search = {"provider": "openai" if embeds else "none", "remote": remote}
        config = {"agents": {"defaults": {"memorySearch": search}}}
        (self.state / "openclaw.json").write_text(json.dumps(config), encoding="utf-8")
        self._writer.workspace(self.workspace, FILES, bullets=20)
        (self.workspace / STABLE).write_text(f"# Stable\n\n- {WORDS}\n", encoding="utf-8")

    @property
    def arguments(self) -> list[str]:
        return [
            "--workspace", str(self.workspace), "--state-dir", str(self.state),
            "--config", str(self.state / "openclaw.json"), "--log-level", "error",
        ]  # fmt: skip

    def edit(self) -> None:
        for number in self.rng.sample(range(FILES), EDITS):
            day = date(2020, 1, 1) + timedelta(days=number)
            path = self.workspace / f"memory/{day.year}/{day.isoformat()}.md"
            draft = path.with_suffix(".tmp")
            draft.write_text(self._writer.note(day, 20), encoding="utf-8")
            draft.replace(path)

    def newly_paid(self) -> list[str]:
        """Texts that were embedded since this was last asked."""
        texts = self._host.embedded()
        new, self._paid = texts[self._paid :], len(texts)
        return new


async def _index(client: SpawnedGateway, victim: Victim) -> None:
    while True:
        victim.edit()
        await client.call("sync", {})


async def _rebuild(client: SpawnedGateway, _victim: Victim) -> None:
    while True:
        await client.call("sync", {"force": True})


async def _search(client: SpawnedGateway, victim: Victim) -> None:
    while True:
        victim.edit()
        await client.call("memory_search", {"query": WORDS})


WORK: Final[tuple[Callable[[SpawnedGateway, Victim], Awaitable[None]], ...]] = (
    _index, _rebuild, _search,
)  # fmt: skip


async def kill_once(victim: Victim, losses: Losses) -> None:
    """One life of the process, from its start to its violent end."""
    is_early = victim.rng.random() < EARLY
    work = victim.rng.choice(WORK)
    instant_s = victim.rng.uniform(0.0, 0.35 if is_early else 0.8)
    started = time.perf_counter()
    async with (
        spawn_gateway(victim.arguments, environment=dict(os.environ)) as client,
        anyio.create_task_group() as tasks,
    ):
        if not is_early:
            answer = await _first_answer(client)
            losses.first_answers_s.append(time.perf_counter() - started)
            if STABLE not in [hit["path"] for hit in answer["results"]]:
                losses.wrong_answers.append(f"{answer['outcome']}: {answer}")
        tasks.start_soon(_until_the_end, work, client, victim)
        await anyio.sleep(instant_s)
        client.process.kill()
        await client.process.wait()
        tasks.cancel_scope.cancel()


async def _first_answer(client: SpawnedGateway) -> Any:
    """The first that does not itself say that it may lack something."""
    with anyio.fail_after(_PATIENCE_S):
        while True:
            answer: Any = await client.call(
                "memory_search", {"query": WORDS}, timeout_s=_PATIENCE_S
            )
            if not answer.get("stale"):
                return answer


async def _until_the_end(
    work: Callable[[SpawnedGateway, Victim], Awaitable[None]],
    client: SpawnedGateway,
    victim: Victim,
) -> None:
    try:
        await work(client, victim)
    except MemoryGatewayError:
        return  # it was killed


async def kill_again_and_again(
    root: Path, rounds: int, *, seed: int = 1, embeds: bool = True
) -> Losses:
    """So many lives of one agent, and a comparison with an index that was never killed."""
    losses = Losses()
    with FakeVendor("openai", delay_s=0.02, max_items=32) as host:
        victim = Victim(root, host, seed, embeds=embeds)
        before = look_into(victim.index)
        for number in range(rounds):
            await kill_once(victim, losses)
            after = look_into(victim.index)
            paid = victim.newly_paid()
            losses.damaged += [f"round {number}: {fault}" for fault in after.faults]
            losses.lost_files += [
                f"round {number}: {path}" for path in before.files if path not in after.files
            ]
            losses.paid_again += [
                f"round {number}: {text!r}" for text in set(paid) & before.embedded
            ]
            losses.kept += len(set(paid) & after.embedded)
            losses.in_flight += len(set(paid) - after.embedded)
            before = after
        set_aside = [path.name for path in victim.index.parent.iterdir() if "damaged" in path.name]
        losses.damaged += set_aside
        fresh = root / "fresh"
        fresh.mkdir()
        (fresh / "openclaw.json").write_text("{}", encoding="utf-8")
        await _compare(victim, fresh, losses)
    return losses


async def _compare(victim: Victim, state: Path, losses: Losses) -> None:
    fresh = ["--workspace", str(victim.workspace), "--state-dir", str(state)]
    fresh += ["--config", str(state / "openclaw.json")]
    for options in (victim.arguments, fresh):
        async with spawn_gateway(options, environment=dict(os.environ)) as client:
            await client.call("sync", {}, timeout_s=120)
    if rows(victim.index) != rows(state / "memory/main.memory-gateway.sqlite"):
        losses.damaged.append("the index differs from one that was never killed")


def show(losses: Losses, rounds: int, console: Console) -> None:
    table = Table(title=f"{rounds} times SIGKILL", title_justify="left")
    for column in (
        "damaged", "published files lost", "paid again", "wrong answers", "stored", "in flight, at most",
        "first answer p50", "first answer max",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    table.add_row(
        str(len(losses.damaged)),
        str(len(losses.lost_files)),
        str(len(losses.paid_again)),
        str(len(losses.wrong_answers)),
        str(losses.kept),
        str(losses.in_flight),
        f"{percentile(losses.first_answers_s, 0.5):.2f} s",
        f"{max(losses.first_answers_s):.2f} s",
    )
    console.print(table)
    for fault in losses.faults()[:20]:
        console.print(fault[:500])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keyword", action="store_true", help="without embeddings")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        losses = anyio.run(
            partial(
                kill_again_and_again,
                Path(root), options.rounds, seed=options.seed, embeds=not options.keyword,
            )
        )  # fmt: skip
    show(losses, options.rounds, Console(width=120))
    sys.exit(bool(losses.faults()))


if __name__ == "__main__":
    main()
