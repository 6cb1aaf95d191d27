"""QMD behind the `MemoryBackend` interface.

Owns the life of the engine: it is opened in the background and again after failures, so that neither a
missing nor a broken QMD keeps the gateway from starting. Reading files needs no QMD at all.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import anyio
import msgspec
import structlog
from anyio.to_thread import run_sync

from backends.files.get import READ_PATIENCE_S, NoteReads
from backends.interface import (
    BackendStatus,
    ProgressCallback,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SearchRequest,
    SyncReport,
    SyncRequest,
    Trial,
)
from backends.qmd.answering import Answerer
from backends.qmd.asking import ask, question_for
from backends.qmd.collections import plan_collections
from backends.qmd.engine import Engine
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.exporting import Exports
from backends.qmd.passages import of_rank
from backends.qmd.places import Places
from backends.qmd.reporting import report_status
from backends.qmd.sidecar import home_of, open_sidecar
from backends.transcripts.agents import AgentTranscripts
from config.runtime.bounded import BoundedWork
from config.runtime.tasks import Backoff, Wakeup
from config.settings import Settings, Source

_log = structlog.get_logger(__name__)

_ANSWERS_AT_ONCE: Final = 8
_REMEMBERED_SYNCS: Final = 10
_HARMLESS: Final = "memory"
"""A question whose answer does not matter."""


class QmdBackend:
    """The memory of one agent as QMD finds it. Make it with `open_qmd`."""

    def __init__(self, settings: Settings, environment: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._environment = environment
        planned = plan_collections(settings)
        exports = Exports(
            AgentTranscripts.of(settings), settings.qmd.sessions, home_of(settings).exports
        )
        self.places = Places(settings, planned, exports)
        self._answerer = Answerer(self.places, settings.qmd.limits)
        self._answering = BoundedWork("passages of qmd", _ANSWERS_AT_ONCE)
        self._reads = NoteReads()
        self._changed = Wakeup()
        self.engine: Engine | None = None
        """None until QMD has shown that it works."""
        self.failure = QmdUnavailableError("not_ready", "QMD is being started.")
        """Why there is no engine."""
        self.recent: deque[SyncReport] = deque(maxlen=_REMEMBERED_SYNCS)

    async def run(self) -> None:
        """Keeps an engine at work until cancelled."""
        pause = Backoff(2.0, 10.0, 600.0)
        while True:
            try:
                sidecar = await open_sidecar(self._settings, self._environment)
                engine = Engine(sidecar, self._settings.qmd, self.places, self._environment)
                await engine.run(ready=lambda: self._adopt(engine))  # noqa: B023 - called at once
            except QmdUnavailableError as error:
                self.failure = error
                _log.warning("qmd is not available", error=str(error), cause=error.cause)
            except Exception as fault:  # noqa: BLE001 - ours; it must not end the process that answers
                name = type(fault).__name__
                self.failure = QmdUnavailableError(
                    "broken", f"Internal fault ({name}); see the log."
                )
                _log.exception("qmd failed")
            finally:
                self.engine = None
            self._changed.fire()
            pause.failed()
            await anyio.sleep(pause.left_s)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Raises QmdUnavailableError for every reason not to trust QMD's answer."""
        started = time.perf_counter()
        if not self._holds(request.sources):
            raise QmdUnavailableError("not_ready", "QMD holds no session transcripts.")
        timeout_s = self._settings.qmd.limits.timeout_ms / 1000
        try:
            with anyio.fail_after(timeout_s):
                engine = await self._ready_engine()
                left_s = max(0.05, timeout_s - (time.perf_counter() - started))
                return await self._search(engine, request, left_s)
        except TimeoutError:
            raise QmdUnavailableError(
                "timeout", f"QMD did not answer within {timeout_s:g} s."
            ) from None

    async def _search(
        self, engine: Engine, request: SearchRequest, timeout_s: float
    ) -> SearchAnswer:
        started = time.perf_counter()
        question = question_for(request.query, engine.search_mode)
        if question is None:
            return SearchAnswer(hits=(), outcome="empty", mode="keyword", backend="qmd")
        collections = engine.upkeep.searched(request.sources)
        rows = (
            await ask(engine.server, question, collections, timeout_s=timeout_s)
            if collections
            else []
        )
        asked = time.perf_counter()
        seen, by_model = engine.upkeep.seen, question.mode != "keyword"
        if question.mode == "vector":
            rows = [row._replace(score=of_rank(row.score)) for row in rows]
        try:
            answer = await self._answering.run(
                lambda: self._answerer.answer(request, rows, seen, by_model=by_model),
                READ_PATIENCE_S,
                queue_s=READ_PATIENCE_S,
            )
        except TimeoutError:
            message = f"The files that QMD found were not read within {READ_PATIENCE_S:g} s."
            raise QmdUnavailableError("timeout", message) from None
        if answer.changed:
            engine.schedule.request()
        return SearchAnswer(
            hits=answer.hits,
            outcome="ok" if answer.hits else "empty",
            mode=question.mode,
            backend="qmd",
            provider="qmd",
            model=engine.sidecar.models.get("embed") if by_model else None,
            stale=answer.stale,
            warning=engine.warning,
            timings_ms={
                "qmd": round((asked - started) * 1000, 2),
                "passages": round((time.perf_counter() - asked) * 1000, 2),
            },
        )

    async def read(self, request: ReadRequest) -> ReadAnswer:
        return await self._reads.run(self.places.read, request)

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport:
        """One whole round of upkeep. Raises QmdUnavailableError."""
        del progress  # QMD tells nothing while it works
        engine = self._engine()
        started = time.perf_counter()
        counts = await engine.schedule.round(request.reason, force=request.force)
        report = SyncReport(
            reason=request.reason,
            scanned=counts.added + counts.changed + counts.unchanged,
            added=counts.added,
            changed=counts.changed,
            removed=counts.removed,
            unchanged=counts.unchanged,
            skipped=(),
            chunks_written=0,
            bytes_read=0,
            duration_ms=round((time.perf_counter() - started) * 1000, 2),
            complete=True,
            error=engine.schedule.embed_error,
        )
        self.recent.appendleft(report)
        return report

    def sync_later(self) -> None:
        """Asks for an update soon; never waits, and does nothing while there is no QMD."""
        if self.engine is not None:
            self.engine.schedule.request()

    async def status(self) -> BackendStatus:
        return await run_sync(
            partial(
                report_status,
                self._settings,
                self.places,
                self.engine,
                failure=self.failure,
                recent=tuple(self.recent),
            )
        )

    async def weaknesses(self) -> tuple[str, ...]:
        """Why QMD does not answer at present, if so."""
        return (str(self.failure),) if self.engine is None else ()

    async def try_out(self, timeout_s: float) -> Trial:
        """One small question to QMD, once it has started; see `MemoryBackend.try_out`."""
        started = time.perf_counter()
        trial = Trial(part="qmd", outcome="failed", detail=f"No answer within {timeout_s:g} s.")
        try:
            with anyio.move_on_after(timeout_s):
                engine = await self._started_engine()
                await self._search(engine, SearchRequest(query=_HARMLESS), timeout_s)
                detail = f"QMD {engine.sidecar.program.version_text} answered."
                trial = Trial(part="qmd", outcome="ok", detail=detail)
        except QmdUnavailableError as error:
            trial = Trial(part="qmd", outcome="failed", detail=error.message, remedy=error.remedy)
        return msgspec.structs.replace(trial, ms=round((time.perf_counter() - started) * 1000, 1))

    async def settle(self, timeout_s: float) -> None:
        """Waits until QMD can answer, or is known not to; no longer than the timeout."""
        with anyio.move_on_after(timeout_s), suppress(QmdUnavailableError):
            await self._started_engine()

    async def _started_engine(self) -> Engine:
        """Waits for the first start to end, well or not. Raises QmdUnavailableError."""
        while self.engine is None and self.failure.cause == "not_ready":
            await self._changed.wait()
        engine = self._engine()
        if not engine.index_is_kept:
            await engine.schedule.updated.wait()
        await engine.server.tried.wait()
        return engine

    def _holds(self, sources: Sequence[Source] | None) -> bool:
        held = {one.source for one in self.places.roots.collections}
        return sources is None or not held.isdisjoint(sources)

    def _adopt(self, engine: Engine) -> None:
        self.engine = engine
        self._changed.fire()

    def _engine(self) -> Engine:
        if self.engine is None:
            raise self.failure
        return self.engine

    async def _ready_engine(self) -> Engine:
        """The engine, if its index is worth asking; with `waitForBootSync` it waits for the start."""
        waits = self._settings.qmd.update.wait_for_boot_sync
        engine = await self._started_engine() if waits else self._engine()
        reason = engine.why_not_ready()
        if reason is not None:
            raise QmdUnavailableError("not_ready", reason)
        return engine


@asynccontextmanager
async def open_qmd(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> AsyncIterator[QmdBackend]:
    """Opens QMD in the background; it answers when it is ready and never keeps anybody waiting."""
    backend = QmdBackend(settings, environment)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(backend.run)
        try:
            yield backend
        finally:
            tasks.cancel_scope.cancel()
