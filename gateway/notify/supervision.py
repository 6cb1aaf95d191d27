"""When a service is ready, and what its status line says while it works.

Owns the rule that it is ready only when its index can answer, and the sentence for `systemctl status`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from config.groups import ungrouped
from gateway.agent.memory import Memory
from gateway.metrics.measures import Metrics
from gateway.notify.notifier import Notifier
from gateway.tools.health import Health

_RETRY_S: Final = 0.5
_PERIOD_S: Final = 10.0


@asynccontextmanager
async def supervised(notifier: Notifier, memory: Memory) -> AsyncIterator[None]:
    """Says ready as soon as the memory can answer, and how it is for as long as the body runs."""
    if not notifier.listens:
        yield
        return
    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_supervise, notifier, memory)
            yield
            tasks.cancel_scope.cancel()


async def _supervise(notifier: Notifier, memory: Memory) -> None:
    while (health := await memory.health()).status == "failing":
        notifier.status(f"Cannot answer yet: {health.reasons[0]}")
        await anyio.sleep(_RETRY_S)
    notifier.ready(await status_line(memory))
    while True:
        await anyio.sleep(_PERIOD_S)
        notifier.status(await status_line(memory))


async def status_line(memory: Memory) -> str:
    """`Agent main: ok. 48 files at the last sync (09:41, boot), 12 searches.`"""
    return describe(memory.settings.agent_id, await memory.health(), memory.counted)


def describe(agent_id: str, health: Health, metrics: Metrics) -> str:
    state = health.status + (f" ({health.reasons[0].rstrip('.')})" if health.reasons else "")
    searches = sum(metrics.activity().searches.values())
    parts = [f"{searches:,} searches" if searches != 1 else "1 search"]
    if metrics.last_sync is not None:
        sync = metrics.last_sync
        at = time.strftime("%H:%M", time.localtime(metrics.last_sync_at))
        parts.insert(0, f"{sync.scanned:,} files at the last sync ({at}, {sync.reason})")
    return f"Agent {agent_id}: {state}. {', '.join(parts)}."
