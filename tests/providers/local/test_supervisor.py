"""A worker that dies, hangs, runs out of memory or is not needed: the fate of the texts, and its own."""

import os
import resource
import signal
import time

import anyio
import pytest

from endurance.processes import has_ended
from fakes.local_models import order
from fakes.onnx_models import write_embedder
from providers.local.embedder import ModelReplacedError, Patience
from providers.provider_interface import ItemError, ProviderTransientError, ProviderUnavailableError

pytestmark = pytest.mark.anyio

TOO_LONG = "x" * 300
"""More tokens than fit into the memory of the greedy model."""


def errors(batch):
    return {at: item.message for at, item in enumerate(batch.items) if isinstance(item, ItemError)}


async def test_nothing_runs_before_the_first_text_and_nothing_after_the_end(supervising, model):
    async with supervising() as supervisor:
        assert supervisor.state().status == "off"
        await supervisor.embed(order(model), "document", ["one"])
        state = supervisor.state()
        assert state.status == "running"
        assert state.resident_bytes > 10 << 20
    assert has_ended(state.pid)


async def test_a_killed_worker_is_replaced_and_nothing_is_lost(supervising, model):
    async with supervising() as supervisor:
        first = await supervisor.embed(order(model), "document", ["one"])
        os.kill(supervisor.state().pid, signal.SIGKILL)
        again = await supervisor.embed(order(model), "document", ["one"])
        assert again.items[0].tolist() == first.items[0].tolist()
        state = supervisor.state()
        assert (state.deaths, state.last_death) == (1, "SIGKILL")


async def test_texts_under_way_survive_several_killings(supervising, model, until):
    texts = [f"{number} " + "x " * 20 for number in range(2000)]  # a request holds many of them
    results = []
    killed = None

    async def embed(supervisor):
        results.append(await supervisor.embed(order(model), "document", texts))

    async with supervising() as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(embed, supervisor)
        for deaths in range(3):
            await until(
                lambda killed=killed: (
                    supervisor.state().status == "running" and supervisor.state().pid != killed
                )
            )
            killed = supervisor.state().pid
            os.kill(killed, signal.SIGKILL)
            await until(lambda deaths=deaths: supervisor.state().deaths > deaths)
    refused = errors(
        results[0]
    )  # a text of the first death, if it was being tried alone at a later one
    assert len(refused) <= 2
    assert all("SIGKILL" in message for message in refused.values())


async def test_a_text_that_ends_the_worker_is_left_out_with_the_reason(supervising, greedy_model):
    texts = [f"note {number}" for number in range(20)]
    texts[13] = TOO_LONG
    async with supervising() as supervisor:
        batch = await supervisor.embed(order(greedy_model), "document", texts)
        assert list(errors(batch)) == [13]
        assert "exit 71, out of memory" in errors(batch)[13]
        assert TOO_LONG not in errors(batch)[13]
        assert errors(await supervisor.embed(order(greedy_model), "query", ["fine"])) == {}


async def test_a_query_that_ends_the_worker_is_refused_and_documents_go_on(
    supervising, greedy_model
):
    results = {}

    async def embed(supervisor, lane, texts):
        results[lane] = await supervisor.embed(order(greedy_model), lane, texts)

    documents = [f"note {number}" for number in range(200)]
    async with supervising() as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(embed, supervisor, "document", documents)
        tasks.start_soon(embed, supervisor, "query", [TOO_LONG])
    assert list(errors(results["query"])) == [0]
    assert not errors(results["document"])


async def test_a_stopped_worker_is_noticed_and_replaced_without_blame(supervising, model):
    async with supervising(
        Patience(beat_s=0.05, silence_s=1.0, idle_s=60.0, first_pause_s=0.01)
    ) as supervisor:
        stopped = None
        with anyio.fail_after(60):
            while stopped is None:  # one that is slow to answer is replaced, too
                await supervisor.embed(order(model), "document", ["one"])
                stopped = supervisor.state().pid
        os.kill(stopped, signal.SIGSTOP)
        assert not errors(await supervisor.embed(order(model), "document", ["two"]))
        assert "did not answer" in supervisor.state().last_death
        assert supervisor.state().pid != stopped


async def test_a_worker_without_memory_dies_alone(supervising, model):
    async with supervising() as supervisor:
        await supervisor.embed(order(model), "document", ["one"])
        resource.prlimit(supervisor.state().pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        batch = await supervisor.embed(order(model), "document", ["x " * 400] * 200)
        assert not errors(batch)
        assert supervisor.state().deaths >= 1


async def test_an_idle_worker_gives_its_memory_back_and_returns_on_demand(
    supervising, model, until
):
    async with supervising(Patience(idle_s=0.1, beat_s=0.02, silence_s=30.0)) as supervisor:
        await supervisor.embed(order(model), "document", ["one"])
        pid = supervisor.state().pid
        await until(lambda: supervisor.state().status == "off")
        assert has_ended(pid)
        assert not errors(await supervisor.embed(order(model), "document", ["two"]))
        assert supervisor.state().deaths == 0


async def test_a_model_that_cannot_be_loaded_ends_the_wait_with_the_reason(supervising, tmp_path):
    path = write_embedder(tmp_path / "none/none.onnx")
    path.write_bytes(b"\x08 and nothing else")
    async with supervising() as supervisor:
        with pytest.raises(ProviderUnavailableError, match=r"none\.onnx cannot be used"):
            await supervisor.embed(order(path), "document", ["one"])
        assert supervisor.state().status == "off"


async def test_another_model_takes_the_place_of_the_first(supervising, model, greedy_model):
    async with supervising() as supervisor:
        first = await supervisor.embed(order(model), "query", ["one"])
        second = await supervisor.embed(order(greedy_model, 64), "query", ["one"])
        assert first.items[0].tolist() != second.items[0].tolist()
        assert supervisor.state().deaths == 0


async def test_a_model_that_is_replaced_while_it_is_loaded_fails_nobody_who_wants_the_next(
    supervising, model, greedy_model, until
):
    results = []

    async def embed(supervisor, asked):
        try:
            results.append(errors(await supervisor.embed(asked, "document", ["one"])))
        except ModelReplacedError:
            results.append("replaced")

    async with supervising() as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(embed, supervisor, order(model))
        await until(lambda: supervisor.state().status == "loading" and supervisor.state().pid)
        tasks.start_soon(embed, supervisor, order(greedy_model, 64))
    assert results == ["replaced", {}]


async def test_no_answer_holds_vectors_of_two_models(supervising, model, greedy_model, until):
    ended = []

    async def embed(supervisor):
        with pytest.raises(ModelReplacedError):
            await supervisor.embed(order(model), "document", ["x " * 400] * 2_000)
        ended.append("documents")

    async with supervising() as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(embed, supervisor)
        await until(lambda: supervisor.state().status == "running")
        await supervisor.embed(order(greedy_model, 64), "query", ["one"])
        assert ended == ["documents"]


async def test_a_caller_that_gives_up_leaves_the_worker_to_the_others(supervising, model):
    async with supervising() as supervisor:
        await supervisor.embed(order(model), "document", ["one"])
        with anyio.move_on_after(0.05) as scope:
            await supervisor.embed(order(model), "document", ["x " * 400] * 2000)
        assert scope.cancelled_caught
        assert not errors(await supervisor.embed(order(model), "document", ["two"]))
        assert supervisor.state().deaths == 0


async def test_a_query_overtakes_queued_documents(supervising, model):
    ended = []

    async def embed(supervisor, lane, texts):
        await supervisor.embed(order(model), lane, texts)
        ended.append(lane)

    async with supervising() as supervisor:
        await supervisor.embed(order(model), "query", ["ready"])
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(embed, supervisor, "document", ["x " * 400] * 1_000)
            await anyio.lowlevel.checkpoint()
            await embed(supervisor, "query", ["where"])
            tasks.cancel_scope.cancel()
    assert ended.index("query") <= 1


async def test_a_model_that_hangs_while_it_is_loaded_is_unavailable(supervising, model):
    async with supervising(Patience(open_s=0.001)) as supervisor:
        with pytest.raises(ProviderUnavailableError, match=r"not loaded within 0\.001 s"):
            await supervisor.embed(order(model), "document", ["one"])
        assert supervisor.state().status == "off"


async def test_a_worker_that_cannot_be_started_is_a_passing_failure(supervising, model):
    async with supervising(command=(str(model), "-P")) as supervisor:
        with pytest.raises(ProviderTransientError, match="cannot be started"):
            await supervisor.embed(order(model), "document", ["one"])


async def test_a_worker_that_died_is_replaced_after_a_pause_and_one_that_computed_after_the_first(
    supervising, model
):
    async with supervising(Patience(first_pause_s=0.5)) as supervisor:
        await supervisor.embed(order(model), "document", ["one"])
        for _ in range(2):
            killed = time.monotonic()
            os.kill(supervisor.state().pid, signal.SIGKILL)
            await supervisor.embed(order(model), "document", ["one"])
            assert time.monotonic() - killed >= 0.5
            assert supervisor.pause_s() == 0
