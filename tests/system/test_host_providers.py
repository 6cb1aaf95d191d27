"""The real process with the providers of today's OpenClaw: those that work, and those that leave keywords."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fakes.embedding import embedded
from fakes.vendors import FakeVendor

pytestmark = pytest.mark.anyio

QUERY = "heating pump membrane"
REMEDY = re.compile(r"Set (provider|remote\.\w+) ")


def configured(home, provider, entries=None, **search):
    """Writes the configuration as OpenClaw 2026.9.6 does; returns the place of the provider in it."""
    content = {
        "models": {"providers": entries or {}},
        "memory": {"search": {"provider": provider, **search}},
    }
    text = json.dumps(content, indent=1)
    home.config.write_text(text, encoding="utf-8")
    line = text[: text.index('"provider":')].count("\n") + 1
    return f"memory.search.provider, line {line}"


MODELS = [{"id": "chat", "name": "Chat", "contextWindow": 1000}]


@pytest.mark.parametrize(
    ("provider", "speaks", "entry", "search"),
    [
        ("ollama", "ollama", {"api": "ollama"}, {}),
        (
            "mistral",
            "mistral",
            {"apiKey": {"source": "env", "provider": "default", "id": "KEY"}},
            {},
        ),
        ("gpu-box", "ollama", {"api": "openai-completions"}, {"model": "gpu-box/nomic-embed-text"}),
    ],
)
async def test_a_provider_over_openais_wire_gives_hybrid_search(
    home, monkeypatch, provider, speaks, entry, search
):
    with FakeVendor(speaks) as host:
        environment = {**home.environment, "KEY": host.key, "OPENAI_API_KEY": "sk-canary"}
        monkeypatch.setattr(type(home), "environment", environment)
        address = host.origin if provider == "ollama" else host.base_url
        configured(
            home, provider, {provider: {"baseUrl": address, "models": MODELS, **entry}}, **search
        )
        async with home.gateway() as client:
            await client.call("sync", {})
            await embedded(client)
            result = await client.call("memory_search", {"query": QUERY})
            health = await client.call("health", {})
    assert (result["mode"], result["provider"]) == ("hybrid", provider)
    assert result["model"] == host.models[0]
    assert "warning" not in result
    assert result["results"][0]["path"] == "memory/2026-02-01.md"
    assert health["status"] == "ok"
    keys = {seen.headers.get("authorization") for seen in host.requests}
    assert keys == {f"Bearer {host.key}" if provider == "mistral" else None}


@pytest.mark.parametrize(
    ("provider", "entries", "cause"),
    [
        ("bedrock", {}, "Amazon Bedrock has a wire and a login of its own"),
        ("github-copilot", {}, "GitHub Copilot is reached by a login"),
        ("a-plugins-own", {}, "No provider of this id is known here"),
        (
            "claude",
            {"claude": {"api": "anthropic-messages", "baseUrl": "https://claude.example"}},
            'models.providers.claude.api, line 5 is "anthropic-messages"',
        ),
        ("openai-compatible", {}, "openai-compatible has no address"),
    ],
)
async def test_any_other_leaves_keywords_and_everything_that_tells_says_why(
    home, provider, entries, cause
):
    place = configured(home, provider, entries)
    async with home.gateway() as client:
        await client.call("sync", {})
        result = await client.call("memory_search", {"query": QUERY})
        status = await client.call("status", {})
        health = await client.call("health", {})
    assert result["results"][0]["path"] == "memory/2026-02-01.md"
    assert (result["mode"], result["outcome"]) == ("keyword", "ok")
    assert cause in result["warning"]
    assert "keywords only" in result["warning"]
    assert REMEDY.search(result["warning"])
    vector = status["details"]["vector"]
    assert cause in vector["reason"]
    assert vector["candidates"][0]["provider"] == provider
    assert REMEDY.search(vector["candidates"][0]["remedy"])
    assert health["status"] == "degraded"
    assert any(cause in reason for reason in health["reasons"])
    done = home.run("doctor", "--json")
    (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "provider"]
    assert finding["severity"] == "warning"
    assert cause in finding["cause"]
    assert REMEDY.search(finding["fix"])
    if provider != "openai-compatible":
        assert place in result["warning"]
        assert place in finding["cause"]


async def test_what_the_documentation_shows_for_ollama_gives_vectors(home):
    page = Path(__file__).resolve().parents[2] / "docs/embeddings.md"
    examples = re.findall(r"```json5\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = (one for one in examples if '"ollama"' in one)
    with FakeVendor("ollama") as host:
        text = example.replace("http://127.0.0.1:11434", host.origin)
        assert host.origin in text
        home.config.write_text(text, encoding="utf-8")
        async with home.gateway() as client:
            await client.call("sync", {})
            await embedded(client)
            result = await client.call("memory_search", {"query": QUERY})
    assert (result["mode"], result["provider"]) == ("hybrid", "ollama")


async def test_a_fallback_of_any_id_ends_nothing_and_is_told_by_doctor(home):
    with FakeVendor("openai") as host:
        home.embed_with(host, fallback="github-copilot")
        async with home.gateway() as client:
            await client.call("sync", {})
            await embedded(client)
            result = await client.call("memory_search", {"query": QUERY})
    assert result["mode"] == "hybrid"
    done = home.run("doctor", "--json")
    findings = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "provider"]
    (refused,) = [one for one in findings if one["severity"] == "warning"]
    assert "github-copilot cannot be used" in refused["cause"]
    assert "agents.defaults.memorySearch.fallback, line 1" in refused["cause"]
