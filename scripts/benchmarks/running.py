"""The configuration of gateways that are measured, the wait for their vectors, and tables of the results."""

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
    """A host that embeds in OpenAI's wire format."""

    @property
    def base_url(self) -> str: ...

    @property
    def key(self) -> str: ...


def embedding_with(host: Host, **remote: object) -> dict[str, Any]:
    """Returns settings of `memorySearch` that embed with this host."""
    remote = {"baseUrl": host.base_url, "apiKey": host.key, **remote}
    return {"provider": "openai", "remote": remote}


def home(state: Path, workspace: Path, log_level: str = "error", **search: object) -> list[str]:
    """Returns the arguments of a gateway with these settings of `memorySearch`, by default without a provider."""
    settings = {"agents": {"defaults": {"memorySearch": {"provider": "none", **search}}}}
    return configured(state, workspace, settings, log_level)


def configured(
    state: Path, workspace: Path, settings: Mapping[str, object], log_level: str = "error"
) -> list[str]:
    """Writes the settings into `state`, where the gateway keeps its files; returns the arguments of the gateway."""
    state.mkdir(parents=True, exist_ok=True)
    config = state / "openclaw.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    places = ["--workspace", str(workspace), "--state-dir", str(state), "--config", str(config)]
    return [*places, "--log-level", log_level]


async def embedded(
    client: GatewayClient, patience_s: float = 1800.0, pause_s: float = 0.05
) -> dict[str, Any]:
    """Waits until every text has its vector or has failed; returns the status then.

    A status that comes too late on a busy machine is asked for again.
    """
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
    """Returns the resident memory of a process; `RssAnon`: only the part that no other process or file shares."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no resident size of process {pid}")


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """Returns the result of the work, and the milliseconds that it took."""
    started = time.perf_counter()
    return await work, (time.perf_counter() - started) * 1000


def figures(title: str, heads: str, *more: str) -> Table:
    """Makes a table; `|` divides the heads. Columns are aligned to the right, those without a head to the left."""
    made = Table(title=title, title_justify="left")
    for head in (*map(str.strip, heads.split("|")), *more):
        made.add_column(head, justify="right" if head else "left")
    return made


def facts(title: str, rows: Mapping[str, object]) -> Table:
    """Makes a table with a name and a value in each row."""
    made = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows.items():
        made.add_row(name, str(value))
    return made
