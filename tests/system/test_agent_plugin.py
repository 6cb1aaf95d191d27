"""The plugin for Claude Code and Codex: valid by the client's own check, and installed from a local marketplace."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from fakes.client_models import FakeAnthropic, FakeResponses
from fakes.clients import ClaudeCode, Codex, install_client
from gateway.mcp.mcp_methods import list_prompts
from gateway.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugins/memory"


def test_the_plugin_starts_what_connect_writes():
    hooks = json.loads((PLUGIN / "hooks/hooks.json").read_text("utf-8"))["hooks"]
    commands = {group["hooks"][0]["command"] for groups in hooks.values() for group in groups}
    assert set(hooks) == {"UserPromptSubmit", "SessionStart"}
    assert commands == {"memory-gateway recall --hook claude-code || true"}
    servers = json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))["mcpServers"]
    assert servers == {"memory-gateway": {"command": "memory-gateway", "args": ["serve"]}}


def test_its_commands_are_the_prompts_of_the_server():
    prompts = {one["name"] for one in list_prompts()["prompts"]}
    assert {one.stem for one in (PLUGIN / "commands").glob("*.md")} == prompts


def test_both_clients_read_the_same_version():
    manifests = [PLUGIN / f".{name}-plugin/plugin.json" for name in ("claude", "codex")]
    versions = {json.loads(one.read_text("utf-8"))["version"] for one in manifests}
    assert versions == {VERSION}


def test_claude_code_finds_it_valid_and_installs_it_from_this_folder(tmp_path):
    client = ClaudeCode(install_client("claude-code"), tmp_path)
    with FakeAnthropic() as model:
        client.begin(model)
        for place in (PLUGIN, ROOT):
            done = client.run(client.command, "plugin", "validate", "--strict", str(place))
            assert done.returncode == 0, done
        done = client.run(client.command, "plugin", "marketplace", "add", str(ROOT))
        assert done.returncode == 0, done
        done = client.run(client.command, "plugin", "install", "memory@memory-gateway")
        assert done.returncode == 0, done
        assert "memory@memory-gateway" in client.run(client.command, "plugin", "list").stdout


def test_codex_adds_the_marketplace_of_this_folder(tmp_path):
    client = Codex(install_client("codex"), tmp_path)
    with FakeResponses() as model:
        client.begin(model)
        done = client.run(client.command, "plugin", "marketplace", "add", str(ROOT))
        assert done.returncode == 0, done
        config = tomllib.loads(client.config.read_text("utf-8"))
        assert "memory-gateway" in json.dumps(config)
