"""A backend that is counted: every search and every sync, whoever asked for it.

Owns nothing but the counting; what the backend answers and raises goes through unchanged.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from backends.interface import (
    BackendStatus,
    MemoryBackend,
    ProgressCallback,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SearchRequest,
    SyncReport,
    SyncRequest,
    Trial,
)
from config.errors import MemoryGatewayError
from gateway.metrics.measures import Metrics


class MeteredBackend:
    def __init__(self, backend: MemoryBackend, metrics: Metrics, name: str) -> None:
        self._backend = backend
        self._metrics = metrics
        self._name = name

    async def search(self, request: SearchRequest) -> SearchAnswer:
        started = time.perf_counter()
        try:
            answer = await self._backend.search(request)
        except MemoryGatewayError:
            self._metrics.search_failed(self._name)
            raise
        self._metrics.searched(answer, time.perf_counter() - started)
        return answer

    async def read(self, request: ReadRequest) -> ReadAnswer:
        return await self._backend.read(request)

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport:
        try:
            report = await self._backend.sync(request, progress=progress)
        except MemoryGatewayError:
            self._metrics.sync_failed()
            raise
        self._metrics.synced(report)
        return report

    async def transcript_grew(self, reference: str) -> bool:
        return await self._backend.transcript_grew(reference)

    async def status(self) -> BackendStatus:
        return await self._backend.status()

    async def weaknesses(self) -> tuple[str, ...]:
        return await self._backend.weaknesses()

    async def try_out(self, timeout_s: float) -> tuple[Trial, ...]:
        return await self._backend.try_out(timeout_s)


@asynccontextmanager
async def metered(
    opening: AbstractAsyncContextManager[MemoryBackend], metrics: Metrics, name: str
) -> AsyncIterator[MemoryBackend]:
    async with opening as backend:
        yield MeteredBackend(backend, metrics, name)
