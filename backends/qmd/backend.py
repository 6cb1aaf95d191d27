"""QMD behind the `MemoryBackend` interface, its status, and running QMD by hand."""

from __future__ import annotations

import os
import shlex
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import anyio
import msgspec
from anyio.to_thread import run_sync

from backends.files.reading import READ_PATIENCE_S, NoteReads
from backends.files.scan import scan
from backends.interface import (
    BackendStatus,
    Details,
    ProgressCallback,
    QmdDetails,
    QmdServer,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SearchRequest,
    SourceCount,
    SyncReport,
    SyncRequest,
    Trial,
)
from backends.qmd.answering import Answerer, QmdAnswer, of_rank
from backends.qmd.collections import CollectionPlaces, Exports, plan_collections
from backends.qmd.engine import AWAY_PAUSE_S, Away, Engine
from backends.qmd.process import NEUTRAL_DIRECTORY, QmdUnavailableError, embed_lock
from backends.qmd.server import ResultRow, ask, question_for
from backends.qmd.sidecar import home_of, open_sidecar, qmd_command, qmd_environment
from backends.transcripts.agent_transcripts import AgentTranscripts
from config.runtime.files import lock_within, open_lock, try_lock
from config.runtime.logs import Log
from config.runtime.tasks import Backoff, BoundedWork, Wakeup, background_tasks
from config.settings import Settings, Source

_COUNTED: Final = """
    SELECT collection, count(*), sum(vectors) FROM (
        SELECT collection,
               (SELECT count(*) FROM content_vectors v WHERE v.hash = d.hash) AS vectors
        FROM documents d WHERE active = 1
    ) GROUP BY collection
"""
_log = Log()


def report_status(
    settings: Settings,
    places: CollectionPlaces,
    engine: Engine | None,
    failure: QmdUnavailableError,
    recent: tuple[SyncReport, ...],
) -> BackendStatus:
    """Reports the state of QMD and never raises for it. `failure`: the reason why there is no engine."""
    index = home_of(settings).index
    result = scan(places.roots)
    now = places.seen_by_qmd(result.files)
    counts, trouble = _counts(index)
    seen = engine.upkeep.seen if engine else {}
    unknown = {name for name, one in now.items() if seen.get(name) != one}
    gone = len(seen.keys() - now.keys())
    model = engine is not None and engine.search_mode != "search"
    skipped_of: dict[Source, int] = {"memory": result.skipped_count + len(result.files) - len(now)}
    skipped_of |= {
        one.source: 0 for one in places.roots.collections if one.source not in skipped_of
    }
    issues = [str(failure)] if engine is None else _issues(engine)
    return BackendStatus(
        backend="qmd",
        provider="qmd",
        model=engine.models.get("embed") if engine and model else None,
        workspace=str(settings.workspace),
        database_path=str(index),
        database_bytes=_size(index),
        sources=tuple(
            _count_source(one, skipped, places, now, unknown, counts)
            for one, skipped in skipped_of.items()
        ),
        skipped=result.skipped,
        dirty=bool(unknown or gone),
        syncing=None,
        recent_syncs=recent,
        issues=(*issues, *([trouble] if trouble else []), *places.exports.issues, *result.issues),
        details=Details(qmd=_details(settings, engine)),
    )


def _issues(engine: Engine) -> list[str]:
    server, schedule = engine.server, engine.schedule
    said = [
        engine.warning,
        schedule.last_error,
        schedule.embed_error,
        server.last_error if server.port is None else None,
    ]
    return [*engine.upkeep.registered.issues, *(one for one in said if one)]


def _details(settings: Settings, engine: Engine | None) -> QmdDetails:
    there = QmdDetails(
        available=engine is not None,
        command=settings.qmd.command,
        home=str(home_of(settings).root),
        search_mode=settings.qmd.search_mode,
    )
    if engine is None:
        return there
    schedule, server = engine.schedule, engine.server
    return msgspec.structs.replace(
        there,
        version=engine.sidecar.program.version_text,
        runs=tuple(engine.sidecar.program.command.by_hand),
        effective_search_mode=engine.search_mode,
        missing_models=tuple(engine.missing_models),
        collections=tuple(sorted(engine.upkeep.registered.names)),
        running=schedule.running,
        last_update_seconds_ago=_ago(schedule.updated_at),
        last_embed_seconds_ago=_ago(schedule.embedded_at),
        last_error=schedule.last_error or schedule.embed_error,
        next_try_in_seconds=round(schedule.pause_left_s, 1),
        server=QmdServer(
            warm=server.port is not None,
            pid=server.pid,
            port=server.port,
            starts=server.starts,
            memory_bytes=server.memory_bytes,
            last_error=server.last_error,
        ),
    )


def _ago(moment: float | None) -> float | None:
    return None if moment is None else round(time.monotonic() - moment, 1)


class _Counts(NamedTuple):
    """The counts of one collection, as QMD's index has them."""

    documents: int
    vectors: int


def _count_source(
    source: Source,
    skipped: int,
    places: CollectionPlaces,
    now: Collection[str],
    unknown: Collection[str],
    counts: Mapping[str, _Counts],
) -> SourceCount:
    names = [one.name for one in places.roots.collections if one.source == source]
    found = [counts[name] for name in names if name in counts]
    return SourceCount(
        source=source,
        on_disk=sum(places.source_of(name) == source for name in now),
        indexed=sum(one.documents for one in found),
        pending=sum(places.source_of(name) == source for name in unknown),
        skipped=skipped,
        chunks=sum(one.vectors for one in found),
    )


def _counts(index: Path) -> tuple[Mapping[str, _Counts], str | None]:
    """Returns the counts of each collection, and what prevented the counting."""
    import apsw  # noqa: PLC0415 - only status reads the index itself

    if not index.exists():
        return {}, None
    try:
        with closing(apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(1000)
            rows: Any = connection.execute(_COUNTED).fetchall()
    except apsw.Error as error:
        return {}, f"QMD's index cannot be read: {error}."
    return {name: _Counts(documents, vectors) for name, documents, vectors in rows}, None


def _size(index: Path) -> int:
    files = [index, index.with_name(index.name + "-wal")]
    return sum(one.stat().st_size for one in files if one.exists())


_ANSWERS_AT_ONCE: Final = 8
_REMEMBERED_SYNCS: Final = 10
_HARMLESS: Final = "memory"
"""A question whose answer does not matter."""


class QmdBackend:
    """The memory of one agent as QMD finds it. Make it with `open_qmd`."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str] = os.environ,
        *,
        away: Away | None = None,
    ) -> None:
        """`away`: see `open_qmd`."""
        self._away = away or _nothing_away
        self._settings = settings
        self._environment = environment
        planned = plan_collections(settings)
        exports = Exports(
            AgentTranscripts.of(settings), settings.qmd.sessions, home_of(settings).exports
        )
        self.places = CollectionPlaces(settings, planned, exports)
        self._answerer = Answerer(self.places, settings.qmd.limits)
        self._answering = BoundedWork("passages of qmd", _ANSWERS_AT_ONCE)
        self._reads = NoteReads()
        self._changed = Wakeup()
        self.engine: Engine | None = None
        """The engine; None until QMD has shown that it works."""
        self.failure = _starting()
        """The reason why there is no engine."""
        self.recent: deque[SyncReport] = deque(maxlen=_REMEMBERED_SYNCS)

    async def run(self) -> None:
        """Keeps an engine at work until cancelled."""
        pause = Backoff(2.0, 10.0, 600.0)
        while True:
            try:
                await self._wait_for_places()
                sidecar = await open_sidecar(self._settings, self._environment)
                engine = Engine(
                    sidecar, self._settings.qmd, self.places, self._environment, away=self._away
                )
                await engine.run(ready=lambda: self._use(engine))  # noqa: B023 - called at once
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

    async def _wait_for_places(self) -> None:
        """Waits until the notes are there: QMD would forget the files that it cannot see."""
        while (reason := await self._away()) is not None:
            self.failure = QmdUnavailableError("away", f"QMD is not started: {reason}.")
            self._changed.fire()
            await anyio.sleep(AWAY_PAUSE_S)
            self.failure = _starting()

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Answers a search. Raises QmdUnavailableError for every reason not to trust QMD's answer."""
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
        rows: list[ResultRow] = []
        if collections:
            rows = await ask(engine.server, question, collections, timeout_s=timeout_s)
        asked = time.perf_counter()
        seen, by_model = engine.upkeep.seen, question.mode != "keyword"
        if question.mode == "vector":
            rows = [row._replace(score=of_rank(row.score)) for row in rows]
        answer = await self._passages(
            lambda: self._answerer.answer(request, rows, seen, by_model=by_model)
        )
        if answer.changed:
            engine.schedule.request()
        return SearchAnswer(
            hits=answer.hits,
            outcome="ok" if answer.hits else "empty",
            mode=question.mode,
            backend="qmd",
            provider="qmd",
            model=engine.models.get("embed") if by_model else None,
            stale=answer.stale,
            warning=engine.warning,
            timings_ms={
                "qmd": round((asked - started) * 1000, 2),
                "passages": round((time.perf_counter() - asked) * 1000, 2),
            },
        )

    async def _passages(self, read: Callable[[], QmdAnswer]) -> QmdAnswer:
        """Finds the passages. Raises QmdUnavailableError when the files are not read in time."""
        try:
            return await self._answering.run(read, READ_PATIENCE_S, queue_s=READ_PATIENCE_S)
        except TimeoutError:
            message = f"The files that QMD found were not read within {READ_PATIENCE_S:g} s."
            raise QmdUnavailableError("timeout", message) from None

    async def read(self, request: ReadRequest) -> ReadAnswer:
        return await self._reads.run(self.places.read, request)

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport:
        """Runs one whole round of upkeep. Raises QmdUnavailableError."""
        del progress  # QMD reports nothing while it works
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
        recent = tuple(self.recent)
        return await run_sync(
            report_status, self._settings, self.places, self.engine, self.failure, recent
        )

    async def weaknesses(self) -> tuple[str, ...]:
        """Returns the reason why QMD does not answer at present, if there is one."""
        return (str(self.failure),) if self.engine is None else ()

    async def try_out(self, timeout_s: float) -> Trial:
        """Asks QMD one small question, once it has started; see `MemoryBackend.try_out`."""
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
        """Waits until the first start has succeeded or failed. Raises QmdUnavailableError."""
        while self.engine is None and self.failure.cause == "not_ready":
            await self._changed.wait()
        engine = self._engine()
        if not engine.index_is_kept:
            await engine.schedule.updated.wait()
        await engine.server.tried.wait()
        return engine

    def _holds(self, sources: Sequence[Source] | None) -> bool:
        present = {one.source for one in self.places.roots.collections}
        return sources is None or not present.isdisjoint(sources)

    def _use(self, engine: Engine) -> None:
        self.engine = engine
        self._changed.fire()

    def _engine(self) -> Engine:
        if self.engine is None:
            raise self.failure
        return self.engine

    async def _ready_engine(self) -> Engine:
        """Returns the engine, if its index is worth asking; with `waitForBootSync` it waits for the start."""
        waits = self._settings.qmd.update.wait_for_boot_sync
        engine = await self._started_engine() if waits else self._engine()
        reason = engine.why_not_ready()
        if reason is not None:
            raise QmdUnavailableError("not_ready", reason)
        return engine


def _starting() -> QmdUnavailableError:
    return QmdUnavailableError("not_ready", "QMD is being started.")


async def _nothing_away() -> str | None:
    return None


@asynccontextmanager
async def open_qmd(
    settings: Settings, environment: Mapping[str, str] = os.environ, *, away: Away | None = None
) -> AsyncIterator[QmdBackend]:
    """Opens QMD in the background; it answers when it is ready and never delays the caller.

    While `away` gives a reason why notes are missing, QMD is neither started nor updated.
    """
    backend = QmdBackend(settings, environment, away=away)
    async with background_tasks() as tasks:
        tasks.start_soon(backend.run)
        yield backend


_CHANGING: Final = frozenset(("cleanup", "collection", "context", "embed", "update"))
_HINDERING: Final = ("CI",)
_OF_THE_SHELL: Final = ("PWD",)


def become_qmd(
    settings: Settings, arguments: Sequence[str], on_wait: Callable[[], None]
) -> NoReturn:
    """Replaces this process by QMD. Raises QmdUnavailableError.

    A command that changes the index first waits until nobody else does (`on_wait` is called then) and
    keeps the lock until QMD ends, which inherits the open files.
    """
    argv = (*qmd_command(settings), *arguments)
    variables = qmd_environment(settings)
    try:
        if not _CHANGING.isdisjoint(arguments[:1]):
            locks = [home_of(settings).lock]
            if arguments[0] == "embed":
                locks.insert(0, embed_lock(os.environ))
            for path in locks:
                _hold(path, on_wait)
        os.chdir(NEUTRAL_DIRECTORY)
        os.execve(argv[0], argv, variables)  # noqa: S606 - deliberately without a shell
    except OSError as error:
        raise QmdUnavailableError("broken", f"QMD cannot be run: {error}.") from None


def shell_lines(settings: Settings, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yields the lines to type (or `eval`) so that `qmd` works on the index of this agent."""
    for name, value in own_variables(settings, environment).items():
        yield f"export {name}={shlex.quote(value)}"
    for name in _HINDERING:
        if name in environment:
            yield f"unset {name}"


def own_variables(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Returns the variables that differ from those of the shell."""
    variables = qmd_environment(settings, environment)
    return {
        name: value
        for name, value in variables.items()
        if name not in _OF_THE_SHELL and environment.get(name) != value
    }


def _hold(path: Path, on_wait: Callable[[], None]) -> None:
    descriptor = open_lock(path)
    os.set_inheritable(descriptor, True)
    if not try_lock(descriptor):
        on_wait()
        lock_within(descriptor)
