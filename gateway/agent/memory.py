"""One agent's memory as the methods see it: settings, backend and background work together.

It can be switched off and on, applies other settings while it runs, and turns failures of the backend into answers
that name them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import replace

from backends.builtin.backend import open_builtin, open_store
from backends.interface import (
    BackfillState,
    FileUnreadableError,
    ForgetReport,
    ForgetRequest,
    IndexUnavailableError,
    MemoryBackend,
    PathNotAllowedError,
    ProgressCallback,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SyncReport,
    SyncRequest,
    Trial,
)
from backends.transcripts.agent_transcripts import is_conversation
from config.errors import ErrorKind, MemoryGatewayError
from config.host_keys import is_disabled, why_disabled
from config.runtime.logs import Log, unbind
from config.runtime.tasks import BoundedWork, Wakeup, background_tasks
from config.settings import CitationsMode, Settings, Source
from gateway.metrics import Metrics
from gateway.recalled import Shown, UseRecord, keep_record
from gateway.rpc.registry import RequestContext, Session
from gateway.scheduler import ObserveSync, SyncScheduler
from gateway.scope import KnownSessions, is_main_session, judge_request
from gateway.tools import notes, search
from gateway.tools.search import SearchParams, agent_now
from gateway.tools.status import (
    Health,
    MetricsResult,
    OverviewResult,
    StatusResult,
    judge_health,
    judge_trials,
    write_metrics,
    write_status,
)
from gateway.watching import OFF, ON_DEMAND, WatchState
from gateway.watching.watcher import Watcher, watched_places

if TYPE_CHECKING:
    from backends.builtin.store.port import Store


OpenBackend = Callable[[Settings], AbstractAsyncContextManager[MemoryBackend]]
T = TypeVar("T")
_log = Log()


class RunningBackend:
    """Created and kept open by `run_backend`."""

    def __init__(
        self,
        backend: MemoryBackend,
        scheduler: SyncScheduler | None,
        watcher: Watcher | None = None,
    ) -> None:
        self.scheduler = scheduler
        """None: nothing runs in the background."""
        self._watcher = watcher
        self._backend = backend
        self._uses = 0
        self._changed = Wakeup()
        self.replaced = anyio.Event()
        """Set once another backend answers from now on: this one ends as soon as it is unused."""

    @contextmanager
    def used(self) -> Iterator[MemoryBackend]:
        """Gives the backend, which stays open at least until the body is left."""
        self._uses += 1
        try:
            yield self._backend
        finally:
            self._uses -= 1
            self._changed.fire()

    @property
    def watch_state(self) -> WatchState:
        if self._watcher is not None:
            return self._watcher.state
        return OFF if self.scheduler else ON_DEMAND

    async def unused(self) -> None:
        while self._uses:
            await self._changed.wait()


async def run_backend(
    settings: Settings,
    open_backend: OpenBackend,
    observe: ObserveSync,
    *,
    boot_reason: str | None,
    task_status: TaskStatus[RunningBackend] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Opens a backend, hands it over as task status, and closes it after its retirement.

    With a `boot_reason` the index is brought up to date at once and then as `sync.*` says; without,
    only when somebody asks. `observe` is called after each sync in the background. Raises what `open_backend` raises.
    """
    unbind()  # a backend outlives the request to reload that started it
    async with open_backend(settings) as backend:
        async with background_tasks() as background:
            scheduler = watcher = None
            if boot_reason is not None:
                interval = settings.search.sync.interval_minutes
                scheduler = SyncScheduler(backend, interval_minutes=interval, observe=observe)
                scheduler.request(boot_reason)
                background.start_soon(scheduler.run)
                if places := watched_places(settings):
                    watcher = Watcher(places, scheduler)
                    background.start_soon(watcher.run)
            running = RunningBackend(backend, scheduler, watcher)
            task_status.started(running)
            await running.replaced.wait()
            backend.retire()
        await running.unused()


_DAILY_NOTES_AT_ONCE: Final = 4
_EXPLAINING_S: Final = 1.0
"""The time that an empty answer may take to find out whether anything is indexed."""
TRIAL_S: Final = 10.0
"""The time limit of each part in a deep health check; a QMD that has to start needs some of it."""
HEALTH_PATIENCE_S: Final = 0.6
"""A probe gives up after a second, and has to start an interpreter first."""
_FOR_THE_MAIN_SESSION: Final = "transcripts are remembered for the main session alone"

StartBackend = Callable[[Settings, str], Awaitable[RunningBackend]]
"""Called with the reason for the first sync. Raises IndexUnavailableError."""


class Memory:
    """The memory of one agent, open. Make it with `open_memory`."""

    def __init__(
        self,
        settings: Settings,
        running: RunningBackend | None,
        start: StartBackend,
        metrics: Metrics,
    ) -> None:
        self.settings = settings
        self.counts = metrics
        self.config_error: MemoryGatewayError | None = None
        """The reason why the configuration on the disk is not the one in force."""
        self._running = running
        self._start = start
        self._sessions = KnownSessions()
        self._holds_files = False
        """True once the index is known to hold a file."""
        self._has_hinted = False
        """True once the hint was given that a search by meaning would find more; it is given once."""
        self.uses = UseRecord()
        self.shown = Shown(self.uses.used)
        self.daily_notes = BoundedWork("daily notes", _DAILY_NOTES_AT_ONCE)
        """Finds and writes daily notes: a folder that hangs blocks these few threads, not one for each conversation."""

    @property
    def why_off(self) -> str | None:
        """The reason why memory is off, which names the key; None while it is on."""
        return why_disabled(self.settings) if self._running is None else None

    async def read(self, request: ReadRequest) -> ReadAnswer:
        """Reads while memory is on. Raises PathNotAllowedError, FileUnreadableError, IndexUnavailableError."""
        if self._running is None:
            raise IndexUnavailableError(
                "Memory was switched off a moment ago.", remedy="Ask again."
            )
        with self._running.used() as backend:
            return await backend.read(request)

    async def search(
        self, params: SearchParams, context: RequestContext | None = None
    ) -> SearchAnswer:
        """Searches as `find` does, explains an empty index, and remembers what this conversation has been shown."""
        context = context or RequestContext()
        answer = await self.find(params, context.session)
        answer = await self.explained(answer, context.session)
        context.stages.update(answer.timings_ms)
        conversation = context.session.conversation(params.session_key)
        self.shown.searched(conversation, answer.hits)
        self.counts.shown(answer.hits)
        self._has_hinted |= search.ONLY_WORDS in (answer.warning or "")
        return answer

    async def find(
        self, params: SearchParams, session: Session, *, vector_patience_s: float | None = None
    ) -> SearchAnswer:
        """Answers also when memory is off or its index unusable: the result then says so.

        An operator, who sits at the machine, may always search, and needs no citations; others may if
        `judge_request` allows it. Raises IndexUnavailableError where the configuration of a guest permits less
        than the index contains.
        """
        request = replace(search.read_request(params), vector_patience_s=vector_patience_s)
        if self._running is None:
            return search.disabled_result(why_disabled(self.settings))
        settings, running = self.settings, self._running
        key = params.session_key or session.session_key
        denial = self._why_denied(session, key, searches=True)
        if denial is not None:
            _log.info("search denied", reason=denial)
            return search.denied_result(denial)
        hidden = self._hides_transcripts(session, key)
        left, unsearched = _searchable(settings, request.sources, are_sessions_hidden=hidden)
        if left == ():
            return search.unsearched_result(unsearched, denied=_FOR_THE_MAIN_SESSION)
        today = agent_now(settings.user_timezone).date()
        request = replace(request, sources=left, today=today)
        self.session_started(key)
        try:
            with running.used() as backend:
                answer = await self.counts.observe_search(settings.backend, backend.search(request))
        except IndexUnavailableError as error:
            return search.disabled_result(str(error), error.kind)
        if answer.stale is not None and settings.search.sync.on_search:
            self.sync_later("search")
        if unsearched:
            answer = search.partly_answered(answer, unsearched)
        if session.guest is not None and (missed := session.guest.missed(settings)):
            answer = search.without(answer, missed)
        return self._with_citations(answer, params, session, key)

    async def explained(self, answer: SearchAnswer, session: Session) -> SearchAnswer:
        """Returns the answer; if it is empty since nothing is indexed, its warning says so, and to an operator why,
        which names files. What once had a file is not asked again.
        """
        self._holds_files |= bool(answer.hits)
        if self._holds_files or answer.error or answer.stale is not None:
            return answer
        with (
            anyio.move_on_after(_EXPLAINING_S),
            suppress(IndexUnavailableError, FileUnreadableError),
        ):
            if not await self._asked(_holds_notes, off=True):  # what QMD has is in the status alone
                status = await self.status()
                if not status.files:
                    return search.explained(answer, status if session.operator else None)
            self._holds_files = True
        return answer

    def _with_citations(
        self, answer: SearchAnswer, params: SearchParams, session: Session, key: str | None
    ) -> SearchAnswer:
        """Also adds the limits that were exceeded and, until it was shown, the hint that meaning is not searched."""
        citations: CitationsMode = "off" if session.operator else self.settings.citations
        limits, hints = search.limits_met(params), params.explain or not self._has_hinted
        return search.with_citations(answer, citations, key, limits, hints=hints)

    async def get(
        self, params: notes.GetParams, context: RequestContext | None = None
    ) -> ReadAnswer:
        """Reads a note. `scope` applies to reading too; QMD's `scope`, as documented, only to what QMD answers.

        Raises IndexUnavailableError as `search` does.
        """
        request = notes.read_request(params)
        if self._running is None:
            why = why_disabled(self.settings)
            return notes.failed_result(params.path, why, kind=ErrorKind.DISABLED, disabled=True)
        session = (context or RequestContext()).session
        key = params.session_key or session.session_key
        denial = self._why_denied(session, key)
        if denial is not None:
            return notes.denied_result(params.path, denial)
        if self._hides_transcripts(session, key) and _is_transcript(params.path):
            return notes.denied_result(params.path, _FOR_THE_MAIN_SESSION)
        try:
            with self._running.used() as backend:
                answer = await backend.read(request)
        except (PathNotAllowedError, FileUnreadableError) as error:
            return notes.failed_result(params.path, str(error), kind=error.kind)
        conversation = session.conversation(params.session_key)
        self.shown.read(conversation, answer.path, answer.text)
        return answer

    def _why_denied(
        self, session: Session, key: str | None, *, searches: bool = False
    ) -> str | None:
        """Returns the reason; None: it may use the memory. Raises IndexUnavailableError as `search` does."""
        if session.operator:
            return None
        verdict = judge_request(self.settings, session.guest, key, searches=searches)
        if not verdict.allowed:
            return verdict.reason
        if session.guest is not None:
            session.guest.check_reach(self.settings)
        return None

    def _hides_transcripts(self, session: Session, key: str | None) -> bool:
        """Returns whether transcripts are kept from a request: others may read the answer than the person who asks.

        A request without a session may come from anywhere.
        """
        only_private = self.settings.search.sessions_in_private_only and not session.operator
        return only_private and not (key is not None and is_main_session(key))

    async def _asked(self, ask: Callable[[MemoryBackend], Awaitable[T]], off: T) -> T:
        """Returns what the backend answers; `off` while memory is off."""
        if self._running is None:
            return off
        with self._running.used() as backend:
            return await ask(backend)

    async def sync(
        self, request: SyncRequest, progress: ProgressCallback | None = None
    ) -> SyncReport | None:
        """Brings the index up to date and returns when that is done; None while memory is off."""
        observe = self.counts.observe_sync
        return await self._asked(lambda one: observe(one.sync(request, progress=progress)), None)

    async def embed(self, progress: ProgressCallback | None = None) -> BackfillState | None:
        """Waits until every text has its vector; None if there are to be no vectors."""
        return await self._asked(lambda backend: backend.embed(progress=progress), None)

    async def forget(self, request: ForgetRequest) -> ForgetReport:
        """Does nothing while memory is off."""
        return await self._asked(lambda backend: backend.forget(request), ForgetReport())

    async def transcript_grew(self, reference: str) -> bool:
        """Counts a transcript against its thresholds; asks for a sync once they are reached.

        For clients that announce growth and for the watcher of the sessions directory. Takes an id, a file name or a
        path. Returns whether a sync was asked for.
        """
        is_due = await self._asked(lambda backend: backend.transcript_grew(reference), False)
        if is_due:
            self.sync_later("session-delta")
        return is_due

    def sync_later(self, reason: str, *, force: bool = False, verify: bool = False) -> None:
        if (scheduler := self._scheduler) is not None:
            scheduler.request(reason, force=force, verify=verify)

    def session_started(self, session_key: str | None) -> bool:
        """Asks for a sync at the first sign of a session, if `sync.onSessionStart` says so; returns whether it did."""
        if not self.settings.search.sync.on_session_start or not self._sessions.is_new(session_key):
            return False
        self.sync_later("session-start")
        return True

    async def status(self) -> StatusResult:
        settings, running, why_off = self.settings, self._running, self.why_off
        return write_status(
            settings,
            await self._asked(lambda backend: backend.status(), None),
            disabled=why_off,
            sync_error=self._sync_error,
            config_error=self.config_error,
            activity=self.counts.activity(self.uses),
            watcher=running.watch_state if running else None,
        )

    async def overview(self, context: RequestContext | None = None) -> OverviewResult:
        """Returns the overview; only an operator sees the names of notes."""
        is_operator = context is not None and context.session.operator
        counted = self.counts.counted(self.uses, with_notes=is_operator)
        index = await self._asked(lambda backend: backend.overview(), None)
        return OverviewResult(index, counted)

    async def metrics(self) -> MetricsResult:
        """Answers also while the index cannot, without what is read from it: metrics are needed most then."""
        try:
            status = await self.status()
        except (IndexUnavailableError, FileUnreadableError):
            status = None
        return write_metrics(self.counts, status)

    async def health(self) -> Health:
        """Answers cheaply: it calls nothing outside this process and lists no directory."""
        why_off = self.why_off
        try:
            weaknesses = await self.weaknesses()
        except (IndexUnavailableError, FileUnreadableError) as error:
            return judge_health(failure=str(error))
        except TimeoutError:
            return judge_health(failure=f"The index did not answer within {HEALTH_PATIENCE_S} s.")
        return judge_health(
            weaknesses,
            disabled=why_off,
            sync_error=self._sync_error,
            config_error=str(self.config_error) if self.config_error else None,
        )

    async def deep_health(self) -> Health:
        """Asks the provider, the vector engine and QMD, each within `TRIAL_S`; may use the network."""
        none: tuple[Trial, ...] = ()
        trials = await self._asked(lambda backend: backend.try_out(TRIAL_S), none)
        return judge_trials(await self.health(), trials)

    async def weaknesses(self) -> tuple[str, ...]:
        """Returns why answers are weaker than asked for, as far as that is known without a look at the disk.

        Raises IndexUnavailableError, FileUnreadableError, TimeoutError.
        """
        with anyio.fail_after(HEALTH_PATIENCE_S):
            return await self._asked(lambda backend: backend.weaknesses(), ())

    async def seen_weaknesses(self) -> tuple[str, ...]:
        """Returns also the weaknesses that only a look at the disk shows. Raises IndexUnavailableError."""
        status = await self._asked(lambda backend: backend.status(), None)
        return status.weaknesses if status is not None else ()

    async def apply(self, settings: Settings, *, reopen: bool) -> None:
        """Applies other settings from now on; open requests finish under those they began with.

        Without `reopen` the backend stays open, since nothing that it uses has changed. Raises
        IndexUnavailableError; the former settings then stay in force.
        """
        old = self._running
        if is_disabled(settings):
            self._running = None
        elif old is None or reopen:
            self._running = await self._start(settings, "reload")
            self._holds_files = False
        self.settings = settings
        if old is not None and old is not self._running:
            if self._scheduler is not None and old.scheduler is not None:
                old.scheduler.hand_over(self._scheduler)
            old.replaced.set()

    @property
    def _scheduler(self) -> SyncScheduler | None:
        return self._running.scheduler if self._running else None

    @property
    def _sync_error(self) -> str | None:
        return self._scheduler.last_error if self._scheduler else None


async def _holds_notes(backend: MemoryBackend) -> bool:
    return bool((await backend.overview()).days)


def _searchable(
    settings: Settings, wanted: tuple[Source, ...] | None, *, are_sessions_hidden: bool
) -> tuple[tuple[Source, ...] | None, dict[Source, str]]:
    """Returns the sources to search (None: all), and why others that the request names are left out."""
    unsearched = search.not_indexed(settings, wanted or ())
    if are_sessions_hidden:
        wanted = wanted or ("memory",)
        if "sessions" in wanted:
            unsearched.setdefault("sessions", _FOR_THE_MAIN_SESSION)
    if unsearched:
        wanted = tuple(one for one in wanted or () if one not in unsearched)
    return wanted, unsearched


def _is_transcript(path: str) -> bool:
    """Returns whether the path names a conversation: one of the host's database, or one exported for QMD."""
    return is_conversation(path) or path.strip().startswith("qmd/sessions")


@asynccontextmanager
async def open_memory(
    settings: Settings,
    *,
    background: bool = True,
    embeds: bool = False,
    wait_s: float = 0.0,
    may_make: Callable[[], bool] = lambda: True,
) -> AsyncIterator[Memory]:
    """Opens the memory that the settings describe, or one that is off.

    With `background` the index is brought up to date at once and then as `sync.*` says, and texts
    get their vectors; without it, texts get vectors only with `embeds`. Waits at most `wait_s` for a QMD that is
    starting. `may_make`: as for `connect` of the store. Raises IndexUnavailableError.
    """
    metrics = Metrics()
    if is_disabled(settings):
        yield Memory(settings, None, _cannot_start, metrics)
        return
    async with (
        open_store(settings, is_owner=background, may_make=may_make) as store,
        background_tasks() as tasks,
    ):

        def open_backend(settings: Settings) -> AbstractAsyncContextManager[MemoryBackend]:
            return _open_backend(store, settings, embeds=background or embeds, wait_s=wait_s)

        async def start(settings: Settings, reason: str) -> RunningBackend:
            boot_reason = reason if background else None
            run = partial(run_backend, settings, open_backend, metrics.observe_sync)
            running: RunningBackend = await tasks.start(partial(run, boot_reason=boot_reason))
            return running

        memory = Memory(settings, await start(settings, "boot"), start, metrics)
        if background:
            tasks.start_soon(keep_record, store, memory.uses)
        yield memory


async def _cannot_start(_settings: Settings, _reason: str) -> RunningBackend:
    raise IndexUnavailableError(
        "Memory was switched off when this gateway started, so it holds no index.",
        remedy="Start it again to switch memory on.",
    )


def _open_backend(
    store: Store, settings: Settings, *, embeds: bool, wait_s: float
) -> AbstractAsyncContextManager[MemoryBackend]:
    open_index = partial(open_builtin, background=embeds, store=store)
    if settings.backend == "builtin":
        return open_index(settings)
    from backends.fallback import open_with_fallback  # noqa: PLC0415 - most start without it

    return open_with_fallback(settings, open_index, wait_s=wait_s)
