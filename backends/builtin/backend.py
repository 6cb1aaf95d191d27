"""The builtin engine behind the `MemoryBackend` interface."""

from __future__ import annotations

import math
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import msgspec
from anyio import CancelScope, create_task_group

from backends.builtin.embedding.semantics import Meaning, Semantics
from backends.builtin.index_status import probe_weaknesses, report_status, try_out
from backends.builtin.links import links_in, resolve_links
from backends.builtin.searching import Found, Searcher
from backends.builtin.store.leasing import LeaseHolder
from backends.builtin.store.opening import connect
from backends.builtin.store.port import (
    READERS,
    SCRUB_LIMIT_S,
    IndexDamagedError,
    Store,
    View,
)
from backends.builtin.syncing.freshness import Freshness
from backends.builtin.syncing.indexing import Indexer
from backends.builtin.syncing.preparing import Preparer, chunk_limits
from backends.builtin.syncing.sessions import SessionIndexer, places_of
from backends.builtin.syncing.surveying import Surveyor
from backends.chunking import ChunkLimits
from backends.files.reading import NoteReads, not_found, read_lines
from backends.files.roots import MemoryRoots
from backends.interface import (
    BackendStatus,
    BackfillState,
    ForgetReport,
    ForgetRequest,
    IndexUnavailableError,
    Overview,
    ProgressCallback,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SearchRequest,
    Stale,
    SyncReport,
    SyncRequest,
    Trial,
    out_of_reach,
)
from backends.transcripts.agent_transcripts import (
    AgentTranscripts,
    is_conversation,
    read_conversation,
)
from config.errors import ungrouped
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork, SearchPriority, background_tasks
from config.settings import Settings

if TYPE_CHECKING:
    from providers.provider_interface import QueryVector

_log = Log()

T = TypeVar("T")

INDEX_PATIENCE_S: Final = 30.0
"""The longest that a call may take on a busy disk; the wait before it has the same limit once more."""
_LATEST_S: Final = 1.5
"""The time that connecting may take beyond the call itself, if a server's name cannot be resolved."""


CHOICE_PATIENCE_S: Final = 0.3
"""The time that `health` waits until it is known which provider is in use; a probe has one second in all."""
STATUS_CHOICE_PATIENCE_S: Final = 3.0
"""`status` is for people, who can wait; the libraries are slow to load on a busy machine."""
STATUS_PATIENCE_S: Final = 10.0
"""`status` lists the disk, and a mount may hang."""
ERASE_EVERY_S: Final = 20.0
"""Deleted text is gone from every file within a minute. Each time costs 16 µs of a core for each stored chunk
(`docs/benchmarks.md`), so it is not done more often, and text that was deleted together is erased together."""
ERASE_AGAIN_S: Final = 3.0
"""The pause after an attempt that readers or writers blocked."""
ERASING_PAUSES: Final = 10
"""The pause after an attempt lasts at least so many times as long as the attempt: an index of gigabytes is read and
written as a whole, which takes minutes."""
ERASING_S: Final = 600.0
"""An index of some gigabytes may have to be rewritten."""
_SCRUB_PATIENCE_S: Final = 2 * SCRUB_LIMIT_S
SERVER_PATIENCE_S: Final = 5.0
"""The time that a search waits for a server in all. A server that does not answer in that time is not waited for
again until it does."""
_LINKS_PATIENCE_S: Final = 2.0
"""A file is read even if its links cannot be resolved."""
LOADING_AFTER_S: Final = 3.0
"""The time after the start when what questions need is loaded: by then the first answer has been given."""
_FIRST_QUESTION: Final = "When did I note that, yesterday or 昨日?"
"""Its days are read by the patterns of every script."""
OPENING_PATIENCE_S: Final = 60.0
"""A large log may have to be replayed, and a disk may have to spin up."""


class IndexCalls:
    """The calls of one event loop against one store. Calls of one kind wait for each other, never for another kind."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.searches = BoundedWork("search of the index", READERS)
        self.scans = BoundedWork("scan ahead", READERS)
        self.probes = BoundedWork("probe of the index", READERS)
        self.growing = BoundedWork("growth of transcripts")
        self.tidying = BoundedWork("unused space of the index")
        self.reports = BoundedWork("status")

    async def read(
        self, kind: BoundedWork, work: Callable[[View], T], until: float = math.inf
    ) -> T:
        """Runs the work in one view of the index. Raises what `run` raises."""

        def in_view() -> T:
            with self._store.view(until=until) as view:
                return work(view)

        return await self.run(kind, in_view, until)

    async def run(self, kind: BoundedWork, work: Callable[[], T], until: float = math.inf) -> T:
        """Returns what the work returns. Raises IndexUnavailableError when the index does not answer.

        `until` is a time of `time.monotonic`.
        """
        latest_s = until + _LATEST_S - time.monotonic()
        patience_s = min(INDEX_PATIENCE_S, latest_s)
        try:
            with anyio.fail_after(latest_s):
                return await kind.run(work, patience_s, queue_s=patience_s)
        except TimeoutError:
            raise IndexUnavailableError(
                f"The index did not answer within {patience_s:.0f} s.",
                remedy="See whether the disk or the database that it is on hangs.",
            ) from None

    async def mended(self, call: Callable[[], Awaitable[T]]) -> T:
        """Returns what the call returns. Repeats a call that found the index damaged: by then it has been replaced."""
        try:
            return await call()
        except IndexDamagedError:
            return await call()

    async def settled(self, call: Callable[[], Awaitable[T]]) -> T:
        """Does the same as `mended`; also repeats the call if the index was replaced meanwhile by an empty one."""
        generation = self._store.generation
        answer = await self.mended(call)
        return answer if generation == self._store.generation else await self.mended(call)


class BuiltinBackend:
    """The memory of one agent in its own index. Make it with `open_builtin`."""

    def __init__(
        self, settings: Settings, store: Store, limits: ChunkLimits, *, background: bool
    ) -> None:
        """`background`: vectors come and deleted text is erased while nobody asks; else whoever asks waits for both."""
        search = settings.search
        self._settings = settings
        self._background = background
        self._store = store
        self._roots = MemoryRoots.of(settings)
        self._priority = SearchPriority()
        preparer = Preparer(limits, give_way=self._priority.give_way)
        self._transcripts = AgentTranscripts.of(settings)
        self._sessions = SessionIndexer(
            store,
            self._transcripts,
            preparer,
            search.sync.sessions,
            enabled="sessions" in search.sources,
        )
        self._reads_conversations = self._sessions.enabled or (
            settings.backend == "qmd" and settings.qmd.sessions.enabled
        )
        """True if conversations are searched at all, by this engine or by QMD."""
        self._surveyor = Surveyor(
            store, self._roots, preparer.notes_pipeline, self._sessions, places_of(settings)
        )
        self._freshness = Freshness(
            Indexer(store, self._surveyor, preparer),
            priority=self._priority,
            on_written=self._embed_soon,
        )
        self._semantics = Semantics(
            settings,
            store,
            backfill=background,
            is_indexing=self._freshness.is_syncing,
            priority=self._priority,
        )
        self._searcher = Searcher(search)
        self._calls = IndexCalls(store)
        self._scrubbing = BoundedWork("scrub of the index")
        self._verifying = LeaseHolder(store, "verify")
        self._reads = NoteReads()
        self._erasing = BoundedWork("erasing of deleted text")
        self._forgetting = BoundedWork("forgetting")

    async def run(self) -> None:
        """Does the background work until cancelled: choosing a provider, embedding what has no vector, erasing."""
        async with create_task_group() as tasks:
            tasks.start_soon(self._erase_regularly)
            tasks.start_soon(self._semantics.run)
            if self._background:
                tasks.start_soon(self._load_for_questions)

    async def _load_for_questions(self) -> None:
        """Asks what nobody waits for: the first question for a day compiles patterns for a tenth of a second."""
        await anyio.sleep(LOADING_AFTER_S)
        with suppress(Exception):  # a search reports it
            await self._find(SearchRequest(query=_FIRST_QUESTION), None, math.inf, is_level=True)

    async def _erase_regularly(self) -> None:
        pause_s = ERASE_EVERY_S
        while True:
            await anyio.sleep(pause_s)
            started = time.monotonic()
            least_s = ERASE_EVERY_S if await self._erase() else ERASE_AGAIN_S
            pause_s = max(least_s, ERASING_PAUSES * (time.monotonic() - started))

    async def _erase(self) -> bool:
        """Erases deleted text; returns whether none of it is left in the files."""
        try:
            erase = self._store.erase_deleted
            # Behind another attempt it waits: a command ends when the text is gone.
            return await self._calls.mended(
                lambda: self._erasing.run(erase, ERASING_S, queue_s=ERASING_S)
            )
        except TimeoutError:
            _log.warning("deleted text not erased yet", seconds=ERASING_S)
        except IndexUnavailableError as error:
            _log.warning("deleted text not erased yet", error=str(error), kind=error.kind)
        return False

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self._calls.settled(lambda: self._search(request))

    async def _search(self, request: SearchRequest) -> SearchAnswer:
        started = time.perf_counter()
        until = time.monotonic() + SERVER_PATIENCE_S if self._store.is_shared else math.inf
        stale, meaning, swept_s = await self._prepare(request)
        prepared = time.perf_counter()
        is_level = stale is None and self._settings.search.sync.on_search
        with self._priority.searching():
            found = await self._find(request, meaning.vector, until, is_level=is_level)
        done = time.perf_counter()
        made_by = meaning.vector.fingerprint if meaning.vector else self._semantics.fingerprint
        if meaning.vector is not None:
            self._semantics.searched(meaning.vector.fingerprint)
        if not found.hits and stale is None:
            stale = self._freshness.last_look.denied
        is_partial = stale is not None and self._lacks_a_place(request)
        return SearchAnswer(
            hits=found.hits,
            outcome="ok" if found.hits else "partial" if is_partial else "empty",
            backend="builtin",
            mode=found.mode,
            provider=made_by.provider if made_by else None,
            model=made_by.model if made_by else None,
            fallback=self._semantics.fallback,
            stale=stale,
            warning=meaning.warning or self._why_less(meaning, found),
            undated=found.undated,
            timings_ms={
                "sweep": round(swept_s * 1000, 2),
                "prepare": round((prepared - started) * 1000, 2),
                "search": round((done - prepared) * 1000, 2),
            },
        )

    async def _prepare(self, request: SearchRequest) -> tuple[Stale | None, Meaning, float]:
        """Brings the index up to date while the provider embeds the query.

        Also returns how many seconds the former took.
        """
        started = time.perf_counter()
        sync = self._settings.search.sync
        budget_s = sync.search_budget_ms / 1000 if sync.on_search else None
        if self._semantics.is_off:
            stale = await self._freshness.before_search(budget_s)
            return stale, self._semantics.no_meaning(), time.perf_counter() - started
        meaning = Meaning()

        async def understand() -> None:
            nonlocal meaning
            meaning = await self._semantics.meaning(request.query, request.vector_patience_s)
            await self._scan_ahead(meaning)

        with ungrouped():
            async with create_task_group() as tasks:
                tasks.start_soon(understand)
                stale = await self._freshness.before_search(budget_s)
                swept_s = time.perf_counter() - started
        return stale, meaning, swept_s

    async def _scan_ahead(self, meaning: Meaning) -> None:
        """Does early the part of a search by vector that need not wait for the index, if that takes long."""
        vectors = self._semantics.vectors
        if meaning.vector is not None and vectors is not None and vectors.is_long:
            scan = partial(vectors.scan_ahead, meaning.vector.vector)
            await self._calls.run(self._calls.scans, scan)

    async def _find(
        self, request: SearchRequest, vector: QueryVector | None, until: float, *, is_level: bool
    ) -> Found:
        """Searches without files that are gone: an index that is not up to date may still contain some."""

        async def ask(without: Collection[str]) -> Found:
            search = partial(self._searcher.search, request=request, vector=vector, without=without)
            return await self._calls.read(self._calls.searches, search, until)

        found = await ask(())
        if is_level or not found.hits:
            return found
        gone = await self._freshness.gone({(hit.source, hit.path) for hit in found.hits})
        return await ask(gone) if gone else found

    def _lacks_a_place(self, request: SearchRequest) -> bool:
        """Returns whether an answer may be in a place that the last look at the disk could not read."""
        asks_conversations = request.sources is None or "sessions" in request.sources
        look = self._freshness.last_look
        return (look.lacks_conversations and asks_conversations) or look.is_denied

    def _why_less(self, meaning: Meaning, found: Found) -> str | None:
        """Returns why no note was searched, or why a query with a vector was answered by keywords; else None."""
        if found.is_filtered_out:
            return "No note passes the filters (include, exclude, tags, after, before)."
        if meaning.vector is None or found.mode != "keyword":
            return None
        if found.has_vectors:  # perhaps none of the permitted files
            return found.obstacle and f"Answered by keywords: {found.obstacle}."
        model = meaning.vector.fingerprint.model
        by_whom = "" if self._background else "; `memory-gateway index` and a gateway that runs do"
        return f"Answered by keywords: {model} has not embedded any note yet{by_whom}."

    async def read(self, request: ReadRequest) -> ReadAnswer:
        if self._reads_conversations and is_conversation(request.path):
            read = partial(read_conversation, self._transcripts)
            return await self._reads.run(read, request)
        return await self._reads.run(self._read, request)

    def _read(self, request: ReadRequest) -> ReadAnswer:
        """Reads a note by its path or by a wiki link, and resolves the links in its text.

        A note whose whole place is not mounted may still exist, so it is not reported as "not found".
        """
        written = request.path.strip()
        named = links_in(written) if written.startswith("[[") else ()
        if named:
            path = self._links(named).get(named[0], written)
            if path == written and written.endswith("]]"):
                return not_found(written, request)
            request = msgspec.structs.replace(request, path=path)
        answer = read_lines(self._roots, request)
        reason = self._surveyor.out_of_reach(answer.path) if answer.status == "not_found" else None
        if reason is not None:
            raise out_of_reach(answer.path, reason)
        return msgspec.structs.replace(answer, links=self._links(links_in(answer.text)))

    def _links(self, names: Sequence[str]) -> Mapping[str, str]:
        """Resolves links. If the index cannot answer, none is resolved, and the file is read all the same."""
        if not names:
            return {}
        try:
            with self._store.view(until=time.monotonic() + _LINKS_PATIENCE_S) as view:
                return resolve_links(view.files, names)
        except IndexUnavailableError as error:
            _log.warning("links not resolved", error=str(error), kind=error.kind)
            return {}

    async def away(self, *, look: bool) -> str | None:
        """Returns why notes are missing that may come back, as of now or of the last look at the disk."""
        try:
            return await self._calls.mended(lambda: self._freshness.away(look=look))
        except IndexUnavailableError:  # a search of this index reports it
            return None

    async def out_of_reach(self, path: str) -> str | None:
        """Returns why a note that was not found may still exist: its place is unavailable."""
        return await self._freshness.out_of_reach(path)

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport:
        report = await self._calls.mended(lambda: self._sync(request, progress))
        if report.added or report.changed or report.removed or request.force:
            await self._give_back_space()
            if not self._background:  # the process may end before this is due
                await self._erase()
        return report

    async def _sync(self, request: SyncRequest, progress: ProgressCallback | None) -> SyncReport:
        if not (request.force or request.verify):
            return await self._freshness.sync(request, progress)
        async with self._verifying.if_free() as is_ours:
            if is_ours:
                with suppress(TimeoutError):  # an earlier full survey still runs
                    await self._scrubbing.run(self._store.scrub, _SCRUB_PATIENCE_S)
            else:
                request = msgspec.structs.replace(request, verify=False)  # it is being done now
            return await self._freshness.sync(request, progress)

    async def embed(self, *, progress: ProgressCallback | None = None) -> BackfillState | None:
        return await self._calls.mended(lambda: self._semantics.embed_all(progress))

    def retire(self) -> None:
        self._semantics.retire()

    async def forget(self, request: ForgetRequest) -> ForgetReport:
        from backends.builtin.forgetting import forget  # noqa: PLC0415 - rarely asked for

        work = partial(forget, self._store, self._surveyor, request)
        try:
            return await self._calls.mended(lambda: self._forgetting.run(work, ERASING_S))
        except TimeoutError:
            raise IndexUnavailableError(
                f"It was not forgotten within {ERASING_S:g} s; what was begun goes on.",
                remedy="See whether the disk is slow, and ask again.",
            ) from None

    async def transcript_grew(self, reference: str) -> bool:
        is_due = partial(self._sessions.is_due, reference)
        return await self._calls.mended(lambda: self._calls.run(self._calls.growing, is_due))

    async def status(self) -> BackendStatus:
        await self._semantics.choice_made(STATUS_CHOICE_PATIENCE_S)
        parts = (self._settings, self._store, self._surveyor, self._freshness, self._semantics)
        report = partial(report_status, *parts)
        patience_s = STATUS_PATIENCE_S
        try:
            return await self._calls.mended(
                lambda: self._calls.reports.run(report, patience_s, queue_s=patience_s)
            )
        except TimeoutError:
            raise IndexUnavailableError(
                f"Disk and index could not be compared within {STATUS_PATIENCE_S:g} s.",
                remedy="Ask again; if it lasts, see whether the machine is very busy or a network mount hangs.",
            ) from None

    async def overview(self) -> Overview:
        def look(view: View) -> Overview:
            return view.files.overview()

        return await self._calls.mended(lambda: self._calls.read(self._calls.probes, look))

    async def weaknesses(self) -> tuple[str, ...]:
        await self._semantics.choice_made(CHOICE_PATIENCE_S)
        parts = (self._settings, self._store, self._freshness, self._semantics)
        probe = partial(probe_weaknesses, *parts)
        return await self._calls.mended(lambda: self._calls.run(self._calls.probes, probe))

    async def try_out(self, timeout_s: float) -> tuple[Trial, ...]:
        return await try_out(self._store, self._semantics, timeout_s)

    def _embed_soon(self) -> None:
        """Called when new texts lack their vectors."""
        self._semantics.wake()

    async def _give_back_space(self) -> None:
        try:
            await self._calls.run(self._calls.tidying, self._store.tidy)
        except IndexUnavailableError as error:  # the sync itself was a success
            _log.warning("unused space not given back", error=str(error), kind=error.kind)


@asynccontextmanager
async def open_store(
    settings: Settings, *, is_owner: bool = False, may_make: Callable[[], bool] = lambda: True
) -> AsyncIterator[Store]:
    """Opens the index, as `connect` does, for backends that use it one after the other.

    Raises IndexUnavailableError.
    """
    open_index = partial(connect, settings, is_owner=is_owner, may_make=may_make)
    opening = BoundedWork("opening of the index")
    try:
        store = await opening.run(open_index, OPENING_PATIENCE_S, discard=methodcaller("close"))
    except TimeoutError:
        raise IndexUnavailableError(
            f"The index could not be opened within {OPENING_PATIENCE_S:g} s.",
            remedy="See whether the disk or the database that it is on hangs.",
        ) from None
    try:
        yield store
    finally:
        # A log that stays open would slow down the next start.
        with CancelScope(shield=True), suppress(TimeoutError):
            await opening.run(store.close, INDEX_PATIENCE_S)


@asynccontextmanager
async def open_builtin(
    settings: Settings, *, background: bool = True, store: Store | None = None
) -> AsyncIterator[BuiltinBackend]:
    """Opens or makes the index of the agent; with `background` texts get their vectors meanwhile.

    An open `store` stays open: a process must not open its index file twice. Raises
    IndexUnavailableError.
    """
    if store is None:
        async with (
            open_store(settings, is_owner=background) as own,
            open_builtin(settings, background=background, store=own) as backend,
        ):
            yield backend
        return
    sizing = BoundedWork("limits of chunks")
    try:
        limits = await sizing.run(partial(chunk_limits, settings), OPENING_PATIENCE_S)
    except TimeoutError:
        raise IndexUnavailableError(
            f"The file of the local model could not be read within {OPENING_PATIENCE_S:g} s.",
            remedy="See whether the disk that it is on hangs (local.modelPath).",
        ) from None
    backend = BuiltinBackend(settings, store, limits, background=background)
    async with background_tasks() as tasks:
        tasks.start_soon(backend.run)
        yield backend
