"""Recall in the real OpenClaw 2026.9.6: what a model is told unasked before its turn, and what not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import apsw
import pytest

from fakes.openclaw import OpenClaw, RunningHost, install_openclaw
from fakes.openclaw_model import FakeModel

pytestmark = pytest.mark.shares_a_host

FACT = "The heron nests at the mill pond, behind the third willow."
QUESTION = "Where does the heron nest at the mill pond?"
NO_GROUPS = {"rules": [{"action": "deny", "match": {"chatType": "group"}}]}
_TRIES = 8


class Recalling(NamedTuple):
    host: OpenClaw
    model: FakeModel
    by_hand: bytes
    """The configuration before the installation."""
    printed: str
    """By `memory-gateway openclaw install --recall`."""
    installed: bytes
    """The configuration afterwards."""

    def turn(self, running: RunningHost, text: str, session: str) -> str:
        """The request that the model got for it."""
        self.model.script("Understood.")
        assert running.say(text, session) == "Understood."
        return json.dumps(self.model.asked[-1].messages)


@pytest.fixture(scope="module")
def recalling(tmp_path_factory) -> Iterator[Recalling]:
    with FakeModel() as model:
        host = OpenClaw(install_openclaw(), tmp_path_factory.mktemp("recall"), model)
        note = host.workspace / "memory/2026-02-01.md"
        note.parent.mkdir()
        note.write_text(f"# Birds\n\n- {FACT}\n", encoding="utf-8")
        by_hand = host.config.read_bytes()
        done = host.memory_gateway("openclaw", "install", "--recall", "--yes")
        assert done.returncode == 0, done.stdout
        yield Recalling(host, model, by_hand, done.stdout, host.config.read_bytes())
        assert model.refused == []


@pytest.fixture(scope="module")
def running(recalling) -> Iterator[RunningHost]:
    config = json.loads(recalling.installed)
    config["plugins"]["entries"]["memory-gateway"]["config"]["scope"] = NO_GROUPS
    recalling.host.config.write_text(json.dumps(config), "utf-8")
    with recalling.host.gateway() as running:
        yield running


def test_the_owner_is_told_which_permission_it_takes(recalling):
    assert "hooks.allowConversationAccess" in recalling.printed
    entry = json.loads(recalling.installed)["plugins"]["entries"]["memory-gateway"]
    assert (entry["config"], entry["hooks"]) == (
        {"recall": True},
        {"allowConversationAccess": True},
    )


def told_turn(recalling, running, name):
    """The first turn of a session that is told; on a machine that is too busy, of another one."""
    for number in range(_TRIES):
        session = f"agent:main:{name}-{number}"
        if FACT in (request := recalling.turn(running, QUESTION, session)):
            return session, request
    raise AssertionError(f"not told in {_TRIES} sessions")


def test_the_model_is_told_before_its_turn_once_and_nothing_for_thanks(recalling, running):
    assert FACT not in recalling.turn(running, "Thanks!", "agent:main:thanks")
    session, request = told_turn(recalling, running, "asks")
    assert request.count(FACT) == request.count("<recalled>") == 1
    # The host puts it into the request of this turn alone, and not into the conversation.
    assert FACT not in recalling.turn(running, QUESTION, session)


def test_a_turn_goes_on_beside_a_process_that_is_stopped_or_killed_or_a_locked_index(
    recalling, running
):
    told_turn(recalling, running, "before")
    (process,) = running.children()
    os.kill(process, signal.SIGSTOP)
    assert FACT not in recalling.turn(running, QUESTION, "agent:main:stopped")
    os.kill(process, signal.SIGCONT)
    told_turn(recalling, running, "continued")
    index = next(recalling.host.state.rglob("main.memory-gateway.sqlite"))
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE")
        recalling.turn(running, QUESTION, "agent:main:locked")
    for process in running.children():
        os.kill(process, signal.SIGKILL)
    recalling.turn(running, QUESTION, "agent:main:killed")
    told_turn(recalling, running, "after")


def test_a_group_that_scope_denies_is_told_nothing(recalling, running):
    told_turn(recalling, running, "private")
    assert FACT not in recalling.turn(running, QUESTION, "agent:main:telegram:group:-1")


def test_uninstalling_takes_the_permission_back_byte_for_byte(recalling, running):
    running.stop()
    recalling.host.config.write_bytes(recalling.installed)
    recalling.host.memory_gateway("openclaw", "uninstall", "--yes")
    assert recalling.host.config.read_bytes() == recalling.by_hand
