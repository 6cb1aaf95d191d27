"""An operator's view of the real process: metrics, one log line per request, and no memory in either."""

from __future__ import annotations

import json
import sys

import anyio
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakes.pipe import request, talk
from fakes.vendors import FakeVendor
from gateway.client import RemoteError, SpawnedGateway

pytestmark = pytest.mark.anyio

CANARY_NOTE = "kestrel-canary-note-5518"
CANARY_QUERY = "kestrel-canary-query-9921"
CANARY_KEY = "sk-canary-0c44f1aa"


async def run(home, *arguments):
    """Runs a command beside the gateway."""
    command = [sys.executable, "-m", "gateway", *arguments, *home.arguments]
    with anyio.fail_after(120):
        done = await anyio.run_process(command, env=home.environment, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def values(text):
    return {
        " ".join([one.name, *one.labels.values()]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


async def test_the_command_prints_what_the_running_gateway_counted(home, tmp_path):
    async with home.gateway() as client:
        await client.call("sync", {})
        for query in ("boiler", "membrane"):
            await SpawnedGateway.call(client, "memory_search", {"query": query})  # once
        with pytest.raises(RemoteError):
            await client.call("memory_search", {})
        code, text, _ = await run(home, "metrics")
        assert code == 0
        found = values(text)
        assert found["memory_gateway_searches_total builtin keyword ok"] == 2
        assert found["memory_gateway_requests_total memory_search ok"] == 2
        assert found["memory_gateway_requests_total memory_search invalid_params"] == 1
        assert found["memory_gateway_files_indexed memory"] == 4
        file = tmp_path / "memory.prom"
        assert (await run(home, "metrics", "--textfile", str(file)))[0] == 0
        assert "memory_gateway_searches_total" in file.read_text(encoding="utf-8")
        code, _, said = await run(home, "metrics", "--textfile", str(tmp_path / "no/where.prom"))
        assert (code, "where.prom" in said) == (73, True)
        _, text, _ = await run(home, "status")
        assert "searches: 2 keyword" in text


@pytest.fixture
def log_of(home):
    """Returns every record that a gateway writes while it answers these calls."""

    def ask(*calls, level="info"):
        lines = [request(number, *call) for number, call in enumerate(calls, 1)]
        command = [sys.executable, "-m", "gateway", "serve", "--log-level", level]
        talked = talk(
            [*command, *home.arguments], lines, replies=len(lines), environment=home.environment
        )
        return talked.log, [json.loads(line) for line in talked.log.splitlines()]

    return ask


def test_each_request_has_one_record_with_its_id_and_the_time_of_its_stages(log_of):
    calls = [
        ("memory_search", {"query": "boiler"}),
        ("memory_get", {"path": "MEMORY.md"}),
        ("tools/call", {"name": "memory_search", "arguments": {"query": "boiler"}}),
        ("memory_search", {"nonsense": 1}),
    ]
    _, records = log_of(*calls, level="debug")
    requests = {one["request"]: one for one in records if one["event"] == "request"}
    assert {number: one["method"] for number, one in requests.items()} == {
        str(number): method for number, (method, _) in enumerate(calls, 1)
    }
    assert {"wait", "decode", "work", "encode", "prepare", "search"} <= set(
        requests["1"]["stages_ms"]
    )
    assert {"prepare", "search"} <= set(requests["3"]["stages_ms"])
    assert requests["4"]["outcome"] == "invalid_params"
    assert all(one["duration_ms"] >= 0 for one in requests.values())


@pytest.mark.parametrize("level", ["info", "debug"])
def test_the_log_holds_no_memory_no_query_and_no_key(log_of, home, level):
    home.write("memory/2026-03-03.md", f"# {CANARY_NOTE}\n\n- {CANARY_NOTE} was seen.\n")
    with FakeVendor("openai", key=CANARY_KEY) as vendor:
        home.embed_with(vendor)
        text, records = log_of(
            ("sync", {"force": True}),
            ("memory_search", {"query": CANARY_QUERY}),
            ("memory_search", {"query": CANARY_NOTE}),
            ("memory_search", {"query": CANARY_QUERY, "sources": [CANARY_NOTE]}),
            ("memory_get", {"path": "memory/2026-03-03.md"}),
            ("tools/call", {"name": "memory_search", "arguments": {"query": CANARY_QUERY}}),
            ("status", {}),
            level=level,
        )
    assert {one["event"] for one in records} >= {"serving", "ended"}
    for canary in (CANARY_NOTE, CANARY_QUERY, CANARY_KEY):
        assert canary not in text
