"""Oversized answers: the bytes of a host are counted after they are decompressed, and before they are parsed."""

from __future__ import annotations

import gzip
import resource
import threading
import time

import anyio
import msgspec
import pytest

from fakes.faults import BOMB_BYTES, bomb, fault, status
from fakes.hopeless import TEXTS, fails
from providers import provider_interface
from providers.batch.openai_jobs import read_line
from providers.batch.result_files import ResultLines, ResultReader
from providers.provider_interface import BatchResult
from providers.resilience import SINGLE

pytestmark = pytest.mark.anyio

IN_ONE_ANSWER = {
    "bomb": "more than 64 MiB in one answer",
    "nested-bomb": "compressed its answer in a way that was not asked for",
    "rows": "values in one answer",
    "values": "values in one answer",
}


@pytest.mark.parametrize("kind", IN_ONE_ANSWER)
async def test_a_bomb_ends_in_an_error_that_says_so(host, service_for, collected, options, kind):
    service = service_for(host, options=options(retry=SINGLE, timeout_s=60.0))
    host.misbehave(fault(kind))
    error = await fails(service, collected)
    assert type(error) is provider_interface.ProviderBadResponseError
    assert IN_ONE_ANSWER[kind] in error.message
    with pytest.raises(provider_interface.ProviderError):
        await service.embed_query("q")


@pytest.mark.parametrize("kind", ["bomb", "nested-bomb"])
async def test_a_bomb_in_an_error_leaves_its_status(host, service_for, collected, options, kind):
    service = service_for(host, options=options(retry=SINGLE, timeout_s=60.0))
    headers = {"bomb": "gzip", "nested-bomb": "gzip, gzip, gzip"}
    layers = 3 if kind == "nested-bomb" else 1
    host.misbehave(status(503, bomb(layers), content_encoding=headers[kind]))
    error = await fails(service, collected)
    assert isinstance(error, provider_interface.ProviderError)
    assert error.status == 503


async def test_memory_stays_small_and_the_event_loop_turns_while_a_bomb_arrives(
    openai_host, embedder_for
):
    """The measure is processor time of this thread between two turns, to which a busy machine adds nothing."""
    embedder = embedder_for(openai_host)
    await embedder.embed_documents(TEXTS)
    longest = [0.0]
    bomb(1)

    async def turn():
        while True:
            before = time.thread_time()
            await anyio.sleep(0)
            longest[0] = max(longest[0], time.thread_time() - before)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    openai_host.misbehave(fault("bomb"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        with pytest.raises(provider_interface.ProviderBadResponseError):
            await embedder.embed_documents(TEXTS)
        tasks.cancel_scope.cancel()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < BOMB_BYTES / 2
    assert longest[0] < 0.1
    assert threading.active_count() < 50


async def test_a_host_that_compresses_once_is_understood(host, service_for, collected):
    host.misbehave(fault("gzip"))
    service = service_for(host)
    await service.embed_documents(TEXTS, on_batch=collected)
    assert sorted(collected.vectors) == [0, 1, 2]
    assert len(await service.embed_query("q")) == 64


NOT_GZIP = {
    "cut off": gzip.compress(b"{}" * 999)[:-9],
    "with more behind it": gzip.compress(b"{}") + b"more",
    "not compressed at all": b"{}",
}


@pytest.mark.parametrize("data", NOT_GZIP.values(), ids=NOT_GZIP)
async def test_what_is_no_whole_gzip_is_no_answer(
    openai_host, service_for, collected, options, data
):
    service = service_for(openai_host, options=options(retry=SINGLE))
    openai_host.misbehave(status(200, data, content_encoding="gzip"))
    assert "cannot be decompressed" in (await fails(service, collected)).message


async def results_in(*lines: bytes) -> list[BatchResult]:
    found: list[BatchResult] = []

    async def take(results):
        found.extend(results)

    reader = ResultReader(read_line, take, None)
    for line in lines:
        await reader.write(line + b"\n")
    await reader.finish()
    return found


async def test_a_line_of_a_batch_that_holds_more_than_a_vector_is_left_out():
    def line(key, data):
        return msgspec.json.encode({"custom_id": key, "response": {"body": {"data": data}}})

    good = line("good", [{"embedding": [1.0, 0.0]}])
    found = await results_in(
        good, line("rows", [{}] * 100_000), line("values", [{"embedding": [0] * 100_000}])
    )
    assert [one.key for one in found] == ["good"]


def test_a_line_that_comes_byte_by_byte_is_not_copied_with_each_of_them():
    def cost(size: int) -> float:
        splitter, started = ResultLines(), time.process_time()
        for _ in range(size):
            list(splitter.feed(b"x"))
        assert len(splitter.end()) == size
        return time.process_time() - started

    assert cost(200_000) < 40 * max(cost(20_000), 0.001)
