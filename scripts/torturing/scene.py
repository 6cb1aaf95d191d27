"""What one run of a cell is played with: the subject, its gateway at this moment, and what was seen.

Owns how an answer is judged. A right answer holds the note that never changes; one without it has to
say why: an error, or that it is stale. Everything else is wrong, an empty answer most of all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio

from config.errors import ErrorKind, MemoryGatewayError
from gateway.client import Client, RemoteError, SpawnedGateway, spawn_gateway
from torturing.subject import QUERY, SENTENCE, STABLE, Subject

ANSWER_S: Final = 60.0
"""How long anything may take before it counts as hanging."""
_PAUSE_S: Final = 0.02


@dataclass
class Launch:
    """What is put around the next start of the gateway."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Scene:
    subject: Subject
    rng: Random
    number: int
    """Of the run, from 0; faults with variants take turns by it."""
    column: int = 0
    """Of the activity in the matrix: a row as a whole then meets every variant."""
    launch: Launch = field(default_factory=Launch)
    client: SpawnedGateway | None = None
    failures: list[str] = field(default_factory=list)
    usual_limits: tuple[int, int] | None = None
    """Of descriptors, while they are taken away."""
    params: dict[str, str] = field(default_factory=dict)
    """What every search says besides."""
    refetched: int = 0
    """How often a model may have to be fetched anew, since what its hub did leaves nothing else."""
    kills: int = 0
    answers: int = 0
    honest: int = 0
    """Answers that could not be whole and said so."""

    @property
    def gateway(self) -> SpawnedGateway:
        assert self.client is not None
        return self.client

    @property
    def pid(self) -> int:
        return self.gateway.process.pid

    @property
    def is_alive(self) -> bool:
        return self.client is not None and self.client.process.returncode is None

    @asynccontextmanager
    async def started(self) -> AsyncIterator[SpawnedGateway]:
        """A gateway of the subject, with what the fault wants around it."""
        subject = self.subject
        async with spawn_gateway(
            subject.arguments,
            patience_s=ANSWER_S,
            environment={**subject.environment, **self.launch.environment},
            command=(*self.launch.prefix, *subject.command),
        ) as client:
            self.client = client
            try:
                yield client
            finally:
                self.client = None

    def kill(self, pid: int | None = None) -> None:
        """SIGKILL, counted."""
        with suppress(ProcessLookupError):
            os.kill(self.pid if pid is None else pid, signal.SIGKILL)
            self.kills += 1

    def fail(self, what: str) -> None:
        self.failures.append(what)

    async def ask(self, client: Client | None = None) -> bool:
        """Asks for the note that never changes; whether it was found. A wrong answer is a failure.

        That a guest reaches no owner for a while, as when twenty start at once, is an honest answer.
        """
        params = {"query": QUERY, **self.params}
        try:
            answer = await (client or self.gateway).call(
                "memory_search", params, timeout_s=ANSWER_S
            )
        except RemoteError as error:
            if client is None or error.kind is not ErrorKind.INDEX_UNAVAILABLE:
                raise
            answer = {"results": [], "error": str(error)}
        self.answers += 1
        if any(hit["path"] == STABLE and SENTENCE in hit["snippet"] for hit in answer["results"]):
            return True
        self.honest += 1
        if not (answer.get("stale") or answer.get("error")):
            self.fail(f"wrong answer: {_shortened(answer)}")
        return False

    async def keep_asking(self) -> None:
        """Until the gateway is gone. Errors are honest as long as the fault lasts."""
        while True:
            try:
                await self.ask()
            except MemoryGatewayError as error:
                if not self.is_alive:
                    return
                if "did not answer" in str(error):
                    self.fail(f"hangs: {error}")
                    return
                self.honest += 1
            await anyio.sleep(_PAUSE_S)

    async def until_right(self, since: float, *, may_end: bool = False) -> float | None:
        """Seconds since then to the first right answer of a living gateway; None: none came."""
        last = "no answer"
        while time.perf_counter() < since + ANSWER_S:
            try:
                if await self.ask():
                    return time.perf_counter() - since
            except MemoryGatewayError as error:
                last = str(error)
                if not self.is_alive and may_end:
                    return None
                if not self.is_alive:
                    break
            await anyio.sleep(_PAUSE_S)
        self.fail(f"not recovered: {last[-600:]}")
        return None

    def left_behind(self) -> list[int]:
        """Processes that belong to the subject."""
        mark = os.fsencode(self.subject.root)
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if (
                        mark in (entry / "cmdline").read_bytes()
                        or mark in (entry / "environ").read_bytes()
                    ):
                        found.append(int(entry.name))
        return found


def _shortened(answer: Mapping[str, Any]) -> str:
    paths = [hit["path"] for hit in answer["results"]]
    rest = {key: value for key, value in answer.items() if key not in {"results", "timings"}}
    return f"{paths[:5]} {rest}"[:500]
