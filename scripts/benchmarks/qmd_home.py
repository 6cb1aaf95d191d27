"""Gateways with QMD behind them, and the QMD processes that belong to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from gateway.client import GatewayClient

DIRECT_CHAT = "agent:main:main"
PATIENCE_S = 300


def qmd_settings(command: str, **more: Any) -> dict[str, object]:
    """Returns a configuration in which QMD answers by words, unless `more` says otherwise."""
    return {
        "memory": {"backend": "qmd", "qmd": {"command": command, "searchMode": "search", **more}}
    }


async def search(client: GatewayClient, query: str) -> dict[str, Any]:
    params = {"query": query, "sessionKey": DIRECT_CHAT}
    answer: dict[str, Any] = await client.call("memory_search", params, timeout_s=60)
    return answer


async def qmd_status(client: GatewayClient) -> dict[str, Any]:
    section: dict[str, Any] = (await client.call("status", timeout_s=60))["details"]["qmd"]
    return section


async def served_by_qmd(client: GatewayClient) -> None:
    """Waits until QMD itself answers."""
    with anyio.fail_after(PATIENCE_S):
        while (await search(client, "what is known"))["backend"] != "qmd":  # noqa: ASYNC110 - another process
            await anyio.sleep(0.05)


def qmd_processes(below: Path) -> Iterator[tuple[int, str]]:
    """Yields the number and command line of every process that works in a QMD home below a directory."""
    mark = f"QMD_CONFIG_DIR={below}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if any(one.startswith(mark) for one in (entry / "environ").read_bytes().split(b"\0")):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(entry.name), os.fsdecode(line).strip()
        except OSError:
            continue
