"""Kills the process behind the plugin at moments spread over a turn of the real OpenClaw's agent.

Each turn has to end; its tool result holds the passage or says that memory was unavailable and what to do;
the turn after it works; and in the end no process is left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fakes.openclaw import SETUP, OpenClaw, RunningHost
from fakes.openclaw_model import FakeModel, ToolCall

SEARCH: Final = ToolCall("memory_search", {"query": "Who services the boiler?"})
NOTE: Final = "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n"
_ANSWER: Final = "That is what I know."


class LostError(Exception):
    """A turn did not end as promised."""


def turn(running: RunningHost, model: FakeModel) -> dict[str, Any]:
    """One turn with one search; the result that the model was given."""
    model.script(SEARCH, _ANSWER)
    said = running.say("Who services the boiler?")
    if said != _ANSWER:
        raise LostError(f"the turn ended with {said!r}")
    results = [one["content"] for one in model.asked[-1].messages if one["role"] == "tool"]
    content = results[-1]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    result: dict[str, Any] = json.loads(text)
    return result


def outcome_of(result: dict[str, Any]) -> str:
    """`ok` with the passage, or `unavailable` with a reason and an action. Raises LostError for all else."""
    if result.get("unavailable") and result["error"] and result["action"] and result["warning"]:
        return "unavailable"
    if result["outcome"] == "ok" and "Hartmann" in result["results"][0]["snippet"]:
        return "ok"
    raise LostError(f"the model was told {result}")


def kill(running: RunningHost) -> int:
    """How many processes were there to be killed."""
    killed = 0
    for pid in running.children():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def kill_once(running: RunningHost, model: FakeModel, after_s: float) -> str:
    """The outcome of a turn during which, `after_s` from its start, the process is killed."""
    killer = threading.Timer(after_s, kill, (running,))
    killer.start()
    try:
        return outcome_of(turn(running, model))
    finally:
        killer.join()


def kill_all_the_time(running: RunningHost, model: FakeModel) -> str:
    """The outcome of a turn during which no process lives for long."""
    done = threading.Event()

    def killing() -> None:
        while not done.wait(0.01):
            kill(running)

    killer = threading.Thread(target=killing)
    killer.start()
    try:
        return outcome_of(turn(running, model))
    finally:
        done.set()
        killer.join()


def _run(kills: int, root: Path) -> Counter[str]:
    command = subprocess.run([SETUP], capture_output=True, check=True, encoding="utf-8").stdout
    outcomes: Counter[str] = Counter()
    with FakeModel(most=10 * kills + 100) as model:
        host = OpenClaw(command.strip(), root, model)
        (host.workspace / "MEMORY.md").write_text(NOTE)
        host.install_plugin()
        with host.gateway() as running:
            outcome_of(turn(running, model))
            started = time.monotonic()
            outcome_of(turn(running, model))
            duration = time.monotonic() - started
            for number in range(kills):
                outcomes[kill_once(running, model, duration * number / kills)] += 1
                after = outcome_of(turn(running, model))
                outcomes[f"next turn {after}"] += 1
                print(f"{number + 1}/{kills}: {dict(outcomes)}", flush=True)
            outcomes[f"killed all the time: {kill_all_the_time(running, model)}"] += 1
            outcomes[f"next turn {outcome_of(turn(running, model))}"] += 1
        if model.refused:
            raise LostError(f"the model refused: {model.refused[0]}")
    return outcomes


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="memory-gateway-kills-") as root:
        outcomes = _run(options.kills, Path(root))
    print(f"No turn was lost, no process left: {dict(outcomes)}")
    return 0 if outcomes["next turn ok"] == options.kills + 1 else 1
