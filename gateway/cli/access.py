"""One agent's memory for a command: asked through the gateway that owns its index, or opened by this process.

Commands do not see the difference. The person who runs one has access to the machine, so `scope`, which
restricts conversations, does not apply.
"""

from __future__ import annotations

import math
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from backends.builtin.store.opening import is_there, owner_lock
from backends.interface import (
    BackfillState,
    ForgetReport,
    IndexUnavailableError,
    ProgressCallback,
    ReadAnswer,
    SearchAnswer,
    SyncProgress,
    SyncReport,
    SyncRequest,
)
from config.host_keys import is_disabled
from config.paths import is_present
from config.runtime.decoding import prepared
from config.runtime.tasks import run_within
from config.settings import Secret, Settings
from gateway.cli import output
from gateway.cli.options import PROGRAM, Options, log_for
from gateway.client import DEFAULT_TIMEOUT_S, BlockingClient, SilentGatewayError
from gateway.ownership.owner import (
    DISK_PATIENCE_S,
    OWNER_PATIENCE_S,
    LockDisk,
    OwnerSocket,
    UntrustedSocketError,
    check_workspace,
    disk_hangs,
    find_owner_socket,
    name_owner,
    place_of,
    socket_address,
)
from gateway.process.beginning import run_loop
from gateway.rpc.registry import RequestContext, Session
from gateway.rpc.wire import DeadlineExceededError
from gateway.scope import WITHOUT_CLAUDE_CODE
from gateway.tools.search import RecallResult, SearchParams, without

if TYPE_CHECKING:
    from gateway.agent.memory import Memory
    from gateway.agent.reloading import ReloadResult
    from gateway.tools.notes import AppendParams, AppendResult, ForgetParams, GetParams
    from gateway.tools.search import RecallParams
    from gateway.tools.status import Health, MetricsResult, OverviewResult, StatusResult

_HEALTH_TIMEOUT_S: Final = 0.6
"""A probe has one second, and starting the interpreter takes a part of it."""

_LOOK_S: Final = 1.0
"""The time after which a call asks the gateway for a sign of life."""

T = TypeVar("T")


def with_memory(
    settings: Settings,
    options: Options,
    work: Callable[[Access], Coroutine[object, object, T]],
    *,
    patient: bool = False,
    embeds: bool = False,
    beside: bool = False,
) -> T:
    """Runs `work` with the owner's memory if there is an owner, else with our own, and returns its result.

    Our own does no background work. Work that does other things while it asks the owner runs in an event loop, with
    `beside`. With `patient`, our own waits for a QMD that has to be started. With `embeds`, it gives texts their
    vectors. Raises what `work` raises, and IndexUnavailableError, also if the owner serves another workspace.
    """
    passed_over = ""
    try:
        with _owner_of(settings) if not is_disabled(settings) else nullcontext() as owner:
            if owner is not None:
                check_workspace(owner.lock, settings.workspace)
                asked = _Asked(owner, settings)
                if beside:
                    return run_loop(work, cast("Access", _AskedBeside(asked)))
                return _finished(work(asked))
    except UntrustedSocketError as error:
        passed_over = str(error)
    log_for(options)
    own = partial(_with_own_memory, settings, work, passed_over, patient=patient, embeds=embeds)
    return run_loop(own)


def _finished(work: Coroutine[object, object, T]) -> T:
    """Runs work that only asks an owner, in blocking calls, and so never suspends; returns its result."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("a command waits for something else than the owner of the index")


async def _with_own_memory(
    settings: Settings,
    work: Callable[[Access], Coroutine[object, object, T]],
    passed_over: str,
    *,
    patient: bool,
    embeds: bool,
) -> T:
    from gateway.agent.memory import TRIAL_S, open_memory  # not needed to ask an owner

    with _without_traces(settings) as ours:
        wait_s = TRIAL_S if patient else 0.0
        async with open_memory(ours, background=False, embeds=embeds, wait_s=wait_s) as memory:
            return await work(_Opened(memory, passed_over, is_kept=ours is settings))


@contextmanager
def _without_traces(settings: Settings) -> Iterator[Settings]:
    """Yields the settings; with a temporary index if the workspace does not exist, which is likely a typo."""
    search = settings.search
    if is_present(settings.workspace) or search.extra_paths or is_there(settings):
        yield settings
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="memory-gateway-") as directory:
        place = Path(directory, search.store.path.name)
        store = replace(search.store, path=place, former_path=None)
        yield replace(settings, search=replace(search, store=store))


def with_driver(settings: Settings, driver: Literal["sqlite", "postgres"]) -> Settings:
    """Returns the settings of the same agent in the other store; both may be configured at once."""
    search = settings.search
    return replace(settings, search=replace(search, store=replace(search.store, driver=driver)))


def with_address(settings: Settings, address: str) -> Settings:
    """Returns the settings with another role for the same database; its password, if any, is in the address."""
    search = settings.search
    store = replace(search.store, url=Secret(address), url_problem=None, password_file=None)
    return replace(settings, search=replace(search, store=store))


@asynccontextmanager
async def owning(settings: Settings) -> AsyncIterator[None]:
    """Keeps gateways of this host away from the index. Raises IndexUnavailableError if one owns it."""
    path, disk = place_of(settings).lock, LockDisk()
    lock = await disk.acquire(path)
    if lock is None:
        raise IndexUnavailableError(
            f"{name_owner(path)} is at work.", remedy="Stop it, and start it again afterwards."
        )
    try:
        yield
    finally:
        lock.release()


def reload_owner(settings: Settings) -> ReloadResult:
    """Asks the owner to read its configuration again, also when the new one switches memory off."""
    from gateway.agent.reloading import ReloadResult

    remedy = (
        "The next one reads the configuration when it starts. One that was started with another index "
        "(store.path, store.driver, the state directory) has to be started again."
    )
    return _of_owner(settings, "reload", ReloadResult, "there is none to reload", remedy)


def owner_metrics(settings: Settings) -> MetricsResult:
    """Returns the owner's metrics: a command that opens the index itself has counted nothing."""
    from gateway.tools.status import MetricsResult

    remedy = "Start one with `memory-gateway serve`, or as a service."
    return _of_owner(settings, "metrics", MetricsResult, "nothing is counted", remedy)


def _of_owner(settings: Settings, method: str, kind: type[T], without: str, remedy: str) -> T:
    """Returns the owner's answer. Raises IndexUnavailableError without an owner, RemoteError if it refuses."""
    whose = "these notes" if settings.notes_folder else f"agent {settings.agent_id}"
    with _owner_of(settings) as owner:
        if owner is None:
            raise IndexUnavailableError(
                f"No gateway runs for {whose} on this index, so {without}.", remedy=remedy
            )
        return msgspec.convert(owner.call(method), prepared(kind))


_OPERATOR: Final = RequestContext(Session(operator=True))


class _Opened:
    """Our own memory. Raises what the same methods of `Memory` raise."""

    def __init__(self, memory: Memory, passed_over: str, *, is_kept: bool) -> None:
        """`passed_over` says why the socket that the lock names was not used, if there was one."""
        self._memory = memory
        self._is_kept = is_kept
        self._passed_over = passed_over
        self.embed = memory.embed

    def _note(self) -> None:
        if self._passed_over:
            output.note(f"{PROGRAM}: {self._passed_over}")

    async def search(self, params: SearchParams) -> SearchAnswer:
        """Waits for a sync if the index is behind: nothing else brings it up to date."""
        self._note()
        result = await self._memory.find(params, _OPERATOR.session)
        if result.stale is None:
            return await self._memory.explained(result, _OPERATOR.session)
        try:
            await self._memory.sync(SyncRequest(reason="search"))
        except IndexUnavailableError:
            if not result.hits:
                raise
            return result  # it says that it is stale
        result = await self._memory.find(params, _OPERATOR.session)
        return await self._memory.explained(result, _OPERATOR.session)

    async def get(self, params: GetParams) -> ReadAnswer:
        self._note()
        return await self._memory.get(params, _OPERATOR)

    async def append(self, params: AppendParams) -> AppendResult:
        from gateway.agent.conversations import Conversations

        self._note()
        return await Conversations(self._memory).append(params, _OPERATOR)

    async def recall(self, params: RecallParams) -> RecallResult:
        """Waits for a sync if the index is behind, as `search` does."""
        from gateway.recall import recall

        person = "command line"
        result = await recall(self._memory, params, _OPERATOR.session, person)
        if result.stale is None:
            return result
        try:
            await self._memory.sync(SyncRequest(reason="search"))
        except IndexUnavailableError:
            return result  # it says that it is stale
        self._memory.shown.forget(person)
        return await recall(self._memory, params, _OPERATOR.session, person)

    async def forget(self, params: ForgetParams) -> ForgetReport:
        return await self._memory.forget(params.request())

    async def sync(
        self, request: SyncRequest, progress: ProgressCallback | None = None
    ) -> SyncReport | None:
        self._note()
        return await self._memory.sync(request, progress)

    async def missed(self) -> str:
        return ""

    async def status(self) -> StatusResult:
        found = await self._memory.status()
        if self._passed_over:
            found = replace(found, issues=(*found.issues, self._passed_over))
        return found if self._is_kept else replace(found, database_path=None, database_bytes=0)

    async def overview(self) -> OverviewResult:
        """Returns no counts: this process has only just opened the index."""
        return replace(await self._memory.overview(_OPERATOR), counted=None)

    async def health(self, *, deep: bool) -> Health:
        health = await (self._memory.deep_health() if deep else self._memory.health())
        reasons = [self._passed_over] if self._passed_over else []
        if health.status != "failing":  # no sync of this process has seen the disk
            reasons += [
                one for one in await self._memory.seen_weaknesses() if one not in health.reasons
            ]
        if not reasons:
            return health
        status = "failing" if health.status == "failing" else "degraded"
        return replace(health, status=status, reasons=(*health.reasons, *reasons))


class _Owner(msgspec.Struct, frozen=True):
    """The process that owns the index. It may be stopped, or swapped out, at any time."""

    lock: Path
    client: BlockingClient

    @property
    def name(self) -> str:
        return name_owner(self.lock)

    def call(self, method: str, params: object = None, timeout_s: float = DEFAULT_TIMEOUT_S) -> Any:
        """Calls as `BlockingClient.call` does. Raises IndexUnavailableError if the owner is silent for too long."""
        try:
            return self.client.call(
                method,
                msgspec.to_builtins(params),
                timeout_s=timeout_s,
                look_after_s=_LOOK_S,
                patience_s=OWNER_PATIENCE_S - _LOOK_S,
            )
        except SilentGatewayError:
            raise IndexUnavailableError(
                f"{self.name} has not answered for {OWNER_PATIENCE_S:g} s.",
                remedy="Check whether it is stopped, and its log. Once it has ended, commands open the "
                "index themselves.",
            ) from None


@contextmanager
def _owner_of(settings: Settings) -> Iterator[_Owner | None]:
    """Yields a connection to the owner of the index; None if no owner can be reached.

    Raises IndexUnavailableError if the disk of its lock does not answer, UntrustedSocketError.
    """

    def look() -> tuple[Path, OwnerSocket | None]:
        lock = owner_lock(settings)
        return lock, find_owner_socket(lock)

    try:
        lock, found = run_within(look, DISK_PATIENCE_S)
    except TimeoutError:
        raise disk_hangs() from None
    if found is None:
        yield None
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(OWNER_PATIENCE_S)
        try:
            with socket_address(found.path) as address:
                connection.connect(address)
        except OSError:
            is_reached = False
        else:
            found.check(connection)
            is_reached = True
        yield _Owner(lock, BlockingClient(connection)) if is_reached else None


class _Asked:
    """The owner's memory, asked in blocking calls: nothing here needs an event loop. Also raises RemoteError."""

    def __init__(self, owner: _Owner, settings: Settings) -> None:
        self._owner = owner
        self._wants_claude_code = settings.search.claude_code

    async def search(self, params: SearchParams) -> SearchAnswer:
        answer = self._introduced("memory_search", params, SearchAnswer)
        missed = await self.missed()
        return without(answer, missed) if missed else answer

    async def get(self, params: GetParams) -> ReadAnswer:
        return self._introduced("memory_get", params, ReadAnswer)

    async def append(self, params: AppendParams) -> AppendResult:
        from gateway.tools.notes import AppendResult

        result = self._introduced("memory_append", params, AppendResult)
        if result.error is None and None in (result.path, result.start_line, result.end_line):
            raise self._not_understood("memory_append")
        return result

    async def recall(self, params: RecallParams) -> RecallResult:
        return self._introduced("recall", params, RecallResult)

    async def forget(self, params: ForgetParams) -> ForgetReport:
        return self._introduced("forget", params, ForgetReport, timeout_s=math.inf)

    async def sync(
        self, request: SyncRequest, progress: ProgressCallback | None = None
    ) -> SyncReport | None:
        def notified(method: str, params: object) -> None:
            if progress is not None and method == "notifications/progress":
                progress(msgspec.convert(params, prepared(SyncProgress)))

        self._owner.client.notified = notified
        params = {"reason": request.reason, "force": request.force}
        report = self._owner.call("sync", params, timeout_s=math.inf)
        return None if "disabled" in report else msgspec.convert(report, prepared(SyncReport))

    async def embed(self, progress: ProgressCallback) -> BackfillState | None:
        del progress  # the owner goes on by itself
        return None

    async def missed(self) -> str:
        """Returns what the command's own settings ask for and this memory does not do; empty if nothing."""
        return self._missed_by(self._status()) if self._wants_claude_code else ""

    async def status(self) -> StatusResult:
        found = self._status()
        missed = self._missed_by(found)
        return replace(found, issues=(*found.issues, missed)) if missed else found

    def _status(self) -> StatusResult:
        from gateway.tools.status import StatusResult

        return self._call("status", None, StatusResult)

    def _missed_by(self, owner: StatusResult) -> str:
        is_missed = self._wants_claude_code and owner.enabled and not owner.claude_code
        return WITHOUT_CLAUDE_CODE if is_missed else ""

    async def overview(self) -> OverviewResult:
        from gateway.tools.status import OverviewResult

        return self._introduced("overview", None, OverviewResult)

    async def health(self, *, deep: bool) -> Health:
        """Returns the health; in a deep look, provider, vector engine and QMD may each use up their time limit."""
        from gateway.tools.status import Health, judge_health

        timeout_s = _HEALTH_TIMEOUT_S
        if deep:
            from gateway.agent.memory import TRIAL_S

            timeout_s = 3 * TRIAL_S + 5
        try:
            return self._call("health", {"deep": True} if deep else {}, Health, timeout_s)
        except DeadlineExceededError:
            reason = f"{self._owner.name} has not answered for {timeout_s:g} s."
            return judge_health(failure=reason)

    def _introduced(
        self, method: str, params: object, kind: type[T], timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> T:
        self._owner.call("initialize", {"client": "command line", "operator": True})
        return self._call(method, params, kind, timeout_s)

    def _call(
        self, method: str, params: object, kind: type[T], timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> T:
        answer = self._owner.call(method, params, timeout_s)
        try:
            return msgspec.convert(answer, prepared(kind))
        except msgspec.ValidationError:
            raise self._not_understood(method) from None

    def _not_understood(self, method: str) -> IndexUnavailableError:
        return IndexUnavailableError(
            f"{self._owner.name} answered {method} as this release does not know it.",
            remedy="Start it again in this release.",
        )


class _AskedBeside:
    """The owner's memory, asked one question at a time in a thread."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    async def search(self, params: SearchParams) -> SearchAnswer:
        return await self._run(self._asked.search(params))

    async def get(self, params: GetParams) -> ReadAnswer:
        return await self._run(self._asked.get(params))

    async def _run(self, question: Coroutine[object, object, T]) -> T:
        from anyio import to_thread

        return await to_thread.run_sync(_finished, question, abandon_on_cancel=True)


Access: TypeAlias = _Opened | _Asked
"""The memory that commands ask."""
