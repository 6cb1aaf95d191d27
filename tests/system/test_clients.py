"""The real Claude Code, Codex, Gemini CLI and Copilot CLI with a real gateway: connected, listed, a whole turn,
disconnected.

Their models are servers on this machine that speak the vendors' wire formats.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fakes import two_forms
from fakes.client_models import FakeAnthropic, FakeGemini, FakeResponses
from fakes.clients import ClaudeCode, Codex, CopilotCli, GeminiCli, install_client
from fakes.openclaw_model import ToolCall
from fakes.staying import end_staying
from gateway.connect.clients import CLIENTS as CLIENTS_OF_CONNECT
from gateway.connect.entries import with_server

CLIENTS = {
    "claude-code": (ClaudeCode, FakeAnthropic),
    "codex": (Codex, FakeResponses),
    "gemini-cli": (GeminiCli, FakeGemini),
    "copilot": (CopilotCli, FakeAnthropic),
}
PROTOCOL = Path(__file__).resolve().parents[2] / "docs/protocol.md"
FACT = "The heron nests at the mill pond, behind the third willow."


@pytest.fixture(params=CLIENTS)
def client(request, tmp_path):
    kind, model_kind = CLIENTS[request.param]
    found = kind(install_client(request.param), tmp_path)
    notes = found.home / "notes"
    notes.mkdir()
    (notes / "birds.md").write_text(f"# Birds\n\n- {FACT}\n", encoding="utf-8")
    with model_kind() as model:
        found.begin(model)
        yield found
    end_staying(found.home)  # started by hooks of a client


def gateway(client, *arguments):
    """Runs a command of ours in the client's surroundings; returns its JSON."""
    done = client.run(sys.executable, "-m", "gateway", *arguments, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def join(client, *more):
    notes = ("--notes", str(client.home / "notes"))
    return gateway(client, "connect", client.name, *notes, "--yes", *more)


def test_a_connected_client_finds_a_note_in_one_turn_and_pays_for_it_once(client):
    before = client.config.read_bytes()
    assert join(client)["check"]["verdict"] == "seen"
    client.be_patient()
    client.model.script(ToolCall("memory_search", {"query": "heron"}), "At the mill pond.")
    done = client.ask("Where does the heron nest?")
    assert (done.returncode, client.model.refused) == (0, []), done
    assert "At the mill pond." in done.stdout
    first, second = client.model.turns
    offered = {name.rpartition("memory_")[2] for name in first.tools if "memory_" in name}
    assert offered == {"search", "get"}
    (result,) = second.results
    assert result.count("third willow") == 1
    assert "birds.md" in result
    gateway(client, "disconnect", client.name, "--yes")
    if client.name == "claude-code":  # it formats its file anew when it starts
        assert "memory-gateway" not in client.config.read_text("utf-8")
        assert (
            json.loads(client.config.read_bytes())["mcpServers"] == json.loads(before)["mcpServers"]
        )
    else:
        assert client.config.read_bytes() == before


WITHOUT_ASKING = {
    "claude-code": ["mcp__memory-gateway__memory_append"],
    "codex": ["--dangerously-bypass-approvals-and-sandbox"],
    "gemini": [],
    "copilot": [],
}
"""The options that make a client run a tool that writes, where nobody can be asked."""


def test_the_agent_of_a_client_may_write_once_connect_was_told_so_and_is_told_what_is_missing(
    client,
):
    def note_it():
        client.model.script(ToolCall("memory_append", {"text": "- The heron has moved on."}))
        done = client.run(client.command, *client.turn("Note it."), *WITHOUT_ASKING[client.name])
        refused, client.model.refused[:] = [*client.model.refused], []
        return done, refused, client.model.turns[-1].results

    join(client)
    client.be_patient()
    _, refused, _ = note_it()
    assert "memory_append is not offered" in refused[0]
    gateway(client, "disconnect", client.name, "--yes")
    join(client, "--write")
    client.be_patient()
    done, refused, results = note_it()
    assert (done.returncode, refused) == (0, []), done
    assert "`memory-gateway remember --yes TEXT`" in results[-1]
    (client.home / "notes/memory").mkdir()
    done, refused, results = note_it()
    assert (done.returncode, refused) == (0, []), done
    (log,) = (client.home / "notes/memory").iterdir()
    assert f"memory/{log.name}" in results[-1]
    assert log.read_text("utf-8").endswith("\n- The heron has moved on.\n")


def test_a_round_in_which_the_client_is_asked_leaves_no_trace(client):
    before = client.config.read_bytes()
    assert join(client)["check"]["verdict"] == "seen"
    gateway(client, "disconnect", client.name, "--yes")
    assert client.config.read_bytes() == before
    assert [one.name for one in client.config.parent.glob("*.before-memory-gateway*")] == []


def test_what_the_client_itself_does_to_its_file_is_no_reason_to_use_its_command(client):
    """`connect` should use the command of a client that leaves the rest of its file unchanged; none does today."""
    before = client.config.read_bytes()
    added = {
        "claude-code": ("mcp", "add", "-s", "user", "probe", "--", "true"),
        "codex": ("mcp", "add", "probe", "--", "true"),
        "gemini": ("mcp", "add", "-s", "user", "probe", "true"),
        "copilot": ("mcp", "add", "probe", "--", "true"),
    }
    removed = {
        "claude-code": ("mcp", "remove", "-s", "user", "probe"),
        "codex": ("mcp", "remove", "probe"),
        "gemini": ("mcp", "remove", "-s", "user", "probe"),
        "copilot": ("mcp", "remove", "probe"),
    }
    for arguments in (added[client.name], removed[client.name]):
        done = client.run(client.command, *arguments)
        assert done.returncode == 0, done
    assert client.config.read_bytes() != before


FORMS = {
    "claude-code": ["data"],
    "codex": ["data"],
    "gemini": ["text"],
    "copilot": ["text", "data"],
}
"""The statements of docs/protocol.md about each client."""


def test_of_two_forms_of_an_answer_clients_hand_their_models_one_or_the_other_or_both(client):
    """This is the reason why our answers have one form. A client that changes is a reason to look again."""
    kind = CLIENTS_OF_CONNECT[client.name]
    entry = kind.entry((sys.executable, two_forms.__file__))
    text = client.config.read_text("utf-8")
    client.config.write_text(
        with_server(kind, text, client.config, "memory-gateway", entry), "utf-8"
    )
    client.be_patient()
    client.model.script(ToolCall("memory_search", {"query": "heron"}), "Noted.")
    done = client.ask("Where does the heron nest?")
    assert (done.returncode, client.model.refused) == (0, []), done
    (result,) = client.model.turns[1].results
    forms = [form for form in ("text", "data") if f"said as {form}" in result]
    assert forms == FORMS[client.name]
    assert f"| {kind.title} " in PROTOCOL.read_text("utf-8")
