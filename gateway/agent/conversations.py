"""The methods that a chat runtime calls around its sessions: what to load, when to flush, what to write down.

`session_start`, `session_updated`, `memory_flush`, `memory_flush_done` and `memory_append` are answered here. The rules
are in `gateway.scope` and `gateway.flush`; searching and reading are in `gateway.agent.memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import anyio
import msgspec

from backends.files.appending import Appended, append_entry
from backends.files.reading import is_left_out
from backends.files.roots import MemoryRoots
from backends.interface import MAY_HANG, FileUnreadableError, FileUnwritableError, SyncRequest
from config.errors import ErrorKind, MemoryGatewayError
from config.paths import flush_records_path
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork
from config.settings import Settings
from gateway.agent.memory import Memory
from gateway.daily_notes import daily_note, daily_notes
from gateway.flush import SessionStore, Situation, WorkspaceAccess, decide, flush_prompts
from gateway.rpc.registry import Method, Params, RequestContext, Session
from gateway.rpc.wire import InvalidParamsError
from gateway.scope import (
    ChatKind,
    KnownSessions,
    is_heartbeat,
    is_main_session,
    judge_request,
    judge_session,
    may_append,
)
from gateway.session_start import (
    LoadedFile,
    daily_log,
    lasting_parts,
    load,
    log_parts,
    recall_instructions,
    today_and_yesterday,
)
from gateway.tools.notes import AppendParams, AppendResult, Target, read_entry
from gateway.tools.search import Key, PathText, agent_now

_log = Log()

_MAY_NOT: Final = (
    "Agents may not write here. `memory-gateway connect CLIENT --write` lets that client's agent write, and "
    "append.enabled, set to true, every agent."
)

T = TypeVar("T")

DISK_PATIENCE_S: Final = 10.0
"""The longest wait of a request for its files, and before that for its turn behind others that wait for a disk."""
_LOOK_S: Final = 0.005
_AT_ONCE: Final = 4


class SessionStartParams(Params, frozen=True, kw_only=True):
    session_key: Key
    chat_type: ChatKind | None = None
    """The type as the chat gateway knows it; a session whose key names a group is a group whatever this says."""


class SessionStartResult(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    files: tuple[LoadedFile, ...]
    today: date | None = None
    """In the agent's time zone."""
    time_zone: str | None = None
    instructions: str | None = None
    """For the system prompt of the session."""
    sync_started: bool = False
    denied: bool = False
    disabled: bool = False
    error: str | None = None
    """The reason why nothing was loaded."""
    kind: ErrorKind | None = None
    """The kind of the error."""


class SessionUpdatedParams(Params, frozen=True):
    """Parameters of `session_updated`: one of the two."""

    path: PathText | None = None
    session_id: Key | None = None


def read_reference(params: SessionUpdatedParams) -> str:
    """Returns the client's name for the transcript. Raises InvalidParamsError."""
    given = [name for name in (params.path, params.session_id) if name and name.strip()]
    if len(given) != 1:
        raise InvalidParamsError(
            "session_updated needs a path or a sessionId, and only one of them.",
            remedy='Send {"path": "<the transcript>.jsonl"} or {"sessionId": "<its name>"}.',
        )
    return given[0]


Tokens = Annotated[int, msgspec.Meta(ge=0)]


class FlushParams(Params, frozen=True, kw_only=True):
    """Numbers that are left out are looked up in the session's entry of `sessions.json`."""

    session_key: Key
    total_tokens: Tokens | None = None
    context_window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    compaction_count: Tokens | None = None
    transcript_bytes: Tokens | None = None
    """The size of the part that the model sees; if left out, that of the session's file counts."""
    workspace_access: WorkspaceAccess = "rw"
    heartbeat: bool = False


class FlushResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    due: bool
    reason: str
    threshold: int
    total_tokens: int
    compaction_count: int
    prompt: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    """The model to run the flush with; None: the session's own."""


class FlushDoneParams(Params, frozen=True, kw_only=True):
    """`compactionCount` is the one after the flush, if a compaction ended during it."""

    session_key: Key
    compaction_count: Tokens | None = None
    ok: bool = True
    """False: the flush failed; nothing is recorded, so that it is due again."""


class FlushDoneResult(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    recorded: bool
    compaction_count: int | None = None


class Conversations:
    """The sessions of one agent's chat runtime."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._compactions = KnownSessions()
        self._records = BoundedWork("records of flushes", _AT_ONCE)

    async def start(
        self, params: SessionStartParams, context: RequestContext
    ) -> SessionStartResult:
        """Returns what the session loads. The first start of each session also begins a sync."""
        memory, key = self._memory, params.session_key
        if memory.why_off is not None:
            return SessionStartResult(
                files=(), disabled=True, error=memory.why_off, kind=ErrorKind.DISABLED
            )
        verdict = judge_request(memory.settings, context.session.guest, key)
        if not verdict.allowed:
            _log.info("session start denied", reason=verdict.reason)
            return SessionStartResult(
                files=(),
                denied=True,
                error=f"This conversation may not load memory: {verdict.reason}.",
                kind=ErrorKind.DENIED,
            )
        now = agent_now(memory.settings.user_timezone)
        files = await self._load(key, params.chat_type, now, DISK_PATIENCE_S)
        memory.shown.began(key, files)
        return SessionStartResult(
            files=files,
            today=now.date(),
            time_zone=memory.settings.user_timezone or now.tzname(),
            instructions=recall_instructions(memory.settings.citations),
            sync_started=memory.session_started(key),
        )

    async def files(
        self, session: Session, *, patience_s: float = DISK_PATIENCE_S
    ) -> tuple[LoadedFile, ...]:
        """Returns what `start` would load; nothing where memory is off or denied. `patience_s` is that of `_logs`.

        Without a key the main session is meant: as with citations, nobody else is listening.
        """
        memory = self._memory
        verdict = judge_request(memory.settings, session.guest, session.session_key)
        if memory.why_off is not None or not verdict.allowed:
            return ()
        key = session.session_key or f"agent:{memory.settings.agent_id}:main"
        return await self._load(key, None, agent_now(memory.settings.user_timezone), patience_s)

    async def _load(
        self, key: str, chat_type: ChatKind | None, now: datetime, patience_s: float
    ) -> tuple[LoadedFile, ...]:
        """Loads the lasting notes first: looking through a large folder of notes may take too long for a hook."""
        read = self._memory.read
        lasting = await load(lasting_parts(key, chat_type), read)
        return (*lasting, *await load(log_parts(*await self._logs(now, patience_s)), read))

    async def _logs(self, now: datetime, patience_s: float) -> list[str]:
        """Returns the paths of today's and yesterday's logs: in `memory/` if a folder is not listed in time."""
        settings, days = self._memory.settings, today_and_yesterday(now)
        find = partial(daily_notes, settings, days)
        with suppress(TimeoutError):
            notes = await self._memory.daily_notes.run(find, patience_s, queue_s=patience_s)
            return [note.path for note in notes]
        return [daily_log(day) for day in days]

    async def updated(
        self, params: SessionUpdatedParams, _context: RequestContext
    ) -> dict[str, bool]:
        return {"scheduled": await self._memory.transcript_grew(read_reference(params))}

    async def flush(self, params: FlushParams, _context: RequestContext) -> FlushResult:
        """Raises InvalidParamsError for a session of another agent, and FileUnreadableError when
        `sessions.json` exists and cannot be used.
        """
        settings = self._memory.settings
        _refuse_foreign(settings, params.session_key)
        situation = Situation(
            total_tokens=params.total_tokens,
            context_window=params.context_window,
            compaction_count=params.compaction_count,
            transcript_bytes=params.transcript_bytes,
            workspace_access=params.workspace_access,
            is_heartbeat=params.heartbeat or is_heartbeat(params.session_key),
        )
        store = _store(settings)
        try:
            state = await self._records.run(
                partial(store.state, params.session_key), DISK_PATIENCE_S, queue_s=DISK_PATIENCE_S
            )
        except TimeoutError:
            raise FileUnreadableError(
                f"{store.shared} was not read within {DISK_PATIENCE_S:g} s.", remedy=MAY_HANG
            ) from None
        decision = decide(settings.compaction, situation, state)
        await self._note_compaction(params.session_key, decision.compaction_count)
        if not decision.due:
            return FlushResult(**decision._asdict())
        now, wanted = agent_now(settings.user_timezone), settings.compaction.memory_flush
        log, _yesterday = await self._logs(now, DISK_PATIENCE_S)
        prompts = flush_prompts(wanted, now.date(), log)
        return FlushResult(**decision._asdict(), **prompts._asdict(), model=wanted.model)

    async def _note_compaction(self, session_key: str, count: int) -> None:
        """Has the index look at the transcripts when a session's count shows another compaction."""
        before = self._compactions.put(session_key, count)
        if before is None or count <= before:
            return
        self._memory.shown.forget(session_key)
        match self._memory.settings.compaction.post_index_sync:
            case "async":
                self._memory.sync_later("post-compaction")
            case "await":
                try:
                    await self._memory.sync(SyncRequest(reason="post-compaction"))
                except MemoryGatewayError as error:  # the flush does not depend on the index
                    _log.warning("no sync after a compaction", error=str(error))

    async def flush_done(
        self, params: FlushDoneParams, _context: RequestContext
    ) -> FlushDoneResult:
        """Raises InvalidParamsError as `flush` does, FileUnreadableError and FileUnwritableError: the
        flush then stays due.
        """
        _refuse_foreign(self._memory.settings, params.session_key)
        if not params.ok:
            return FlushDoneResult(recorded=False)
        store = _store(self._memory.settings)

        def record(is_wanted: Callable[[], bool]) -> int:
            return store.record_flush(params.session_key, params.compaction_count, is_wanted)

        count = await _written(self._records, record, str(store.shared))
        return FlushDoneResult(recorded=True, compaction_count=count)

    async def append(self, params: AppendParams, context: RequestContext) -> AppendResult:
        """Appends an entry. An operator, who could as well open an editor, needs neither the switch nor the scope.

        Raises PathNotAllowedError, FileUnwritableError, InvalidParamsError.
        """
        settings, session = self._memory.settings, context.session
        may_write = session.operator or may_append(settings, session.guest)
        if (error := self._memory.why_off if may_write else _MAY_NOT) is not None:
            return AppendResult(disabled=True, error=error, kind=ErrorKind.DISABLED)
        entry = read_entry(params)
        if (denial := _why_not_append(settings, params, session)) is not None:
            error = f"This conversation may not write there: {denial}."
            return AppendResult(denied=True, error=error, kind=ErrorKind.DENIED)
        added = await _written(
            self._memory.daily_notes, partial(_append, settings, params.target, entry), "The note"
        )
        self._memory.sync_later("append")
        return AppendResult(
            path=added.path,
            start_line=added.first_line,
            end_line=added.last_line,
            created=added.created,
        )


def _refuse_foreign(settings: Settings, session_key: str) -> None:
    """Raises InvalidParamsError for a session of another agent, which has no entry in this agent's store."""
    verdict = judge_session(settings, None, session_key)
    if not verdict.allowed:
        raise InvalidParamsError(
            f"{verdict.reason[0].upper()}{verdict.reason[1:]}.",
            remedy="Ask the gateway of that agent.",
        )


def _store(settings: Settings) -> SessionStore:
    own = flush_records_path(settings.state_dir, settings.agent_id)
    return SessionStore(settings.sessions_dir, own)


def _why_not_append(settings: Settings, params: AppendParams, session: Session) -> str | None:
    """Returns why the session may not append: what others say in a group must not get into a person's long-term memory.

    A request that names no session is no better: it may come from any of them.
    """
    if session.operator:
        return None
    key = params.session_key or session.session_key
    verdict = judge_request(settings, session.guest, key)
    if not verdict.allowed:
        return verdict.reason
    if params.target == "longterm" and (key is None or not is_main_session(key)):
        return "only the main session may append to the long-term memory"
    return None


async def _written(pool: BoundedWork, write: Callable[[Callable[[], bool]], T], name: str) -> T:
    """Returns what `write` returns, which asks just before it changes anything whether somebody still waits for it.

    Once it has begun a cancellation comes too late: the answer is then what happened.
    """
    done: Future[T] = Future()
    fate: dict[str, bool] = {}
    """Says whether it began or its caller gave up first; `setdefault` is one step for all threads."""

    def work() -> None:
        try:
            done.set_result(write(lambda: fate.setdefault("has_begun", True)))
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            done.set_exception(error)

    try:
        await pool.run(work, DISK_PATIENCE_S, queue_s=DISK_PATIENCE_S)
    except anyio.get_cancelled_exc_class():
        if not fate.setdefault("has_begun", False):
            raise
        with anyio.move_on_after(DISK_PATIENCE_S, shield=True):
            while not done.done():  # noqa: ASYNC110 - a thread ends it, within milliseconds
                await anyio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    if done.done():
        return done.result()
    so_far = ", and may be yet" if fate.setdefault("has_begun", False) else ""
    raise FileUnwritableError(
        f"{name} was not written within {DISK_PATIENCE_S:g} s{so_far}.", remedy=MAY_HANG
    )


def _append(
    settings: Settings, target: Target, entry: str, is_wanted: Callable[[], bool]
) -> Appended:
    if target == "daily":
        note = daily_note(settings, agent_now(settings.user_timezone).date())
        # A missing workspace is reported as such, below.
        if note.new_folder is not None and settings.workspace.is_dir():
            raise FileUnwritableError(
                f"There are no daily notes yet, and {note.new_folder}/ is not made unasked.",
                remedy="Make it, or let `memory-gateway remember --yes TEXT` do it.",
            )
        location, *_ = MemoryRoots.of(settings).locate(note.path)
        if is_left_out(location):
            raise FileUnwritableError(
                f"{note.path} is left out by a .memoryignore, a .gitignore or `exclude`: "
                "an entry there is never found.",
                remedy="Let it in (a line with `!` in .memoryignore), or keep daily notes elsewhere.",
            )
        return append_entry(location, entry, heading=note.heading, is_wanted=is_wanted)
    roots = MemoryRoots(settings.workspace)
    lower = settings.workspace / "memory.md"
    upper = settings.workspace / "MEMORY.md"
    name = lower.name if lower.exists() and not upper.exists() else upper.name
    (location,) = roots.locate(name)
    return append_entry(location, entry, is_wanted=is_wanted)


def session_methods(memory: Memory) -> list[Method[Any]]:
    """Returns the methods of the pipe that a chat runtime calls around its sessions."""
    chats = Conversations(memory)
    return [
        Method("session_start", SessionStartParams, chats.start),
        Method("memory_flush", FlushParams, chats.flush),
        Method("memory_flush_done", FlushDoneParams, chats.flush_done, accepts_notification=True),
        Method("memory_append", AppendParams, chats.append),
        Method("session_updated", SessionUpdatedParams, chats.updated, accepts_notification=True),
    ]
