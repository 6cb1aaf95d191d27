"""Our plugin in the memory slot of the real OpenClaw 2026.9.6: turns of an agent, the memory shown to its model
unasked before them, and the process of the plugin.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import signal
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from endurance.openclaw_kills import kill_all_the_time, kill_once, outcome_of
from endurance.openclaw_kills import turn as search_turn
from fakes.openclaw import MAIN, OpenClaw, RunningHost, install_openclaw
from fakes.openclaw_model import FakeModel, ToolCall

pytestmark = pytest.mark.shares_a_host

PATIENCE_S = 120
DOCUMENT = (Path(__file__).parents[2] / "docs/openclaw.md").read_text(encoding="utf-8")
SEARCH = ToolCall("memory_search", {"query": "Who services the boiler?"})
FACT = "The heron nests at the mill pond, behind the third willow."
QUESTION = "Where does the heron nest at the mill pond?"
NOTES = {
    "MEMORY.md": "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n",
    "memory/2026-02-01.md": f"# 2026-02-01\n\n- {FACT}\n",
}
NO_GROUPS = {"rules": [{"action": "deny", "match": {"chatType": "group"}}]}
_TRIES = 8


class Installed(NamedTuple):
    host: OpenClaw
    model: FakeModel
    by_hand: str
    """The configuration before the installation."""
    printed: str
    """The output of `memory-gateway openclaw install`."""
    installed: str
    """The configuration afterwards."""

    def told_before(self, running: RunningHost, text: str, session: str) -> str:
        """Returns the model's input for this text, with the memory shown unasked."""
        self.model.script("Understood.")
        assert running.say(text, session) == "Understood."
        return json.dumps(self.model.asked[-1].messages)

    def turn(
        self, running: RunningHost, *replies: Any, session: str = MAIN
    ) -> list[dict[str, Any]]:
        """Runs one turn; returns the model's input in its last request."""
        self.model.script(*replies)
        assert running.say("What do you remember?", session) == replies[-1]
        return self.model.asked[-1].messages


@pytest.fixture(scope="module")
def openclaw_command() -> str:
    return install_openclaw()


@pytest.fixture(scope="module")
def installed(openclaw_command, tmp_path_factory) -> Iterator[Installed]:
    """Two agents, each with a workspace of its own; checks at the end that the model refused nothing."""
    other = tmp_path_factory.mktemp("other")
    write(other, "MEMORY.md", "# Memory\n\n- The boiler is serviced by Petersen, in May.\n")
    with FakeModel() as model:
        host = OpenClaw(openclaw_command, tmp_path_factory.mktemp("plugin"), model)
        for path, text in NOTES.items():
            write(host.workspace, path, text)
        agents = {"main": {"workspace": str(host.workspace)}, "ops": {"workspace": str(other)}}
        host.configure({"agents": {"ownership": "explicit", "entries": agents}})
        by_hand = json.dumps(
            json.loads(host.config.read_text()), indent=3
        )  # a format that no program uses
        host.config.write_text(by_hand)
        printed = host.install_plugin()
        yield Installed(host, model, by_hand, printed, host.config.read_text())
        assert model.refused == []


class Recalling(NamedTuple):
    printed: str
    """The output of `memory-gateway openclaw install --recall`."""
    installed: str
    """The configuration afterwards."""


@pytest.fixture(scope="module")
def recalling(installed) -> Recalling:
    """Recall, switched on by a second installation."""
    done = installed.host.memory_gateway("openclaw", "install", "--recall", "--yes")
    assert done.returncode == 0, done.stdout
    return Recalling(done.stdout, installed.host.config.read_text())


@pytest.fixture(scope="module")
def running(installed, recalling) -> Iterator[RunningHost]:
    config = json.loads(recalling.installed)
    config["plugins"]["entries"]["memory-gateway"]["config"]["scope"] = NO_GROUPS
    installed.host.config.write_text(json.dumps(config))
    with installed.host.gateway() as running:
        yield running


def write(workspace: Path, path: str, text: str) -> None:
    file = workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def tool_result(messages: list[dict[str, Any]]) -> dict[str, Any]:
    content = [one["content"] for one in messages if one["role"] == "tool"][-1]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    result: dict[str, Any] = json.loads(text)
    return result


def system_prompt(messages: list[dict[str, Any]]) -> str:
    return "".join(
        str(one["content"]) for one in messages if one["role"] in ("system", "developer")
    )


def wait_for(condition: Any, what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


# First the tests that need no running gateway, which then refuses a turn of its own process, and no recall yet.


def test_the_documented_transcript_is_what_happens_and_one_turn_alone_leaves_no_process(installed):
    example = re.search(r"^ {4}\$ (?:.*\n)(?: {4}.*\n|\n)*", DOCUMENT, re.MULTILINE)
    assert example
    block = example.group()
    shown = textwrap.dedent(block).strip().split("$ ")
    (_npm, install, ask) = [one.partition("\n") for one in shown if one]
    assert install[0] == "memory-gateway openclaw install --yes"
    expected = ".*".join(re.escape(part) for part in install[2].strip().split("..."))
    assert re.fullmatch(expected, installed.printed.strip())
    program, *words = shlex.split(ask[0])
    assert program == "openclaw"
    installed.model.script(SEARCH, ask[2].strip())
    assert ask[2].strip() in installed.host.run_alone(*words).stdout.splitlines()
    assert tool_result(installed.model.asked[-1].messages)["outcome"] == "ok"


def test_the_host_s_status_right_after_the_installation_tells_the_truth(installed):
    output = installed.host.run("memory", "status", "--agent", "main").stdout
    assert "main.memory-gateway.sqlite" in output
    is_new = re.search(
        r"Indexed +0/2 files .*\n +Up to date +no: nothing is indexed yet; the first search does it",
        output,
    )
    assert is_new or re.search(r"Indexed +2/2 files .*\n +Up to date +yes", output)


def test_the_host_s_own_commands_reach_our_memory(installed):
    found = installed.host.run("memory", "search", "heron nest", "--json", "--agent", "main")
    assert '"path": "memory/2026-02-01.md"' in found.stdout
    status = installed.host.run("memory-gateway", "status", "--agent", "main").stdout
    assert "main.memory-gateway.sqlite" in status


def test_the_owner_is_told_which_permission_recall_takes(recalling):
    assert "hooks.allowConversationAccess" in recalling.printed
    entry = json.loads(recalling.installed)["plugins"]["entries"]["memory-gateway"]
    assert (entry["config"], entry["hooks"]) == (
        {"recall": True},
        {"allowConversationAccess": True},
    )


def test_the_second_request_of_a_turn_holds_the_passage(installed, running):
    before = len(installed.model.asked)
    messages = installed.turn(running, SEARCH, "Hartmann does.")
    assert len(installed.model.asked) - before == 2
    result = tool_result(messages)
    assert result["outcome"] == "ok"
    assert "Hartmann" in result["results"][0]["snippet"]
    assert result["results"][0]["path"] == "MEMORY.md"
    assert result["results"][0]["corpus"] == "memory"


def test_both_tools_stand_in_front_of_the_model_and_in_the_prompt(installed, running):
    installed.turn(running, "Good morning.")
    asked = installed.model.asked[-1]
    assert {"memory_search", "memory_get"} <= set(asked.tools)
    prompt = system_prompt(asked.messages)
    assert "Memory recall: before you answer" in prompt


def test_memory_md_stays_in_the_prompt(installed, running):
    installed.turn(running, "Good evening.")
    messages = json.dumps(installed.model.asked[-1].messages)
    assert "serviced by Hartmann" in messages
    assert "<recalled>" not in messages


def test_lines_of_a_file_are_read(installed, running):
    call = ToolCall("memory_get", {"path": "memory/2026-02-01.md", "from": 3, "lines": 1})
    result = tool_result(installed.turn(running, call, "At the mill pond."))
    assert (result["status"], result["text"]) == ("ok", f"- {FACT}")


def test_each_agent_has_one_process_and_its_own_memory(installed, running):
    ours = tool_result(installed.turn(running, SEARCH, "Hartmann does."))
    theirs = tool_result(
        installed.turn(running, SEARCH, "Petersen does.", session="agent:ops:main")
    )
    assert "Hartmann" in ours["results"][0]["snippet"]
    assert "Petersen" in theirs["results"][0]["snippet"]
    agents = [argv[argv.index("--agent") + 1] for argv in running.children().values()]
    assert sorted(agents) == ["main", "ops"]


def told_turn(installed, running, name):
    """Returns the first turn of a session that is shown memory; a busy machine may need several sessions."""
    for number in range(_TRIES):
        session = f"agent:main:{name}-{number}"
        if FACT in (request := installed.told_before(running, QUESTION, session)):
            return session, request
    raise AssertionError(f"not told in {_TRIES} sessions")


def processes_of_main(running):
    return [pid for pid, argv in running.children().items() if "main" in argv]


def test_the_model_is_told_before_its_turn_once_and_nothing_for_thanks(installed, running):
    assert FACT not in installed.told_before(running, "Thanks!", "agent:main:thanks")
    session, request = told_turn(installed, running, "asks")
    assert request.count(FACT) == request.count("<recalled>") == 1
    # The host puts it into the request of this turn alone, and not into the conversation.
    assert FACT not in installed.told_before(running, QUESTION, session)


def test_a_group_that_scope_denies_is_told_nothing(installed, running):
    told_turn(installed, running, "private")
    assert FACT not in installed.told_before(running, QUESTION, "agent:main:telegram:group:-1")


def test_a_turn_goes_on_beside_a_process_that_is_stopped_or_killed_or_a_locked_index(
    installed, running
):
    told_turn(installed, running, "before")
    (process,) = processes_of_main(running)
    os.kill(process, signal.SIGSTOP)
    assert FACT not in installed.told_before(running, QUESTION, "agent:main:stopped")
    os.kill(process, signal.SIGCONT)
    told_turn(installed, running, "continued")
    index = next(installed.host.state.rglob("main.memory-gateway.sqlite"))
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE")
        installed.told_before(running, QUESTION, "agent:main:locked")
    for process in processes_of_main(running):
        os.kill(process, signal.SIGKILL)
    installed.told_before(running, QUESTION, "agent:main:killed")
    told_turn(installed, running, "after")


def test_a_process_that_was_killed_is_followed_by_another(installed, running):
    installed.turn(running, SEARCH, "Hartmann does.")
    before = running.children()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    result = tool_result(installed.turn(running, SEARCH, "Hartmann, again."))
    assert result["outcome"] == "ok"
    assert running.children().keys().isdisjoint(before)


def test_a_turn_during_which_the_process_is_killed_ends_and_the_next_one_works(installed, running):
    for after_s in (0.0, 0.3, 0.6):
        assert kill_once(running, installed.model, after_s) in ("ok", "unavailable")
        assert outcome_of(search_turn(running, installed.model)) == "ok"


def test_a_process_that_never_lives_for_long_is_told_to_the_model_with_a_remedy(installed, running):
    outcome, turns = "ok", 0
    while outcome == "ok" and turns < 5:  # on a busy machine a process may live for long enough
        outcome, turns = kill_all_the_time(running, installed.model), turns + 1
    assert outcome == "unavailable"
    assert outcome_of(search_turn(running, installed.model)) == "ok"


def test_a_changed_configuration_holds_for_the_next_search(installed, running):
    first = tool_result(installed.turn(running, SEARCH, "Hartmann."))
    assert "Source: MEMORY.md" in first["results"][0]["snippet"]
    config = json.loads(installed.host.config.read_text())
    config["memory"]["citations"] = "off"
    installed.host.config.write_text(json.dumps(config, indent=2))

    def without_source() -> bool:
        result = tool_result(installed.turn(running, SEARCH, "Hartmann."))
        return "Source:" not in result["results"][0]["snippet"]

    wait_for(without_source, "the change was never seen")


def test_before_a_compaction_the_agent_is_asked_to_write_in_our_words(installed, running):
    before, turns = len(installed.model.asked), itertools.count()
    config = json.loads(installed.host.config.read_text())
    config["agents"]["defaults"]["compaction"] = {"maxActiveTranscriptBytes": "1kb"}
    installed.host.config.write_text(json.dumps(config))

    def flushes() -> list[str]:
        """The host follows its file, too: until it does, a conversation is not compacted."""
        session = f"agent:main:long{next(turns)}"
        installed.turn(running, "Good morning." * 100, session=session)
        running.say("The avocet is back.", session)
        asked = [json.dumps(one.messages) for one in installed.model.asked[before:]]
        return [text for text in asked if "This conversation is about to be compacted" in text]

    flush, *_ = wait_for(flushes, "no conversation was compacted")
    day = re.search(r"into memory/(\d{4}-\d\d-\d\d)\.md now", flush)
    assert day
    assert "only what is written to files will be remembered" in flush
    assert (installed.host.workspace / f"memory/{day[1]}.md").exists()


def test_uninstalling_takes_the_permission_back_and_leaves_the_configuration_byte_for_byte_as_it_was(
    installed, recalling, running
):
    running.stop()
    host = installed.host
    host.config.write_text(recalling.installed)
    assert len({installed.by_hand, installed.installed, recalling.installed}) == 3
    assert "byte for byte" in host.memory_gateway("openclaw", "uninstall", "--yes").stdout
    assert host.config.read_text() == installed.by_hand
