"""Checks of the index file, of the process that owns it, of transcripts, and a trial with a note of its own."""

from __future__ import annotations

import glob
import os
import re
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.to_thread import run_sync
from msgspec.structs import replace

from backends.builtin.store.opening import check as check_store
from backends.builtin.store.opening import doubt, index_file, inspect, is_index
from backends.interface import IndexUnavailableError, SyncRequest
from backends.transcripts.agent_transcripts import AgentTranscripts
from config.errors import MemoryGatewayError
from config.runtime.files import try_lock_file
from config.settings import Settings, StoreSettings
from gateway.agent.memory import Memory, open_memory
from gateway.client import connect
from gateway.doctor import finding
from gateway.doctor.finding import Observation, Severity
from gateway.ownership.owner import (
    OwnerRecord,
    UntrustedSocketError,
    check_workspace,
    place_of,
    read_owner,
)
from gateway.ownership.sockets import connect_owner
from gateway.rpc.registry import Session
from gateway.tools.search import SearchParams

if TYPE_CHECKING:
    from backends.builtin.store.opening import IndexState

_INDEX_TIMEOUT_S: Final = 3.0
_CLAIMED: Final = re.compile(r"[a-z0-9_-]+(\.retry-.*)?\.sqlite\Z", re.IGNORECASE)
_REBUILD: Final = "Delete it, or let the next start set it aside: it is rebuilt from Markdown."
TIMEOUT_S: Final = 2.0
_SEVERITIES: Final[dict[str, Severity]] = {"ok": "ok", "degraded": "warning", "failing": "error"}
_OTHERS: Final = 0o077
_CANARY_TIMEOUT_S: Final = 15.0
_WORD: Final = "quillwort"
_NOTE: Final = f"# Canary\n\n- The {_WORD} grows in the temporary workspace.\n"
_NAME: Final = "memory/2026-01-01.md"
_FIX: Final = "Run it again with --log-level debug; check the disk and TMPDIR."


def check_index(settings: Settings) -> Iterator[Observation]:
    if settings.search.store.driver == "postgres":
        yield from _check_database(settings)
        return
    path = index_file(settings)
    yield _explain(inspect(settings, timeout_s=_INDEX_TIMEOUT_S), str(path))
    if (cause := doubt(settings)) is not None:
        yield finding.warning(
            cause, path, fix="Let store.path name a file on a local disk of this host."
        )
    yield from check_names(settings, path)


def _check_database(settings: Settings) -> Iterator[Observation]:
    try:
        report = check_store(settings)
    except IndexUnavailableError as error:
        yield finding.error(error.message, "store.url", fix=error.remedy)
        return
    for problem in report.problems:
        yield finding.warning(
            problem, report.place, fix="`memory-gateway store check` looks again."
        )
    if not report.problems:
        yield finding.ok(f"The index can be used: {'; '.join(report.facts)}.", report.place)


def check_names(settings: Settings, used: Path) -> Iterator[Observation]:
    """Yields our files in the state directory that OpenClaw 2026.9 takes for its own former index.

    It looks there for `<agent>.sqlite` and `<agent>.retry-*.sqlite`, wants to import what it finds, and
    does not start when it cannot.
    """
    folder = settings.state_dir / "memory"
    names = {used} if used.parent == folder else set()
    names |= {folder / f"{settings.agent_id}.sqlite"}
    names |= set(folder.glob(f"{glob.escape(settings.agent_id)}.retry-*.sqlite"))
    for path in sorted(names):
        if not _CLAIMED.match(path.name) or not (path == used or is_index(path)):
            continue
        yield finding.warning(
            "OpenClaw 2026.9 takes a file of this name for its own former index, and does not start.",
            path,
            fix=_remedy(path, used, settings.search.store),
        )


def _remedy(path: Path, used: Path, store: StoreSettings) -> str:
    if path == store.former_path:
        return "Start the gateway once (or run `memory-gateway status`): it moves the file."
    if path != used:
        return (
            "It is an older index, or a copy that OpenClaw made; this gateway does not use it: "
            f"rm {quote(str(path))}"
        )
    return "Remove store.path, or let it name a file outside of this directory."


def _explain(state: IndexState, place: str) -> Observation:
    if state.kind in {"foreign", "newer"}:
        owner = "another program" if state.kind == "foreign" else "a later release of this one"
        return finding.warning(
            f"The file belongs to {owner} and is left alone; a file beside it is used.",
            place,
            fix="Set store.path to a file of its own.",
        )
    if state.is_locked:
        return finding.error(
            state.problem,
            place,
            fix=f"Find the process (fuser {quote(place)}) and end it, if it is not a gateway at work.",
        )
    if state.problem:
        return finding.error(state.problem, place, fix=state.remedy or _REBUILD)
    return finding.ok(_soundness(state), place)


def _soundness(state: IndexState) -> str:
    if state.kind == "absent":
        return "There is no index yet; the first start creates it."
    if state.kind == "older":
        return "The index is of an earlier release; the next start rebuilds it."
    return (
        "The index is intact."
        if state.was_checked
        else "The index can be used; it is too large to be checked in full now."
    )


async def check_owner(settings: Settings) -> list[Observation]:
    lock = place_of(settings).lock
    record = read_owner(lock)
    if record is None:
        return [finding.ok("No gateway runs for this index; commands open it themselves.", lock)]
    try:
        stream = await connect_owner(lock)
    except UntrustedSocketError as error:
        return [_broken(record, lock, error)]
    if stream is None:
        return [_unreachable(record, lock)]
    try:
        async with stream, connect(stream, stream) as client:
            check_workspace(lock, settings.workspace)
            health = await client.call("health", timeout_s=TIMEOUT_S)
    except MemoryGatewayError as error:
        return [_broken(record, lock, error)]
    return [_answers(record, health), *_open_socket(record)]


def _unreachable(record: OwnerRecord, lock: Path) -> Observation:
    if not _is_held(lock, record.pid):
        cause = f"Process {record.pid}, which owned the index, is gone; the next start takes over."
        return finding.note(cause, lock)
    if record.socket is None:
        cause = f"Process {record.pid} owns the index and could not create a socket."
    else:
        cause = f"Process {record.pid} owns the index, and nothing listens on its socket."
    return finding.warning(
        f"{cause} Other processes cannot ask it.",
        record.socket or str(lock),
        fix=f"Look at its log, then end it (kill {record.pid}) and start it again; "
        "a socket needs a private directory, such as XDG_RUNTIME_DIR.",
    )


def _broken(record: OwnerRecord, lock: Path, error: MemoryGatewayError) -> Observation:
    return finding.error(
        f"The owner of the index (process {record.pid}) does not answer as it should: {error.message}",
        record.socket or str(lock),
        fix=error.remedy
        or f"End it (kill {record.pid}, or kill -9 {record.pid} if that has no effect) and start it again.",
    )


def _answers(record: OwnerRecord, health: dict[str, Any]) -> Observation:
    state = health["status"]
    reasons = " ".join(health["reasons"])
    return finding.observe(
        _SEVERITIES[state],
        f"Process {record.pid} owns the index and is {state}. {reasons}".rstrip(),
        record.socket,
        fix=None
        if state == "ok"
        else "See the other findings; `memory-gateway reload` tries again.",
    )


def _open_socket(record: OwnerRecord) -> list[Observation]:
    """Warns if other users can enter the directory, which alone protects the socket."""
    assert record.socket is not None
    directory = Path(record.socket).parent
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & _OTHERS:
        return []
    return [
        finding.warning(
            f"Other users can enter the directory of the socket (mode {mode:03o}).",
            directory,
            fix=f"chmod 700 {quote(str(directory))}",
        )
    ]


def _is_held(lock: Path, pid: int) -> bool:
    """Returns whether the owner lives. Its number alone says little: another process may have it by now."""
    try:
        descriptor = try_lock_file(lock)
    except OSError:  # another user's, or on a mount without locks
        return _lives(pid)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, and alive
    return True


class _CanaryError(Exception):
    """A step did not do what it should. The message says which."""


async def check_canary(settings: Settings) -> list[Observation]:
    """Writes, finds and deletes a note in a temporary workspace; a step that fails is the finding."""
    started = time.perf_counter()
    try:
        with anyio.fail_after(_CANARY_TIMEOUT_S):
            async with _temporary(settings) as (memory, note):
                await _write_and_find(memory, note)
                await _delete_and_miss(memory, note)
    except TimeoutError:
        return [_failed(f"took longer than {_CANARY_TIMEOUT_S:g} s")]
    except (_CanaryError, MemoryGatewayError, OSError) as error:
        return [_failed(str(error))]
    ms = (time.perf_counter() - started) * 1000
    return [finding.ok(f"A note was written, indexed, found and deleted in {ms:.0f} ms.")]


@asynccontextmanager
async def _temporary(settings: Settings) -> AsyncIterator[tuple[Memory, Path]]:
    """Yields an empty memory and the path for its only note."""
    folder = await run_sync(lambda: tempfile.TemporaryDirectory(prefix="memory-gateway-doctor-"))
    with folder as name:
        root = Path(name)
        note = root / "workspace" / _NAME
        await run_sync(lambda: note.parent.mkdir(parents=True))
        async with open_memory(canary_settings(settings, root), background=False) as memory:
            yield memory, note


def canary_settings(settings: Settings, root: Path) -> Settings:
    """Returns the user's settings with all files and directories below `root`: nothing of the user's is touched."""
    search = replace(
        settings.search,
        enabled=True,
        provider="none",
        sources=("memory",),
        extra_paths=(),
        store=StoreSettings(path=root / "index" / "canary.sqlite"),
    )
    return replace(
        settings,
        workspace=root / "workspace",
        notes_folder=None,
        state_dir=root,
        sessions_dir=root / "sessions",
        search=search,
        backend="builtin",
        memory_slot=None,
    )


async def _write_and_find(memory: Memory, note: Path) -> None:
    await run_sync(lambda: note.write_text(_NOTE, encoding="utf-8"))
    report = await memory.sync(SyncRequest(reason="cli"))
    if report is None or report.added != 1:
        raise _CanaryError("the note was written and not indexed")
    if await _found(memory) != [_NAME]:
        raise _CanaryError("the note was indexed and not found")


async def _delete_and_miss(memory: Memory, note: Path) -> None:
    await run_sync(note.unlink)
    await memory.sync(SyncRequest(reason="cli"))
    if await _found(memory):
        raise _CanaryError("the note was deleted and is still found")


async def _found(memory: Memory) -> list[str]:
    params = SearchParams(query=_WORD, min_score=0.0)
    result = await memory.find(params, Session(operator=True))
    return [hit.path for hit in result.hits]


def _failed(cause: str) -> Observation:
    return finding.error(f"The canary: {cause}", fix=_FIX)


def check_transcripts(settings: Settings) -> Iterator[Observation]:
    """Checks the transcripts; yields nothing if they are neither a source nor exported."""
    if "sessions" not in settings.search.sources and not settings.qmd.sessions.enabled:
        return
    listing = AgentTranscripts.of(settings).listing()
    for path, why, _ in listing.failures:
        place = path if path != "sessions" else str(settings.sessions_dir)
        yield finding.warning(
            f"Conversations cannot be read, and are searched as they were last indexed: {why}",
            place,
            fix="Start OpenClaw once, check the owner and mode of the file, or install a newer gateway.",
        )
    if listing.failures:
        return
    database = listing.database
    place = database.path if database else str(settings.sessions_dir)
    yield finding.ok(f"Conversations that can be read: {len(listing.files):,}.", place)
    if database is not None and not database.is_known:
        yield finding.note(
            f"OpenClaw's database has version {database.version}, which this gateway was not tested with; it has the "
            "tables that are needed.",
            place,
            fix="See whether a newer gateway is available.",
        )
