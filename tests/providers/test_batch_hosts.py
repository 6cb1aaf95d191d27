"""Each vendor's files and jobs, against a strict host of its format."""

from __future__ import annotations

import io
import tracemalloc

import pytest

from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.batch import find_batch
from providers.choosing import choose
from providers.provider_interface import (
    ProviderAuthError,
    ProviderRedirectError,
    ProviderUnavailableError,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["openai", "gemini", "voyage"])
def vendor(request):
    with FakeVendor(request.param) as host:
        yield host


@pytest.fixture
def batches(vendor):
    return vendor.with_batches()


@pytest.fixture
async def opened(vendor, batches, tmp_path):
    """Opens the vendor's batch jobs as configured; closes them at the end."""
    hosts = []

    def open_with(**search):
        access = remote(vendor.base_url, vendor.key)
        settings = make_settings(
            tmp_path, search={"provider": vendor.vendor, "remote": access} | search
        )
        found = find_batch(settings, choose(settings))
        hosts.append(found.open())
        return hosts[-1]

    yield open_with
    for host in hosts:
        await host.aclose()


async def run_job(host, texts):
    """Returns the file of the job, and the job when it has ended."""
    lines = io.BytesIO(b"".join(host.line(f"{at:04x}", text) for at, text in enumerate(texts)))
    file = await host.upload("notes.jsonl", lines)
    job = await host.create(file, "label")
    while job.outcome is None:
        job = await host.look(job.id)
    return file, job


async def read(host, job):
    found = {}

    async def keep(results):
        found.update({result.key: result.item for result in results})

    for file in job.result_files:
        await host.read(file, keep)
    return found


async def test_a_file_and_its_job_are_found_again_among_many(opened, batches):
    host = opened()
    assert await host.find_upload("notes.jsonl") is None
    for number in range(5):
        await host.upload(f"other {number}", io.BytesIO(host.line("ab", "other")))
    file, job = await run_job(host, ["one", "two"])
    assert await host.find_upload("notes.jsonl") == file
    found = await host.find(file)
    assert (found.id, found.outcome) == (job.id, "completed")
    assert set(await read(host, job)) == {"0000", "0001"}


async def test_a_file_of_several_parts_arrives_whole(opened, batches):
    host = opened()
    texts = ["boiler " * 30_000 + str(number) for number in range(50)]
    _, job = await run_job(host, texts)
    assert batches.texts() == texts
    assert len(await read(host, job)) == 50


async def test_the_dimensions_and_the_task_of_ordinary_requests_are_asked_for(
    vendor, opened, batches
):
    batches.dimensions = 32
    host = opened(output_dimensionality=32)
    line = host.line("ab", "one").decode()
    if vendor.vendor == "gemini":
        assert '"task_type":"RETRIEVAL_DOCUMENT"' in line
        assert '"output_dimensionality":32' in line
    if vendor.vendor == "openai":
        assert '"dimensions":32' in line
    _, job = await run_job(host, ["one"])
    assert job.outcome == "completed"


async def test_files_are_deleted_and_deleting_again_is_no_error(opened, batches):
    host = opened()
    file, job = await run_job(host, ["one"])
    for name in (file, *job.result_files, file):
        await host.delete(name)
    assert batches.files == {}


async def test_results_are_read_in_slices_whatever_the_size_of_their_file(opened, batches):
    batches.padding = 60_000
    host = opened()
    _, job = await run_job(host, [f"note {number}" for number in range(700)])
    size = sum(len(content) for _, content in batches.files.values())
    read_so_far = 0

    async def count(results):
        nonlocal read_so_far
        read_so_far += len(results)

    tracemalloc.start()
    try:
        for name in job.result_files:
            await host.read(name, count)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read_so_far == 700
    assert size > 40 << 20
    assert peak < 24 << 20


async def test_a_wrong_key_is_told_and_not_repeated(vendor, opened, batches):
    host = opened()
    vendor.key = "another key of the host"
    with pytest.raises(ProviderAuthError) as caught:
        await host.find_upload("notes.jsonl")
    assert "test-key" not in str(caught.value)


async def test_an_upload_that_is_sent_elsewhere_is_not_followed(opened, batches):
    host = opened()
    with FakeVendor("gemini") as stranger:
        batches.origin = stranger.origin
        if batches.vendor == "gemini":
            with pytest.raises(ProviderRedirectError):
                await host.upload("notes.jsonl", io.BytesIO(host.line("ab", "one")))
        else:
            await host.upload("notes.jsonl", io.BytesIO(host.line("ab", "one")))
        assert stranger.requests == []


async def test_a_job_that_is_not_known_any_more_is_told_apart(vendor, opened, batches):
    host = opened()
    unknown = "batches/none" if vendor.vendor == "gemini" else "none"
    with pytest.raises(ProviderUnavailableError) as caught:
        await host.look(unknown)
    assert caught.value.status == 404
