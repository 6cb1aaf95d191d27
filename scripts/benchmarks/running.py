"""Gateways that are measured: their configuration, the wait for their vectors; and tables of what was found."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
from rich.table import Table

from gateway.client import GatewayClient, RemoteError

T = TypeVar("T")


class Host(Protocol):
    """Embeds over OpenAI's wire."""

    @property
    def base_url(self) -> str: ...

    @property
    def key(self) -> str: ...


def embedding_with(host: Host, **remote: object) -> dict[str, Any]:
    """Settings of `memorySearch`."""
    remote = {"baseUrl": host.base_url, "apiKey": host.key, **remote}
    return {"provider": "openai", "remote": remote}


def home(state: Path, workspace: Path, log_level: str = "error", **search: object) -> list[str]:
    """The arguments of a gateway with these settings of `memorySearch`: by words, unless a provider is named."""
    settings = {"agents": {"defaults": {"memorySearch": {"provider": "none", **search}}}}
    return configured(state, workspace, settings, log_level)


def configured(
    state: Path, workspace: Path, settings: Mapping[str, object], log_level: str = "error"
) -> list[str]:
    """The arguments of a gateway with these settings, written into `state`, where it keeps what it makes."""
    state.mkdir(parents=True, exist_ok=True)
    config = state / "openclaw.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    places = ["--workspace", str(workspace), "--state-dir", str(state), "--config", str(config)]
    return [*places, "--log-level", log_level]


async def embedded(
    client: GatewayClient, patience_s: float = 1800.0, pause_s: float = 0.05
) -> dict[str, Any]:
    """Waits until no text lacks its vector; the status then. One that comes too late on a busy machine is asked again."""
    with anyio.fail_after(patience_s):
        while True:
            with suppress(RemoteError):
                status: dict[str, Any] = await client.call("status", {}, timeout_s=60)
                backfill = status["details"]["vector"].get("backfill")
                if backfill and not backfill["running"] and not status["dirty"]:
                    coverage = backfill["coverage"]
                    if coverage["embedded"] + coverage["failed"] == coverage["total"] > 0:
                        return status
            await anyio.sleep(pause_s)


def resident_bytes(pid: int, kind: str = "VmRSS") -> int:
    """`RssAnon`: what no other process shares, and no file holds."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no resident size of process {pid}")


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """What comes of it, and the milliseconds that it took."""
    started = time.perf_counter()
    return await work, (time.perf_counter() - started) * 1000


def figures(title: str, heads: str, *more: str) -> Table:
    """`heads` are divided by `|`. Figures stand to the right; a first column without a head names them."""
    made = Table(title=title, title_justify="left")
    for head in (*map(str.strip, heads.split("|")), *more):
        made.add_column(head, justify="right" if head else "left")
    return made


def facts(title: str, rows: Mapping[str, object]) -> Table:
    """A name and a value each."""
    made = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows.items():
        made.add_row(name, str(value))
    return made
