"""The times at which upkeep runs: pauses after failures, debouncing, due work. The clock is real."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from backends.qmd import engine
from backends.qmd.engine import Schedule, UpdateCounts
from backends.qmd.process import QmdUnavailableError
from config.settings import QmdUpdateSettings
from fakes.qmd import until

pytestmark = pytest.mark.anyio


class Works:
    """Upkeep as the schedule sees it; it records the calls."""

    def __init__(self, *results: UpdateCounts | QmdUnavailableError) -> None:
        self.done: list[str] = []
        self._results = list(results)
        self.embedding: QmdUnavailableError | None = None
        self.stored = 0
        self.made = 0
        """The number of vectors that each embedding makes before it ends."""

    async def update(self) -> UpdateCounts:
        self.done.append("update")
        result = self._results.pop(0) if self._results else UpdateCounts()
        if isinstance(result, QmdUnavailableError):
            raise result
        return result

    async def cleanup(self) -> None:
        self.done.append("cleanup")

    async def vectors(self) -> int:
        return self.stored

    async def embed(self) -> None:
        self.done.append("embed")
        self.stored += self.made
        if self.embedding is not None:
            raise self.embedding

    async def repair(self) -> None:
        self.done.append("repair")


async def all_there() -> str | None:
    return None


def schedule(works: Works, *, embeds: bool = False, away=all_there, **settings) -> Schedule:
    update = QmdUpdateSettings(**{"interval_ms": 0, "debounce_ms": 0, **settings})
    return Schedule(works, update, may_embed=lambda: embeds, repair=works.repair, away=away)


BROKEN = QmdUnavailableError("broken", "No.")
DAMAGED = QmdUnavailableError("corrupt_index", "Damaged.")


async def test_a_round_updates_and_cleans_up_only_when_something_left():
    works = Works(UpdateCounts(added=2), UpdateCounts(removed=1), UpdateCounts(changed=1))
    plan = schedule(works)
    await plan.round("test")
    assert works.done == ["update"]
    await plan.round("test")
    assert works.done == ["update", "update", "cleanup"]
    await plan.round("test")
    assert works.done[-1] == "update"
    await plan.round("test", force=True)
    assert works.done[-2:] == ["update", "cleanup"]


async def test_embedding_runs_once_until_its_interval_is_over_or_it_is_forced():
    works = Works()
    plan = schedule(works, embeds=True)
    await plan.round("test")
    await plan.round("test")
    assert works.done == ["update", "embed", "update"]
    await plan.round("test", force=True)
    assert works.done[-1] == "embed"


async def test_a_failed_embedding_waits_also_when_forced_and_is_said():
    works = Works()
    works.embedding = BROKEN
    plan = schedule(works, embeds=True)
    await plan.round("test")
    await plan.round("test", force=True)
    assert works.done == ["update", "embed", "update"]
    assert plan.embed_error == "No."
    assert 50 < plan.pause_left_s <= 60


async def test_embedding_that_takes_several_runs_does_not_wait_ever_longer(monkeypatch):
    monkeypatch.setattr(engine, "SECOND_PAUSE_S", 0.01)
    works = Works()
    works.embedding, works.made = QmdUnavailableError("timeout", "Too long."), 8
    plan = schedule(works, embeds=True)

    async def ran_five_times() -> bool:
        await plan.round("test")
        return works.done.count("embed") == 5

    await until(ran_five_times, "five runs")
    assert plan.embed_error == "Too long."
    assert plan.pause_left_s <= 0.01


async def test_a_damaged_index_is_repaired_within_the_round():
    works = Works(DAMAGED)
    plan = schedule(works)
    await plan.round("test")
    assert works.done == ["update", "repair", "update"]
    assert plan.last_error is None


async def test_a_failure_is_told_and_tried_again_by_itself():
    works = Works(BROKEN)
    plan = schedule(works)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: plan.run(at_once=True))

        async def failed() -> bool:
            return plan.last_error == "No."

        await until(failed, "the first update has failed")
        assert not plan.updated.is_set()
        with anyio.fail_after(60):
            await plan.updated.wait()
        assert plan.last_error is None
        tasks.cancel_scope.cancel()


async def test_requests_within_the_debounce_become_one_update():
    works = Works()
    plan = schedule(works, debounce_ms=3_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: plan.run(at_once=True))
        await plan.updated.wait()
        first = plan.updated_at
        for _ in range(5):
            plan.request()
            await anyio.lowlevel.checkpoint()
        assert works.done == ["update"]

        async def again() -> bool:
            return plan.updated_at != first

        await until(again, "the second update")
        assert works.done == ["update", "update"]
        assert plan.updated_at - first >= 0.3
        tasks.cancel_scope.cancel()


async def test_the_interval_updates_without_any_request():
    works = Works()
    plan = schedule(works, interval_ms=20)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: plan.run(at_once=False))

        async def twice() -> bool:
            return works.done.count("update") >= 2

        await until(twice, "two updates")
        assert set(works.done) == {"update"}
        tasks.cancel_scope.cancel()


async def test_nothing_is_updated_while_notes_are_away_and_soon_after_they_are_back(monkeypatch):
    monkeypatch.setattr(engine, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(engine, "AWAY_PAUSE_S", 0.02)
    works, looks = Works(), []

    async def away():
        looks.append(None)
        return "the workspace is missing" if len(looks) < 6 else None

    plan = schedule(works, away=away)
    with pytest.raises(QmdUnavailableError, match="not updated: the workspace is missing"):
        await plan.round("test", force=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(plan.run, at_once=True))
        with anyio.fail_after(60):
            await plan.updated.wait()
        assert len(looks) >= 6
        assert works.done[0] == "update"
        assert plan.last_error is None
        tasks.cancel_scope.cancel()
