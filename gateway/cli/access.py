"""One agent's memory for a command: through the gateway that owns its index, or opened by ourselves.

A command does not notice the difference. Whoever runs one sits at the machine, so `memory.scope`, which
guards conversations, does not apply.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from backends.builtin.store.opening import is_there
from backends.errors import IndexUnavailableError
from backends.interface import (
    ProgressCallback,
    ReadAnswer,
    SearchAnswer,
    SyncProgress,
    SyncReport,
    SyncRequest,
)
from config.errors import ungrouped
from config.host_keys import is_disabled
from config.settings import Secret, Settings
from gateway.client import Client, connect
from gateway.ownership.lock import LockDisk, check_workspace, name_owner, place_of
from gateway.ownership.sockets import connect_owner
from gateway.rpc.wire import DeadlineExceededError
from gateway.sessions import WITHOUT_CLAUDE_CODE
from gateway.tools.search import SearchParams, without

if TYPE_CHECKING:
    from gateway.agent.memory import Memory
    from gateway.agent.reloading import ReloadResult
    from gateway.tools.get import AppendParams, AppendResult, GetParams
    from gateway.tools.status import Health, MetricsResult, OverviewResult, StatusResult

_HEALTH_TIMEOUT_S: Final = 0.6
"""A probe has a second, and the interpreter takes its part of it."""

_LOOK_S: Final = 1.0
"""How long a call goes on before the first sign of life is asked for."""

T = TypeVar("T")


class Access(Protocol):
    """What commands ask. Raises what the same methods of `Memory` raise, and RemoteError."""

    async def search(self, params: SearchParams) -> SearchAnswer: ...

    async def get(self, params: GetParams) -> ReadAnswer: ...

    async def sync(
        self, request: SyncRequest, progress: ProgressCallback | None = None
    ) -> SyncReport | None: ...

    async def status(self) -> StatusResult: ...

    async def overview(self) -> OverviewResult: ...

    async def health(self) -> Health: ...

    async def deep_health(self) -> Health: ...

    async def append(self, params: AppendParams) -> AppendResult: ...

    async def missed(self) -> str:
        """What the command's own settings ask for and this memory does not do; empty: nothing."""
        ...


@asynccontextmanager
async def reach_memory(settings: Settings, *, patient: bool = False) -> AsyncIterator[Access]:
    """The owner's memory when there is an owner, else our own, without background work.

    The `patient` wait for a QMD that has to start for them alone. Raises IndexUnavailableError, also
    when the owner serves another workspace.
    """
    lock = place_of(settings).lock
    stream = None if is_disabled(settings) else await connect_owner(lock)
    if stream is None:
        from gateway.agent.memory import TRIAL_S, open_memory  # whoever only asks needs none of it

        with _without_traces(settings) as ours:
            wait_s = TRIAL_S if patient else 0.0
            async with open_memory(ours, background=False, wait_s=wait_s) as memory:
                yield _Opened(memory, is_kept=ours is settings)
        return
    async with stream:
        check_workspace(lock, settings.workspace)
        listener = _Listener()
        async with connect(stream, stream, notified=listener) as client:
            yield _Asked(client, listener, name_owner(lock), settings)


@contextmanager
def _without_traces(settings: Settings) -> Iterator[Settings]:
    """The settings; for a workspace that does not exist, likely a slip, with an index that does not stay."""
    search = settings.search
    if settings.workspace.exists() or search.extra_paths or is_there(settings):
        yield settings
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="memory-gateway-") as directory:
        place = Path(directory, search.store.path.name)
        store = replace(search.store, path=place, former_path=None)
        yield replace(settings, search=replace(search, store=store))


def with_driver(settings: Settings, driver: Literal["sqlite", "postgres"]) -> Settings:
    """The same agent in the other store; both may be configured beside each other."""
    search = settings.search
    return replace(settings, search=replace(search, store=replace(search.store, driver=driver)))


def with_address(settings: Settings, address: str) -> Settings:
    """The same database asked as another role, whose password is in its address if anywhere."""
    search = settings.search
    store = replace(search.store, url=Secret(address), url_problem=None, password_file=None)
    return replace(settings, search=replace(search, store=store))


@asynccontextmanager
async def owning(settings: Settings) -> AsyncIterator[None]:
    """Keeps gateways of this host away from the index. Raises IndexUnavailableError where one has it."""
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


async def reload_owner(settings: Settings) -> ReloadResult:
    """Asks the owner to read its configuration again, also when the new one switches memory off.

    Raises IndexUnavailableError when nobody owns the index, RemoteError with the owner's refusal.
    """
    stream = await connect_owner(place_of(settings).lock)
    if stream is None:
        raise IndexUnavailableError(
            f"No gateway runs for {_whose(settings)}, so there is none to reload.",
            remedy="The next one reads the configuration when it starts.",
        )
    from gateway.agent.reloading import ReloadResult

    async with stream, connect(stream, stream) as client:
        owner = _Attended(client, name_owner(place_of(settings).lock))
        return msgspec.convert(await owner.call("reload"), ReloadResult)


async def owner_metrics(settings: Settings) -> MetricsResult:
    """What the owner counts: a command that opens the index itself has counted nothing.

    Raises IndexUnavailableError when nobody owns the index.
    """
    stream = await connect_owner(place_of(settings).lock)
    if stream is None:
        raise IndexUnavailableError(
            f"No gateway runs for {_whose(settings)}, so nothing is counted.",
            remedy="Start one with `memory-gateway serve`, or as a service.",
        )
    from gateway.tools.status import MetricsResult

    async with stream, connect(stream, stream) as client:
        return msgspec.convert(await client.call("metrics"), MetricsResult)


def _whose(settings: Settings) -> str:
    return "these notes" if settings.notes_folder else f"agent {settings.agent_id}"


class _Opened:
    def __init__(self, memory: Memory, *, is_kept: bool) -> None:
        self._memory = memory
        self._is_kept = is_kept
        self.sync, self.health = memory.sync, memory.health
        self.deep_health = memory.deep_health

    async def search(self, params: SearchParams) -> SearchAnswer:
        """Nothing else brings this index up to date, so what is behind is waited for."""
        result = await self._memory.search(params, None, operator=True)
        if result.stale is None:
            return result
        await self._memory.sync(SyncRequest(reason="search"))
        return await self._memory.search(params, None, operator=True)

    async def get(self, params: GetParams) -> ReadAnswer:
        return await self._memory.get(params, operator=True)

    async def append(self, params: AppendParams) -> AppendResult:
        from gateway.agent.conversations import Conversations

        return await Conversations(self._memory).append(params, None, operator=True)

    async def missed(self) -> str:
        return ""

    async def status(self) -> StatusResult:
        found = await self._memory.status()
        if self._is_kept:
            return found
        return replace(found, database_path=None, database_bytes=0)

    async def overview(self) -> OverviewResult:
        """Nothing was counted by a process that has only just opened the index."""
        return replace(await self._memory.overview(operator=True), counted=None)


class _Listener:
    """Hands progress on to whoever waits for it."""

    def __init__(self) -> None:
        self.progress: ProgressCallback | None = None

    def __call__(self, method: str, params: Any) -> None:
        if self.progress is not None and method == "notifications/progress":
            self.progress(msgspec.convert(params, SyncProgress))


class _Attended:
    """Calls to an owner that may be stopped, or swapped out, at any time."""

    def __init__(self, client: Client, owner: str) -> None:
        self._client = client
        self.name = owner

    async def call(self, method: str, params: Any = None, **options: float) -> Any:
        """Like `Client.call`. Raises IndexUnavailableError as soon as the owner is silent for too long."""
        result: list[Any] = []
        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                result.append(await self._client.call(method, params, **options))
                tasks.cancel_scope.cancel()
        return result[0]

    async def _watch(self) -> None:
        await anyio.sleep(_LOOK_S)
        from gateway.ownership.bridge import PATIENCE_S

        while True:
            try:
                await self._client.ping(timeout_s=PATIENCE_S - _LOOK_S)
            except DeadlineExceededError:
                raise IndexUnavailableError(
                    f"{self.name} has not answered for {PATIENCE_S:g} s.",
                    remedy="Check whether it is stopped, and its log. Once it has ended, commands open the "
                    "index themselves.",
                ) from None
            await anyio.sleep(_LOOK_S)


class _Asked:
    def __init__(self, client: Client, listener: _Listener, owner: str, settings: Settings) -> None:
        self._client = _Attended(client, owner)
        self._listener = listener
        self._wants_claude_code = settings.search.claude_code

    async def search(self, params: SearchParams) -> SearchAnswer:
        await self._introduce()
        answer = await self._call("memory_search", params, SearchAnswer)
        missed = await self.missed()
        return without(answer, missed) if missed else answer

    async def get(self, params: GetParams) -> ReadAnswer:
        await self._introduce()
        return await self._call("memory_get", params, ReadAnswer)

    async def _introduce(self) -> None:
        await self._client.call("initialize", {"client": "command line", "operator": True})

    async def sync(
        self, request: SyncRequest, progress: ProgressCallback | None = None
    ) -> SyncReport | None:
        self._listener.progress = progress
        params = {"reason": request.reason, "force": request.force}
        report = await self._client.call("sync", params, timeout_s=math.inf)
        return None if "disabled" in report else msgspec.convert(report, SyncReport)

    async def status(self) -> StatusResult:
        found = await self._status()
        missed = self._missed_by(found)
        return replace(found, issues=(*found.issues, missed)) if missed else found

    async def overview(self) -> OverviewResult:
        from gateway.tools.status import OverviewResult

        await self._introduce()
        return await self._call("overview", None, OverviewResult)

    async def missed(self) -> str:
        if not self._wants_claude_code:
            return ""
        return self._missed_by(await self._status())

    async def _status(self) -> StatusResult:
        from gateway.tools.status import StatusResult

        return await self._call("status", None, StatusResult)

    def _missed_by(self, owner: StatusResult) -> str:
        is_missed = self._wants_claude_code and owner.enabled and not owner.claude_code
        return WITHOUT_CLAUDE_CODE if is_missed else ""

    async def append(self, params: AppendParams) -> AppendResult:
        from gateway.tools.get import AppendResult

        await self._introduce()
        return await self._call("memory_append", params, AppendResult)

    async def health(self) -> Health:
        return await self._health({}, _HEALTH_TIMEOUT_S)

    async def deep_health(self) -> Health:
        """Provider, vector engine and QMD may each use up their time."""
        from gateway.agent.memory import TRIAL_S

        return await self._health({"deep": True}, 3 * TRIAL_S + 5)

    async def _health(self, params: dict[str, bool], timeout_s: float) -> Health:
        from gateway.tools.status import Health, judge_health

        try:
            result = await self._client.call("health", params, timeout_s=timeout_s)
        except DeadlineExceededError:
            reason = f"{self._client.name} has not answered for {timeout_s:g} s."
            return judge_health(failure=reason)
        return msgspec.convert(result, Health)

    async def _call(self, method: str, params: Any, kind: type[T]) -> T:
        return msgspec.convert(await self._client.call(method, msgspec.to_builtins(params)), kind)
