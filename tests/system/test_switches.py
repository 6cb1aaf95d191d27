"""A real process under a configuration that switches OpenClaw's own memory off."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

GREETINGS = {
    "mcp": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    "stateless mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    "chat gateway": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
}
SEARCH = {"jsonrpc": "2.0", "id": 2, "method": "memory_search", "params": {"query": "boiler"}}
STATUS = {"jsonrpc": "2.0", "id": 3, "method": "status"}


@pytest.mark.parametrize(
    "switch",
    ["plugins: {slots: {memory: 'none'}}", "memory: {search: {enabled: false, provider: 'none'}}"],
)
@pytest.mark.parametrize(
    ("client", "is_on"), [("mcp", True), ("stateless mcp", True), ("chat gateway", False)]
)
def test_it_silences_the_sidecar_but_no_client_of_mcp(tmp_path, switch, client, is_on):
    notes = tmp_path / ".openclaw/workspace/memory"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("The boiler.\n", encoding="utf-8")
    (tmp_path / ".openclaw/openclaw.json").write_text(f"{{{switch}}}", encoding="utf-8")
    lines = "".join(f"{json.dumps(one)}\n" for one in (GREETINGS[client], SEARCH, STATUS))
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve"],
        input=f"\n{lines}",
        capture_output=True,
        encoding="utf-8",
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
    assert [hit["path"] for hit in answers[2]["results"]] == (["memory/a.md"] if is_on else [])
    status = answers[3]
    assert status["enabled"] is is_on
    (asked,) = status["switches"]
    assert (asked["obeyed"], status["startedAs"]) == (not is_on, "mcp" if is_on else "sidecar")
    assert asked["key"] in ('plugins.slots.memory = "none"', "memory.search.enabled = false")


def test_a_first_line_that_never_comes_ends_with_the_input(tmp_path):
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw/openclaw.json").write_text("{plugins: {slots: {memory: 'none'}}}")
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve"],
        input="",
        capture_output=True,
        encoding="utf-8",
        env={"HOME": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
