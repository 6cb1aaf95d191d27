"""One run of a cell: a fault meets an activity, and what must hold is checked afterwards.

Owns the order of a run and the checks that all cells share: every answer right or honest, nothing
damaged or lost, a right answer again within a bound, an orderly end, nobody and nothing left behind, and
an index that equals a fresh one. What must hold of a model that is fetched stands in `models`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
import msgspec

from backends.builtin.storage.moving import lock_path
from config.errors import MemoryGatewayError
from fakes.wire import embedding
from gateway.client import GatewayGoneError
from torturing import models
from torturing.activities import Activity, keep_at_work
from torturing.faults.base import Fault
from torturing.integrity import damage, published
from torturing.oracle import Truth
from torturing.scene import ANSWER_S, Launch, Scene
from torturing.subject import Subject

END_S: Final = 30.0
"""An orderly end is promised within 2 s; what it gets on a machine with much other work."""
_SIDE_FILES: Final = ("-wal", "-shm", "-journal")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    fault: str
    activity: str
    number: int
    failures: list[str]
    recovery_s: float | None
    kills: int
    answers: int
    honest: int


async def play(fault: Fault, activity: Activity, scene: Scene) -> Outcome:
    """One run on a subject that was level and sound before."""
    subject = scene.subject
    sometimes = scene.number % 3 == 0 and not fault.without_host
    embeds = activity.embeds or fault.needs_host or sometimes
    subject.configure(embeds=embeds, sessions=activity.sessions)
    activity.prepare(subject)
    subject.removed.clear()
    before = published(subject.index)
    recovery_s = None
    try:
        await fault.before(scene)
        recovery_s = await _struck_and_recovered(fault, activity, scene, set(before))
        await _end_level(fault, scene, activity)
    except (MemoryGatewayError, TimeoutError) as error:
        scene.fail(f"{type(error).__name__}: {error}"[:800])
    finally:
        with anyio.CancelScope(shield=True):
            await fault.after(scene)
    return Outcome(
        fault=fault.name,
        activity=activity.name,
        number=scene.number,
        failures=scene.failures,
        recovery_s=recovery_s,
        kills=scene.kills,
        answers=scene.answers,
        honest=scene.honest,
    )


async def _struck_and_recovered(
    fault: Fault, activity: Activity, scene: Scene, before: set[str]
) -> float | None:
    """Seconds to the first right answer: of the same gateway where it lives on, else of a new one."""
    try:
        async with _at_work(activity, scene):
            await activity.instant(scene)
            await fault.strike(scene)
            await anyio.sleep(fault.hold_s)
            await fault.lift(scene)
            since = time.perf_counter()
            if not fault.kills_gateway and scene.is_alive and activity.name != "shutdown":
                found = await scene.until_right(since, may_end=fault.may_prevent_start)
                if scene.is_alive and activity.fetches:
                    await models.until_fetched(scene)
                if scene.is_alive:
                    return found
            await _ended(fault, scene)
    except GatewayGoneError:
        await fault.lift(scene)
    _check_what_is_left(fault, scene, before, activity)
    scene.launch = Launch()
    since = time.perf_counter()
    async with scene.started():
        return await scene.until_right(since)


@asynccontextmanager
async def _at_work(activity: Activity, scene: Scene) -> AsyncIterator[None]:
    async with scene.started(), anyio.create_task_group() as tasks:
        tasks.start_soon(keep_at_work, activity, scene)
        if activity.name != "shutdown":
            tasks.start_soon(scene.keep_asking)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _ended(fault: Fault | None, scene: Scene) -> None:
    """Waits for the end that is due; its exit code must tell of an end in order, or of the fault."""
    process = scene.gateway.process
    code = None
    with anyio.move_on_after(END_S):
        code = await process.wait()
    if code is None:
        scene.fail(f"did not end within {END_S:g} s")
        process.kill()
    elif fault is not None and fault.kills_gateway:
        return
    elif code != 0 and not (code == os.EX_UNAVAILABLE and fault and fault.may_prevent_start):
        scene.fail(f"exit code {code}: {' '.join(scene.gateway.last_words)[-600:]}")


def _check_what_is_left(fault: Fault, scene: Scene, before: set[str], activity: Activity) -> None:
    """The index as it lies there: sound, and with every file that was published and still exists."""
    if fault.tolerates_damaged:
        return
    index = scene.subject.index
    scene.failures += [f"damaged: {found}" for found in damage(index)]
    if activity.fetches:
        scene.failures += models.cache_faults(scene.subject)
    if lost := before - scene.subject.removed - set(published(index)):
        scene.fail(f"{len(lost)} published files lost by {activity.name}, such as {min(lost)}")


async def _end_level(fault: Fault, scene: Scene, activity: Activity) -> None:
    """Brings the index level, ends in order, and has it judged."""
    subject, scene.launch = scene.subject, Launch()
    async with scene.started() as client:
        thorough = activity.sessions or fault.tolerates_damaged
        await client.call("sync", {"force": thorough}, timeout_s=2 * ANSWER_S)
        if activity.fetches:
            await models.until_embedded(scene)
        process = client.process
        assert process.stdin is not None
        await process.stdin.aclose()
        await _ended(None, scene)
    if left := scene.left_behind():
        scene.fail(f"left behind: processes {left}")
    kept = tuple(fault.leftovers())
    usual = {subject.index.name, lock_path(subject.index).name}
    for file in subject.index.parent.iterdir():
        if file.name not in usual and not file.name.startswith(kept or "\0"):
            scene.fail(f"left behind: {file.name}")
    if activity.fetches:
        scene.failures += models.faults_at_the_end(scene)
    truth = Truth(subject.settings)
    scene.failures += await truth.faults(subject.index, expected=_expected(activity, subject))


def _expected(activity: Activity, subject: Subject) -> Callable[[str], Sequence[float]] | None:
    """What gives the vector of a text, where somebody embeds."""
    if activity.fetches:
        return models.expected(subject)
    if subject.host is None:
        return None
    return partial(embedding, dimensions=subject.host.dimensions)
