"""The activities of the gateway during which faults begin.

Each activity prepares its agent while no process runs, then keeps the gateway at work until it is
stopped or the gateway is gone. Its work must be safe to repeat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio

from config.errors import MemoryGatewayError
from endurance import local_model
from endurance.agent import ANSWER_S, OTHER_QUERIES, QUERY, Agent
from endurance.run import Run

_PAUSE_S: Final = 0.02
"""The pause after a refusal."""
_SPAN_S: Final = 0.6
"""Faults begin within this time after the work began."""
_BETWEEN_EDITS_S: Final = 0.5
"""Long enough for a download to begin, which waits until notes stop changing."""
BACKLOG: Final = 1_100
"""The number of texts; from a thousand on they go into batch jobs."""


async def _soon(run: Run) -> None:
    await anyio.sleep(run.rng.uniform(0.0, _SPAN_S))


async def _once_embedding(run: Run) -> None:
    """Waits until a text of a note has been paid for, if a host embeds, however slow the machine is."""
    if run.agent.embeds:
        await run.until_paid()
    await _soon(run)


class Activity(NamedTuple):
    name: str
    about: str
    work: Callable[[Run], Awaitable[None]]
    """Does one round of the activity."""
    prepare: Callable[[Agent], None] = lambda _agent: None
    embeds: bool = False
    """True if it needs a host that embeds."""
    sessions: bool = False
    fetches: bool = False
    """True if a local model embeds, which has to be fetched first."""
    instant: Callable[[Run], Awaitable[None]] = _soon
    """Waits for the moment at which the fault begins."""
    missing: Callable[[], str | None] = lambda: None
    """Returns why this machine cannot do it, or None."""


async def _sync(run: Run) -> None:
    await run.gateway.call("sync", {}, timeout_s=ANSWER_S)


async def _resync(run: Run) -> None:
    run.agent.edit()
    await _sync(run)


async def _rebuild(run: Run) -> None:
    await run.gateway.call("sync", {"force": True}, timeout_s=ANSWER_S)


async def _search(run: Run) -> None:
    run.agent.edit()
    async with anyio.create_task_group() as tasks:
        for query in (QUERY, *OTHER_QUERIES, QUERY):
            tasks.start_soon(_one_search, run, query)


async def _one_search(run: Run, query: str) -> None:
    if query == QUERY:
        await quietly(run, run.ask())
    else:
        params = {"query": query, **run.params}
        await quietly(run, run.gateway.call("memory_search", params, timeout_s=ANSWER_S))


async def _grow(run: Run) -> None:
    run.agent.talk(2)
    for transcript in run.agent.transcripts:
        await run.gateway.notify("session_updated", {"path": str(transcript.path)})
    await _sync(run)


async def _converse(run: Run) -> None:
    run.agent.converse(2)
    for session in run.agent.conversations:
        await run.gateway.notify("session_updated", {"sessionId": session.name})
    await _sync(run)


async def _shut_down(run: Run) -> None:
    await run.gateway.call("health", {}, timeout_s=ANSWER_S)
    await run.gateway.notify("sync", {"force": True})
    await anyio.sleep(run.rng.uniform(0, 0.1))
    process = run.gateway.process
    assert process.stdin is not None
    if run.rng.random() < 0.5:
        await process.stdin.aclose()
    elif run.is_alive:
        process.terminate()
    await process.wait()


def _write_backlog(agent: Agent) -> None:
    agent.forget_index()
    agent.write_backlog(BACKLOG)


async def _edit_now_and_then(run: Run) -> None:
    await _resync(run)
    await anyio.sleep(_BETWEEN_EDITS_S)


async def quietly(run: Run, work: Awaitable[object]) -> None:
    """Awaits the work, which may end with an error: the allowed errors are checked elsewhere."""
    try:
        await work
    except MemoryGatewayError:
        run.incomplete += 1


async def keep_at_work(activity: Activity, run: Run) -> None:
    """Repeats the activity until the gateway is gone. On a full disk the host writes no transcript either."""
    while run.is_alive:
        try:
            await activity.work(run)
        except (MemoryGatewayError, OSError):
            run.incomplete += 1
            await anyio.sleep(_PAUSE_S)


ACTIVITIES: Final = (
    Activity("first-index", "the first index of all notes", _sync, Agent.forget_index),
    Activity("re-sync", "notes change, and a sync follows", _resync),
    Activity("rebuild", "every note is indexed again", _rebuild, instant=_once_embedding),
    Activity("search", "searches while notes change", _search),
    Activity("transcripts", "transcripts grow, and are taken in", _grow, sessions=True),
    Activity(
        "conversations",
        "conversations grow in the host's database, and are taken in",
        _converse,
        Agent.begin_conversations,
        sessions=True,
    ),
    Activity(
        "batch",
        "a backlog of texts is embedded by batch jobs",
        _resync,
        _write_backlog,
        embeds=True,
    ),
    Activity("shutdown", "an orderly end in the middle of a rebuild", _shut_down),
    Activity(
        "download",
        "the local model is fetched while notes change",
        _edit_now_and_then,
        local_model.forget,
        fetches=True,
        instant=local_model.midway,
        missing=local_model.missing,
    ),
)
