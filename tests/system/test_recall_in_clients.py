"""The real Claude Code, Codex, Gemini CLI and Copilot CLI with our hooks: what their model is shown before a turn.

Their models are servers on this machine that record every request.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import apsw
import pytest

from fakes import hung_disk
from fakes.client_models import FakeAnthropic, FakeGemini, FakeResponses
from fakes.clients import ClaudeCode, Codex, CopilotCli, GeminiCli, install_client
from fakes.hung_disk import HungDisk
from fakes.staying import end_staying, staying
from gateway.ownership.owner import read_owner

CLIENTS = {
    "claude-code": (ClaudeCode, FakeAnthropic),
    "codex": (Codex, FakeResponses),
    "gemini-cli": (GeminiCli, FakeGemini),
    "copilot": (CopilotCli, FakeAnthropic),
}
FACT = "The heron nests at the mill pond, behind the third willow."
QUESTION = "Where does the heron nest at the mill pond?"
OTHERS = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "true"}]}]}}
"""A hook of somebody else in the same file."""
HOOKS_FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".copilot/settings.json",
}
PROMPT_EVENTS = {"gemini": "BeforeAgent", "copilot": "userPromptSubmitted"}
"""The event of a prompt, where it is not `UserPromptSubmit`."""
_TRIES = 8
AGAIN = {
    "claude-code": ["--continue"],
    "codex": ["resume", "--last"],
    "gemini": ["--resume", "latest"],
    "copilot": ["--continue"],
}


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
        end_staying(found.home)


def gateway(client, *arguments):
    done = client.run(sys.executable, "-m", "gateway", *arguments, "--json")
    assert done.returncode in {0, os.EX_UNAVAILABLE}, (
        done
    )  # a busy client says late that it sees it
    return json.loads(done.stdout)


def hooks_file(client):
    return client.home / HOOKS_FILES[client.name]


def join(client, *more):
    """Connects the client, beside a gateway that runs already."""
    notes = ("--notes", str(client.home / "notes"))
    done = gateway(client, "connect", client.name, *notes, "--yes", *more)
    if done["hooks"]["entry"]:
        event = PROMPT_EVENTS.get(client.name, "UserPromptSubmit")
        client.hook = done["hooks"]["entry"][event][0]["hooks"][0]["command"]
        wake(client)
    return done


def wake(client):
    """Runs the hook as the client does, until a lasting gateway answers; a client's own server ends with the client."""
    deadline, number = time.monotonic() + 60, 0
    while not (ask_hook(client, f"wake-{number}") and owner_of(client) in staying(client.home)):
        assert time.monotonic() < deadline
        number += 1


def ask_hook(client, session):
    event = {"hook_event_name": "BeforeAgent", "session_id": session, "prompt": QUESTION}
    done = subprocess.run(
        ["sh", "-c", client.hook], input=json.dumps(event), env=client.environment(), cwd=client.work,
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def owner_of(client):
    locks = client.home.rglob("*.lock")
    return next((owner.pid for lock in locks if (owner := read_owner(lock))), None)


def turn(client, question, *, again=False):
    """Returns the request that the model got for the question."""
    more = AGAIN[client.name] if again else []
    if client.name == "codex":
        trust = "--dangerously-bypass-hook-trust"
        arguments = ["exec", *more, "--skip-git-repo-check", trust, question]
    else:
        arguments = [*client.turn(question), *more]
    before = len(client.model.turns)
    done = client.run(client.command, *arguments)
    assert (done.returncode, client.model.refused) == (0, []), done
    assert "Noted." in done.stdout
    return client.model.bodies[before]


def told_turn(client):
    """Returns the first turn of a conversation that is shown memory; a machine too busy for hooks needs several."""
    wake(client)
    bodies = (turn(client, QUESTION) for _ in range(_TRIES))
    return next(body for body in bodies if FACT in body)


def test_the_model_is_told_before_its_turn_once_and_never_after_disconnect(client):
    file = hooks_file(client)
    if client.name != "gemini":
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(OTHERS, indent=3), "utf-8")
    before = file.read_bytes()
    join(client)
    assert told_turn(client).count(FACT) == 1
    owner = owner_of(client)
    for question in ("Thanks!", QUESTION):  # the request contains what the first turn was shown
        request = turn(client, question, again=True)
        assert (request.count(FACT), owner_of(client)) == (1, owner)
    assert FACT not in turn(client, "Thanks!")
    gateway(client, "disconnect", client.name, "--yes")
    assert file.read_bytes() == before
    assert FACT not in turn(client, QUESTION)


def test_a_turn_goes_on_when_the_gateway_is_stopped_or_killed_or_its_index_locked(client):
    join(client)
    index = next(client.home.rglob("index.sqlite"))
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE")
        turn(client, QUESTION)
    os.kill(owner_of(client), signal.SIGSTOP)
    assert FACT not in turn(client, QUESTION)
    os.kill(owner_of(client), signal.SIGCONT)
    assert FACT in told_turn(client)
    os.kill(owner_of(client), signal.SIGKILL)
    turn(client, QUESTION)
    assert FACT in told_turn(client)


@pytest.mark.skipif(not hung_disk.is_possible(), reason=hung_disk.NEEDS)
def test_a_turn_goes_on_when_the_disk_of_notes_index_and_cache_hangs(client):
    """Gemini CLI waits for its servers before a turn, and thus until our server gives up."""
    places = ("notes", ".local/share/memory-gateway", ".cache/memory-gateway")
    disk = HungDisk(client.home.parent, *(client.home / one for one in places))
    client.variables |= disk.environment
    join(client)
    disk.hang()
    try:
        assert FACT not in turn(client, QUESTION)
        assert disk.waited
    finally:
        disk.answer()
    assert FACT in told_turn(client)
