"""One soak: a real gateway, everybody who uses it at the same time, and a fresh index to compare with.

Owns the order of things. Who does what is in `keeping`, `talking`, `operating` and `flapping`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from backends.builtin.storage.moving import lock_path
from benchmarks.notes import NoteWriter
from fakes.embedding import embedded
from fakes.vendors import FakeVendor
from gateway.client import Client, SpawnedGateway, connect, spawn_gateway
from gateway.ownership.sockets import reach_owner
from soaking.comparing import differences
from soaking.findings import Findings
from soaking.flapping import flap
from soaking.keeping import Keeper
from soaking.notes import Notes
from soaking.operating import Operator
from soaking.pace import Pace
from soaking.sampling import Sample, Sampler
from soaking.talking import Talker

KEEPERS: Final = 3
_BULLETS: Final = 12
_LONG_S: Final = 600.0
_PATIENT_S: Final = 60.0
"""How long an orderly end may take on a machine that is busy with something else."""


@dataclass(frozen=True)
class Plan:
    """`pace` is that of the keepers; the others go slower by these factors."""

    pace: Pace
    others: Pace
    flaps: Pace
    samples: Pace
    quiet_notes: int = 150
    """That nobody touches."""
    seed: int = 1


@dataclass(frozen=True)
class Outcome:
    findings: Findings
    samples: Sequence[Sample]
    database_bytes: int
    fresh_bytes: int
    """Of an index of the same files that was made just now."""
    exit_code: int | None


class Place:
    """Where one gateway lives."""

    def __init__(self, root: Path, workspace: Path) -> None:
        self.root = root
        self.workspace = workspace
        self.config = root / "openclaw.json"
        self.index = root / "memory/main.memory-gateway.sqlite"
        self.sessions = root / "agents/main/sessions"
        root.mkdir(parents=True)

    @property
    def lock(self) -> Path:
        return lock_path(self.index)

    def gateway(self) -> Any:
        kept: Mapping[str, str] = {
            name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ
        }
        options = ["--config", str(self.config), "--workspace", str(self.workspace)]
        options += ["--state-dir", str(self.root), "--log-level", "error"]
        environment = {**kept, "HOME": str(self.root)}
        return spawn_gateway(options, environment=environment, patience_s=_PATIENT_S)


async def soak(root: Path, plan: Plan) -> Outcome:
    findings = Findings()
    place = Place(root / "state", root / "workspace")
    NoteWriter(seed=plan.seed).workspace(place.workspace, plan.quiet_notes, _BULLETS)
    with FakeVendor("openai") as vendor:
        rng = Random(plan.seed)
        operator = Operator(place.config, place.workspace, vendor, findings, rng)
        async with place.gateway() as client:
            await client.call("sync", {}, timeout_s=_LONG_S)
            await embedded(client, _LONG_S)
            sampler = Sampler(client.process.pid, place.index)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_sample, sampler, plan.samples)
                tasks.start_soon(flap, vendor, findings, plan.flaps, Random(plan.seed))
                _use(tasks, client, place, operator, findings, plan)
            await _settle(operator, client)
        exit_code = client.process.returncode
        fresh = await _fresh_index(root / "fresh", place)
    findings.wrong += differences(place.index, fresh)
    return Outcome(
        findings,
        sampler.samples,
        place.index.stat().st_size,
        fresh.stat().st_size,
        exit_code,
    )


def _use(
    tasks: TaskGroup, pipe: Client, place: Place, operator: Operator, findings: Findings, plan: Plan
) -> None:
    talker = Talker(place.sessions, findings, Random(plan.seed))
    keepers = [
        Keeper(Notes(place.workspace, f"keeper-{number}", plan.seed), place.lock, findings)
        for number in range(KEEPERS)
    ]
    tasks.start_soon(keepers[0].keep_over, pipe, plan.pace)
    for keeper in keepers[1:]:
        tasks.start_soon(keeper.keep, plan.pace)
    for work in (talker.talk, operator.operate):
        tasks.start_soon(_with_a_connection, place, work, plan.others)


async def _with_a_connection(place: Place, work: Any, pace: Pace) -> None:
    stream = await reach_owner(place.lock)
    async with connect(stream, stream) as client:
        await work(client, pace)


async def _sample(sampler: Sampler, pace: Pace) -> None:
    async for _ in pace():
        sampler.take()


async def _settle(operator: Operator, client: SpawnedGateway) -> None:
    """The usual settings, every file indexed, every text embedded."""
    operator.configure()
    await client.call("reload", timeout_s=_LONG_S)
    await client.call("sync", {}, timeout_s=_LONG_S)
    await embedded(client, _LONG_S)


async def _fresh_index(root: Path, place: Place) -> Path:
    fresh = Place(root, place.workspace)
    shutil.copy(place.config, fresh.config)
    shutil.copytree(place.sessions, fresh.sessions)
    async with fresh.gateway() as client:
        await client.call("sync", {}, timeout_s=_LONG_S)
        await embedded(client, _LONG_S)
    return fresh.index
