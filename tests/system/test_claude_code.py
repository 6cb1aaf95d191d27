"""Beside the real Claude Code: what it writes of its conversations and projects is found, and what is not said is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.anthropic_model import FakeClaude, Refusal
from fakes.clients import install_client
from fakes.openclaw_model import ToolCall

PATIENCE_S = 120
SWITCHES = {"experimental": {"sessionMemory": True}, "sources": ["memory", "sessions"]}


@pytest.fixture(scope="module")
def command():
    return install_client("claude-code")


@pytest.fixture
def claude(tmp_path, command):
    """Says something to Claude Code in its project, with a model on loopback; continues from the second time on."""
    project = tmp_path / "garden"
    project.mkdir()
    (project / "note.md").write_text("The bittern booms in the reeds.\n", encoding="utf-8")
    with FakeClaude() as model:

        def say(text: str, *replies: str | ToolCall | Refusal, resume: bool = True) -> str:
            model.script(*replies)
            done = subprocess.run(
                [command, "-p", text, *(["--continue"] if resume else [])],
                cwd=project, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                timeout=PATIENCE_S, check=False,
                env={"HOME": str(tmp_path), "PATH": f"{Path(command).parent}:/usr/bin:/bin",
                     "LANG": "C.UTF-8", **model.environment},
            )  # fmt: skip
            return done.stdout.strip()

        yield say


@pytest.fixture
def gateway(tmp_path):
    """One command of the gateway with `--claude-code`, as JSON."""
    config = tmp_path / ".openclaw/openclaw.json"
    (config.parent / "workspace/memory").mkdir(parents=True)
    config.write_text(json.dumps({"agents": {"defaults": {"memorySearch": SWITCHES}}}), "utf-8")

    def run(*arguments: str) -> dict:
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *arguments, "--claude-code", "--json"],
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            cwd=Path(__file__).resolve().parents[2], capture_output=True, encoding="utf-8",
            timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    return run


def test_what_was_said_to_it_is_found_and_its_tools_and_commands_are_not(claude, gateway):
    assert claude("Where does the heron nest?", "At the mill pond.", resume=False)
    read = ToolCall("Read", {"file_path": "note.md"})
    assert claude("Read the note. My password: tr0ub4dor99", read, "It tells of reeds.")
    claude("/compact", "They spoke of a woodpecker.")
    claude("Which owl was it?", *[Refusal(400, "no kingfisher today")] * 5)
    gateway("index")
    (hit,) = gateway("search", "heron mill pond", "--source", "sessions")["results"]
    assert hit["path"].startswith("sessions/claude-code@")
    assert {"User: Where does the heron nest?", "Assistant: At the mill pond."} <= {
        *hit["snippet"].splitlines()
    }
    (hit,) = gateway("search", "the note reeds password", "--source", "sessions")["results"][:1]
    assert "User: Read the note. My password: ***" in hit["snippet"]
    assert "owl" in gateway("search", "owl", "--source", "sessions")["results"][0]["snippet"]
    for unsaid in ("bittern", "woodpecker", "kingfisher", "compact", "tr0ub4dor99"):
        assert gateway("search", unsaid, "--source", "sessions")["results"] == []


def test_what_it_writes_into_its_memory_of_a_project_is_found(claude, gateway, tmp_path):
    assert claude("Where does the heron nest?", "At the mill pond.", resume=False)
    (project,) = (tmp_path / ".claude/projects").iterdir()
    note = (
        "---\nname: heron-nest\ndescription: where the heron nests\nmetadata:\n  type: project\n---\n\n"
        "The heron nests at the mill pond, see [[river-birds]].\n"
    )
    write = ToolCall("Write", {"file_path": f"{project}/memory/heron.md", "content": note})
    assert claude("Remember that.", write, "I will.") == "I will."
    (hit,) = gateway("search", "heron nests", "--source", "memory")["results"]
    assert hit["path"] == f"../../.claude/projects/{project.name}/memory/heron.md"
    assert "see [[river-birds]]" in gateway("get", hit["path"])["text"]
