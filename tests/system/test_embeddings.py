"""The real process with a provider on loopback: fast, honest, thrifty and discreet."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from functools import partial

import anyio
import pytest

from fakes.embedding import embedded, vector_status
from fakes.faults import fault, status
from fakes.pipe import request, talk
from fakes.vendors import FakeVendor

pytestmark = pytest.mark.anyio

PATIENCE_S = 120
CANARY = "sk-canary-77c1e0d94b5a4f23"
HEAVY = (
    "openai",
    "google.genai",
    "voyageai",
    "numpy",
    "httpx2",
    "httpx",
    "llama_cpp",
    "onnxruntime",
    "tokenizers",
)


@pytest.fixture
def vendor():
    with FakeVendor("openai", key=CANARY) as host:
        yield host


@pytest.fixture
def wired(home, vendor):
    """A home whose openclaw.json names the loopback host."""

    home.reconfigure = partial(home.embed_with, vendor)
    home.reconfigure()
    return home


async def search(client, query, **params):
    started = time.monotonic()
    with anyio.fail_after(PATIENCE_S):
        result = await client.call("memory_search", {"query": query, **params})
    return result, time.monotonic() - started


async def test_notes_are_embedded_once_and_found_by_both_lanes(wired, vendor):
    async with wired.gateway() as client:
        await client.call("sync", {})
        coverage = await embedded(client)
        result, _ = await search(client, "heating pump membrane")
        assert (result["mode"], result["provider"]) == ("hybrid", "openai")
        assert result["model"] == "text-embedding-3-small"
        assert result["results"][0]["path"] == "memory/2026-02-01.md"
        assert result["results"][0]["vectorScore"] > 0
        assert result["results"][0]["textScore"] > 0
        assert "warning" not in result
        assert (await client.call("health", {}))["status"] == "ok"
    notes = [text for text in vendor.embedded() if text != "heating pump membrane"]
    assert len(notes) == len(set(notes)) == coverage["total"]
    async with wired.gateway() as client:
        await client.call("sync", {"force": True})
        assert await embedded(client) == coverage
    assert len(vendor.embedded()) == len(notes) + 1


def test_a_shell_alone_makes_the_vectors_of_an_index_and_searches_by_them(wired, vendor):
    done = wired.run("index")
    assert done.returncode == 0, done.stderr
    assert "Vectors: 4 of 4 texts" in done.stdout
    found = json.loads(wired.run("search", "--json", "heating pump membrane").stdout)
    assert (found["mode"], found["results"][0]["path"]) == ("hybrid", "memory/2026-02-01.md")
    report = json.loads(wired.run("index", "--json").stdout)
    assert report["vectors"]["coverage"]["embedded"] == 4
    notes = [text for text in vendor.embedded() if text != "heating pump membrane"]
    assert len(notes) == len(set(notes)) == 4


def test_a_shell_whose_provider_fails_has_its_words_and_goes_on_another_time(wired, vendor):
    vendor.misbehave(status(401))
    done = wired.run("index")
    assert done.returncode == 75
    assert "4 files in" in done.stdout
    assert "Vectors: 0 of 4 texts" in done.stdout
    assert "HTTP 401" in done.stdout
    assert "Run it again to go on" in done.stdout
    vendor.heal()
    assert "Vectors: 4 of 4 texts" in wired.run("index").stdout


async def test_status_tells_choice_state_coverage_and_the_next_attempt(wired, vendor):
    async with wired.gateway() as client:
        await client.call("sync", {})
        await embedded(client)
        vendor.misbehave(status(401))
        await search(client, "anything")
        vector = await vector_status(client)
        health = await client.call("health", {})
    (candidate,) = vector["candidates"]
    assert (candidate["provider"], candidate["usable"]) == ("openai", True)
    assert "remote.apiKey" in candidate["reason"]
    active = vector["provider"]["active"]
    assert (active["status"], active["endpoint"]) == ("open", vendor.base_url)
    assert "HTTP 401" in active["reason"]
    assert active["nextProbeInS"] > 0
    assert vector["backfill"]["coverage"]["dimensions"] == 64
    assert health["status"] == "degraded"
    assert any("HTTP 401" in reason for reason in health["reasons"])


def names_in(value):
    """Yields every name in a document, at any depth."""
    if isinstance(value, dict):
        yield from value
        value = value.values()
    if not isinstance(value, str | int | float | None):
        for item in value:
            yield from names_in(item)


async def test_every_name_in_a_status_is_spelled_alike(wired):
    async with wired.gateway() as client:
        await client.call("sync", {})
        await embedded(client)
        names = set(names_in(await client.call("status", {})))
    assert {"nextProbeInS", "keySource", "queryCacheHits", "inputType"} <= names
    assert [name for name in names if "_" in name] == []


@pytest.mark.promises_seconds
async def test_a_hanging_host_costs_the_configured_time_and_then_nothing(wired, vendor):
    wired.reconfigure(query={"embeddingTimeoutMs": 400})
    async with wired.gateway() as client:
        await client.call("sync", {})
        await embedded(client)
        vendor.misbehave(fault("hang"))
        for number in range(3):
            result, seconds = await search(client, f"heating pump {number}")
            assert result["results"][0]["path"] == "memory/2026-02-01.md"
            assert result["mode"] == "keyword"
            assert result["warning"]
            assert 0.3 < seconds < 1.5
        sent = len(vendor.requests)
        result, seconds = await search(client, "heating pump again")
        assert seconds < 0.3
        assert result["results"][0]["path"] == "memory/2026-02-01.md"
        assert "The next attempt is in" in result["warning"]
        assert len(vendor.requests) == sent


@pytest.mark.promises_seconds
async def test_the_end_of_the_input_ends_a_process_that_embeds_within_two_seconds(wired, vendor):
    vendor.misbehave(fault("hang"))
    async with wired.gateway() as client:
        await client.call("sync", {})
        await anyio.to_thread.run_sync(vendor.wait_until, lambda host: host.requests)
        started = time.monotonic()
    assert time.monotonic() - started < 2
    assert client.process.returncode == 0


async def test_a_killed_process_pays_again_only_for_what_was_under_way(wired, vendor):
    for number in range(60):
        wired.write(f"memory/n{number:02}.md", f"- Entry {number} of the log of the boiler.\n")
    vendor.max_items, vendor.delay_s = 4, 0.05
    async with wired.gateway() as client:
        await client.call("sync", {})
        await anyio.to_thread.run_sync(vendor.wait_until, lambda host: len(host.embedded()) >= 24)
        client.process.send_signal(signal.SIGKILL)
        await client.process.wait()
    async with wired.gateway() as client:
        coverage = await embedded(client)
    counts = Counter(vendor.embedded())
    assert len(counts) == coverage["total"]
    assert max(counts.values()) <= 2
    assert sum(count - 1 for count in counts.values()) <= 4 * vendor.max_items


async def test_an_index_that_was_only_read_after_a_kill_is_kept_with_its_vectors(wired, vendor):
    """The last process that closes it moves the log into it, without the checksums of its pages."""
    async with wired.gateway() as client:
        await client.call("sync", {})
        coverage = await embedded(client)
        client.process.send_signal(signal.SIGKILL)
        await client.process.wait()
    (index,) = wired.state.rglob("*.sqlite")
    log = index.with_name(f"{index.name}-wal")
    assert log.stat().st_size
    with closing(sqlite3.connect(index)) as reader:
        assert reader.execute("SELECT count(*) FROM chunks").fetchone()[0]
    assert not log.exists()
    before, sent = index.stat().st_ino, len(vendor.embedded())
    async with wired.gateway() as client:
        assert await embedded(client) == coverage
        result, _ = await search(client, "heating pump")
        assert result["results"][0]["path"] == "memory/2026-02-01.md"
        assert "damaged" not in json.dumps(await client.call("status"))
    assert index.stat().st_ino == before
    assert not list(index.parent.glob("*.damaged-*"))
    assert vendor.embedded()[sent:] == ["heating pump"]
    assert [one.name for one in index.parent.glob(f"{index.name}*")] == [index.name]


async def test_the_key_is_in_no_answer_no_log_and_no_file(wired, vendor):
    """The host repeats the key in its errors."""
    vendor.misbehave(status(401), times=1)
    command = [sys.executable, "-m", "gateway", "serve", *wired.arguments, "--log-level", "debug"]
    process = await anyio.open_process(
        command, env=wired.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    said = b""
    async with process:
        arguments = await anyio.Path(f"/proc/{process.pid}/cmdline").read_bytes()
        with anyio.fail_after(PATIENCE_S):
            await anyio.to_thread.run_sync(vendor.wait_until, lambda host: host.requests)
            for number, method in enumerate(["memory_search", "status", "health"]):
                params = {"query": "boiler"} if method == "memory_search" else {}
                line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await process.stdin.send(json.dumps(line).encode() + b"\n")
                while said.count(b"\n") <= number:
                    said += await process.stdout.receive()
            await process.stdin.aclose()
            log = b"".join([part async for part in process.stderr])
    assert b"HTTP 401" in said + log
    assert CANARY.encode() not in said + log + arguments
    for file in wired.state.rglob("*"):
        assert file.is_dir() or CANARY.encode() not in file.read_bytes(), file


async def test_that_meaning_would_find_more_is_said_once_and_where_it_is_asked_for(home):
    async with home.gateway() as client:
        await client.call("sync", {})
        answers = [await client.call("memory_search", {"query": "xylophone"}) for _ in range(2)]
        asked = await client.call("memory_search", {"query": "xylophone", "explain": True})
    assert ["not their meaning" in str(one.get("warning")) for one in (*answers, asked)] == [
        True,
        False,
        True,
    ]


def test_without_a_provider_no_library_of_one_is_loaded(home):
    for content in ({}, {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}):
        home.configure(content)
        command = [sys.executable, "-X", "importtime", "-m", "gateway", "serve", *home.arguments]
        loaded = set()
        for line in (request(1, "sync"), request(1, "memory_search", {"query": "pump"})):
            talked = talk(command, [line], replies=1, environment=home.environment)
            loaded |= {part.rpartition("|")[2].strip() for part in talked.log.splitlines()}
        assert talked.results()[1]["results"][0]["path"] == "memory/2026-02-01.md"
        assert "backends.builtin.backend" in loaded
        assert loaded.isdisjoint(HEAVY)


def test_the_first_answer_by_vectors_waits_for_no_library_that_is_slow_to_load(wired):
    assert "Vectors: 4 of 4 texts" in wired.run("index").stdout
    search = ["search", *wired.arguments, "--json", "heating pump membrane"]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gateway", *search],
        env=wired.environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=PATIENCE_S,
    )
    assert json.loads(done.stdout)["mode"] == "hybrid"
    loaded = {part.rpartition("|")[2].strip() for part in done.stderr.splitlines()}
    assert loaded & set(HEAVY) == {"httpx2"}
