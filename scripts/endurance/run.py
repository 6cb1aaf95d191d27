"""One run of a cell: the agent, its gateway at this moment, and what was seen.

A right answer contains the note that never changes; one without it has to say why: an error, or that it is
stale. Every other answer is wrong, also an empty one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import anyio

from config.errors import ErrorKind, MemoryGatewayError
from endurance.agent import ANSWER_S, OTHER_QUERIES, QUERY, SENTENCE, STABLE, Agent
from endurance.processes import processes_of
from gateway.client import GatewayClient, RemoteError, SpawnedGateway

_PAUSE_S: Final = 0.02
_PAYING_S: Final = 10.0


@dataclass
class Launch:
    """The prefix and the variables of the next start of the gateway."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Run:
    agent: Agent
    rng: Random
    number: int
    """The number from 0, by which faults with variants choose one."""
    activity: str = ""
    column: int = 0
    """The column of the activity in the matrix, so that a whole row meets every variant."""
    launch: Launch = field(default_factory=Launch)
    client: SpawnedGateway | None = None
    failures: list[str] = field(default_factory=list)
    usual_limits: tuple[int, int] | None = None
    """The usual limits of descriptors, while they are lowered."""
    params: dict[str, str] = field(default_factory=dict)
    """Further parameters of every search."""
    refetched: int = 0
    """The number of times that a model may have to be fetched again because of its hub."""
    stored_texts: frozenset[str] = frozenset()
    """The texts whose vector was stored at the last check."""
    paid_before: int = 0
    """The number of texts that had been embedded by then."""
    stored: int = 0
    """Texts that were embedded in this run and were stored when the fault was over."""
    has_answered: bool = False
    """True once there was a right answer in this run."""
    kills: int = 0
    answers: int = 0
    incomplete: int = 0
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
        """Runs a gateway of the agent, launched as the fault needs it."""
        launch = self.launch
        async with self.agent.gateway(launch.prefix, launch.environment) as client:
            self.client = client
            try:
                yield client
            finally:
                self.client = None

    def kill(self, pid: int | None = None) -> None:
        """Sends SIGKILL, and counts it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid if pid is None else pid, signal.SIGKILL)
            self.kills += 1

    def fail(self, what: str) -> None:
        self.failures.append(what)

    async def ask(self, client: GatewayClient | None = None) -> bool:
        """Asks for the note that never changes; returns whether it was found. A wrong answer is a failure.

        If a guest reaches no owner for a while, as when twenty start at once, the answer counts as incomplete.
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
            self.has_answered = True
            return True
        self.incomplete += 1
        if not (answer.get("stale") or answer.get("error")):
            self.fail(f"wrong answer: {_shortened(answer)}")
        return False

    async def keep_asking(self) -> None:
        """Asks until the gateway is gone. Errors are allowed as long as the fault lasts."""
        while True:
            try:
                await self.ask()
            except MemoryGatewayError as error:
                if not self.is_alive:
                    return
                if "did not answer" in str(error):
                    self.fail(f"hangs: {error}")
                    return
                self.incomplete += 1
            await anyio.sleep(_PAUSE_S)

    async def until_answered(self) -> None:
        """Waits until `keep_asking` got a right answer, or the gateway is gone."""
        with anyio.move_on_after(ANSWER_S):
            while True:
                if self.has_answered or not self.is_alive:
                    return
                await anyio.sleep(_PAUSE_S)

    async def until_paid(self) -> None:
        """Waits until a text of a note was embedded, none seems to be left to embed, or the gateway is gone."""
        with anyio.move_on_after(_PAYING_S):
            while True:
                if not self.is_alive or set(self.paid()).difference((QUERY, *OTHER_QUERIES)):
                    return
                await anyio.sleep(_PAUSE_S)

    async def until_right(self, since: float, *, may_end: bool = False) -> float | None:
        """Returns the seconds since then to the first right answer of a living gateway; None if none came."""
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

    def note_what_is_stored(self, texts: frozenset[str]) -> None:
        """Records the stored texts: from here on the host must not be asked for them."""
        self.stored_texts = texts
        self.paid_before += len(self.paid())

    def paid(self) -> list[str]:
        """Returns the texts that were embedded since then."""
        host = self.agent.host
        return host.embedded()[self.paid_before :] if host else []

    def paid_again(self) -> set[str]:
        """Returns those of them whose vector was stored."""
        return self.stored_texts & set(self.paid())

    def left_behind(self) -> list[int]:
        """Returns the processes that belong to the agent."""
        return processes_of(str(self.agent.root))


def _shortened(answer: Mapping[str, Any]) -> str:
    paths = [hit["path"] for hit in answer["results"]]
    rest = {key: value for key, value in answer.items() if key not in {"results", "timings"}}
    return f"{paths[:5]} {rest}"[:500]
