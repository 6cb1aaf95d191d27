"""Beside the real Claude Code: its conversations and projects are found, and nothing else of its files is."""

from __future__ import annotations

import json
import sys

import pytest

from fakes.client_models import FakeAnthropic
from fakes.clients import ClaudeCode, install_client
from fakes.openclaw_model import ToolCall

SWITCHES = {"experimental": {"sessionMemory": True}, "sources": ["memory", "sessions"]}


@pytest.fixture
def code(tmp_path):
    """Claude Code in its project, with a model on this machine."""
    found = ClaudeCode(install_client("claude-code"), tmp_path)
    (found.work / "note.md").write_text("The bittern booms in the reeds.\n", encoding="utf-8")
    with FakeAnthropic() as model:
        found.begin(model)
        yield found


@pytest.fixture
def claude(code):
    """Sends text to Claude Code in one conversation; the model answers with the given replies."""
    begun = False

    def say(text: str, *replies: str | ToolCall) -> str:
        nonlocal begun
        code.model.script(*replies)
        begun, more = True, ["--continue"] if begun else []
        return code.run(code.command, "-p", text, *more).stdout.strip()

    return say


@pytest.fixture
def gateway(code):
    """Runs one command of the gateway with `--claude-code`; returns its JSON."""
    config = code.home / ".openclaw/openclaw.json"
    (config.parent / "workspace/memory").mkdir(parents=True)
    config.write_text(json.dumps({"agents": {"defaults": {"memorySearch": SWITCHES}}}), "utf-8")

    def run(*arguments: str) -> dict:
        command = [sys.executable, "-m", "gateway", *arguments, "--claude-code", "--json"]
        done = code.run(*command)
        answer = json.loads(done.stdout)
        assert done.returncode == (1 if answer.get("results") == [] else 0), done
        return answer

    return run


def test_what_was_said_to_it_is_found_and_its_tools_and_commands_are_not(code, claude, gateway):
    assert claude("Where does the heron nest?", "At the mill pond.")
    read = ToolCall("Read", {"file_path": str(code.work / "note.md")})
    assert claude("Read the note. My password: tr0ub4dor99", read, "It tells of reeds.")
    claude("/compact", "They spoke of a woodpecker.")
    claude("Which owl was it?", *[ToolCall("kingfisher", {})] * 5)
    assert "kingfisher is not offered" in code.model.refused[-1]
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


def test_what_it_writes_into_its_memory_of_a_project_is_found(code, claude, gateway):
    assert claude("Where does the heron nest?", "At the mill pond.")
    (project,) = (code.home / ".claude/projects").iterdir()
    note = (
        "---\nname: heron-nest\ndescription: where the heron nests\nmetadata:\n  type: project\n---\n\n"
        "The heron nests at the mill pond, see [[river-birds]].\n"
    )
    write = ToolCall("Write", {"file_path": f"{project}/memory/heron.md", "content": note})
    assert claude("Remember that.", write, "I will.") == "I will."
    (hit,) = gateway("search", "heron nests", "--source", "memory")["results"]
    assert hit["path"] == f"../../.claude/projects/{project.name}/memory/heron.md"
    assert "see [[river-birds]]" in gateway("get", hit["path"])["text"]
