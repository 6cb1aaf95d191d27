"""A note of our own, written, indexed, found and deleted, far from the user's memory.

Proves that files, index and search work together on this machine. It happens in a temporary workspace
with a temporary index, by words alone: no provider is asked.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync
from msgspec.structs import replace

from backends.interface import SyncRequest
from config.errors import MemoryGatewayError
from config.settings import Settings, StoreSettings
from gateway.agent.memory import Memory, open_memory
from gateway.doctor.finding import Finding
from gateway.tools.search import SearchParams

_TIMEOUT_S: Final = 15.0
_WORD: Final = "quillwort"
_NOTE: Final = f"# Canary\n\n- The {_WORD} sings in the temporary workspace.\n"
_NAME: Final = "memory/2026-01-01.md"
_FIX: Final = "Run it again with --log-level debug; check the disk and TMPDIR."


class _CanaryError(Exception):
    """A step did not do what it should. The message says which."""


async def sing(settings: Settings) -> list[Finding]:
    """Raises nothing for what fails: that is the finding."""
    started = time.perf_counter()
    try:
        with anyio.fail_after(_TIMEOUT_S):
            async with _temporary(settings) as (memory, note):
                await _write_and_find(memory, note)
                await _delete_and_miss(memory, note)
    except TimeoutError:
        return [_failed(f"took longer than {_TIMEOUT_S:g} s")]
    except (_CanaryError, MemoryGatewayError, OSError) as error:
        return [_failed(str(error))]
    ms = (time.perf_counter() - started) * 1000
    cause = f"A note was written, indexed, found and deleted in {ms:.0f} ms."
    return [Finding(check="canary", severity="ok", cause=cause)]


@asynccontextmanager
async def _temporary(settings: Settings) -> AsyncIterator[tuple[Memory, Path]]:
    """An empty memory, and where its only note is to be."""
    folder = await run_sync(lambda: tempfile.TemporaryDirectory(prefix="memory-gateway-doctor-"))
    with folder as name:
        root = Path(name)
        note = root / "workspace" / _NAME
        await run_sync(lambda: note.parent.mkdir(parents=True))
        async with open_memory(canary_settings(settings, root), background=False) as memory:
            yield memory, note


def canary_settings(settings: Settings, root: Path) -> Settings:
    """The user's settings, but nothing of the user's: everything lies below `root`."""
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
    result = await memory.search(params, None, operator=True)
    return [hit.path for hit in result.hits]


def _failed(cause: str) -> Finding:
    return Finding(check="canary", severity="error", cause=f"The canary: {cause}", fix=_FIX)
