"""The real QMD for tests, settings that use it, and programs that misbehave around it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

from backends.interface import SearchAnswer, SearchRequest
from backends.qmd.backend import QmdBackend
from backends.qmd.process import QmdUnavailableError
from config.settings import QmdLimits, QmdUpdateSettings, Settings, SyncSettings
from fakes.settings import make_settings

T = TypeVar("T")

SETUP = Path(__file__).resolve().parents[2] / "scripts/qmd-setup"
PATIENCE_S = 120.0
"""The longest wait for anything; the machine may be busy."""


def install_qmd() -> str:
    """Returns the command of a real QMD; skips the test where it cannot be installed."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so the real QMD cannot be")
    done = subprocess.run(
        [str(SETUP)],
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"QMD could not be installed: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Returns variables without the user's own QMD: another home, no models, a short list."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **more}


def write_notes(workspace: Path) -> None:
    (workspace / "memory").mkdir(parents=True)
    write(workspace / "MEMORY.md", "# Memory\n\n- The boiler is serviced by Hartmann.\n")
    write(
        workspace / "memory/2026-02-01.md",
        "# Sunday\n\n- The greenhouse sensor reported minus four degrees.\n- Ordered a membrane.\n",
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def qmd_settings(
    root: Path,
    command: str,
    *,
    agent: str = "main",
    update: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **changes: Any,
) -> Settings:
    """Returns settings with lexical search, no pause between updates and long timeouts, where not given otherwise."""
    search = {"sync": SyncSettings(search_budget_ms=20_000)}
    settings = make_settings(root, agent=agent, backend="qmd", search=search)
    qmd = msgspec.structs.replace(
        settings.qmd,
        command=command,
        update=QmdUpdateSettings(**{"debounce_ms": 0, "interval_ms": 0, **(update or {})}),
        limits=QmdLimits(**{"timeout_ms": 60_000, **(limits or {})}),
        **{"search_mode": "search", **changes},
    )
    return msgspec.structs.replace(settings, qmd=qmd)


def wrapper(path: Path, command: str, before: str = "", after: str = "") -> str:
    """Writes a shell script around the real program, which gets its arguments; returns its path."""
    real = shlex.quote(str(Path(command).parent))
    script = f'#!/bin/sh\nPATH={real}:$PATH\n{before}\n{shlex.quote(command)} "$@"\ncode=$?\n{after}\nexit $code\n'
    write(path, script).chmod(0o755)
    return str(path)


async def until(condition: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Waits until `condition` returns something; fails with `what` after `PATIENCE_S`."""
    with anyio.move_on_after(PATIENCE_S):
        while True:
            if value := await condition():
                return value
            await anyio.sleep(0.02)
    pytest.fail(f"did not happen within {PATIENCE_S:g} s: {what}")


async def answered(backend: QmdBackend, query: str, **fields: Any) -> SearchAnswer:
    """Asks until QMD itself answers, and returns that answer."""
    failures: list[str] = []

    async def ask() -> SearchAnswer | None:
        try:
            return await backend.search(SearchRequest(query=query, **fields))
        except QmdUnavailableError as error:
            failures.append(str(error))
            return None

    return await until(ask, f"an answer to {query!r} ({failures[-1:]})")


async def failing(backend: QmdBackend, query: str = "boiler") -> QmdUnavailableError:
    """Asks once and returns the failure."""
    with pytest.raises(QmdUnavailableError) as caught:
        await backend.search(SearchRequest(query=query))
    return caught.value


def processes_in(home: Path) -> list[int]:
    """Returns the processes whose environment names this QMD home."""
    needle = f"QMD_CONFIG_DIR={home}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if needle in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
