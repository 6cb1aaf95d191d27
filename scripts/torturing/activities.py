"""What the gateway is doing when a fault strikes.

Each activity prepares its subject while no process runs, then keeps the gateway at work until it is
stopped or the gateway is gone. What it does must be safe to do again and again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio

from config.errors import MemoryGatewayError
from torturing import models
from torturing.scene import ANSWER_S, Scene
from torturing.subject import QUERY, Subject

_PAUSE_S: Final = 0.02
"""After a refusal."""
_SPAN_S: Final = 0.6
"""Faults strike within so many seconds after the work began."""
_BETWEEN_EDITS_S: Final = 0.5
"""A download begins when the notes have come to rest."""
BACKLOG: Final = 1_100
"""Texts; from a thousand on they go into batch jobs."""


async def _soon(scene: Scene) -> None:
    await anyio.sleep(scene.rng.uniform(0.0, _SPAN_S))


class Activity(NamedTuple):
    name: str
    about: str
    work: Callable[[Scene], Awaitable[None]]
    """One round of it."""
    prepare: Callable[[Subject], None] = lambda _subject: None
    embeds: bool = False
    """Whether it is nothing without a host."""
    sessions: bool = False
    fetches: bool = False
    """Whether a local model embeds, which has to be fetched first."""
    instant: Callable[[Scene], Awaitable[None]] = _soon
    """Waits for the moment at which the fault strikes."""
    missing: Callable[[], str | None] = lambda: None
    """Why this machine cannot do it."""


async def _sync(scene: Scene) -> None:
    await scene.gateway.call("sync", {}, timeout_s=ANSWER_S)


async def _resync(scene: Scene) -> None:
    scene.subject.edit()
    await _sync(scene)


async def _rebuild(scene: Scene) -> None:
    await scene.gateway.call("sync", {"force": True}, timeout_s=ANSWER_S)


async def _search(scene: Scene) -> None:
    scene.subject.edit()
    async with anyio.create_task_group() as tasks:
        for query in (QUERY, "2020-01-05", "ba de fi", QUERY):
            tasks.start_soon(_one_search, scene, query)


async def _one_search(scene: Scene, query: str) -> None:
    if query == QUERY:
        await quietly(scene, scene.ask())
    else:
        params = {"query": query, **scene.params}
        await quietly(scene, scene.gateway.call("memory_search", params, timeout_s=ANSWER_S))


async def _grow(scene: Scene) -> None:
    scene.subject.talk(2)
    for transcript in scene.subject.transcripts:
        await scene.gateway.notify("session_updated", {"path": str(transcript.path)})
    await _sync(scene)


async def _shut_down(scene: Scene) -> None:
    await scene.gateway.call("health", {}, timeout_s=ANSWER_S)
    await scene.gateway.notify("sync", {"force": True})
    await anyio.sleep(scene.rng.uniform(0, 0.1))
    process = scene.gateway.process
    assert process.stdin is not None
    if scene.rng.random() < 0.5:
        await process.stdin.aclose()
    elif scene.is_alive:
        process.terminate()
    await process.wait()


def _write_backlog(subject: Subject) -> None:
    subject.forget_index()
    subject.write_backlog(BACKLOG)


async def _edit_now_and_then(scene: Scene) -> None:
    await _resync(scene)
    await anyio.sleep(_BETWEEN_EDITS_S)


async def quietly(scene: Scene, work: Awaitable[object]) -> None:
    """Lets it be answered by an error: what may fail is judged elsewhere."""
    try:
        await work
    except MemoryGatewayError:
        scene.honest += 1


async def keep_at_work(activity: Activity, scene: Scene) -> None:
    """Round after round, until the gateway is gone."""
    while scene.is_alive:
        try:
            await activity.work(scene)
        except MemoryGatewayError:
            scene.honest += 1
            await anyio.sleep(_PAUSE_S)


ACTIVITIES: Final = (
    Activity("first-index", "the first index of all notes", _sync, Subject.forget_index),
    Activity("re-sync", "notes change, and a sync follows", _resync),
    Activity("rebuild", "every note is indexed again", _rebuild),
    Activity("search", "searches while notes change", _search),
    Activity("transcripts", "transcripts grow, and are taken in", _grow, sessions=True),
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
        models.forget,
        fetches=True,
        instant=models.midway,
        missing=models.missing,
    ),
)
