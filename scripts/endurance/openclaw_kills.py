"""Kills what belongs to the plugin in the real OpenClaw: its process, the host, our commands.

The process, at moments spread over a turn: each turn has to end; its tool result holds the passage or says that
memory was unavailable and what to do; the turn after it works; and in the end no process is left. The host, likewise:
our process ends by itself, and the next host's first turn has the passage. `openclaw install` and `uninstall`: the
configuration stays valid, the same command works afterwards, and in the end the configuration is what it was.
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
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from fakes.openclaw import SETUP, HostError, OpenClaw, RunningHost
from fakes.openclaw_model import FakeModel, ToolCall

SEARCH: Final = ToolCall("memory_search", {"query": "Who services the boiler?"})
NOTE: Final = "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n"
_ANSWER: Final = "That is what I know."


class LostError(Exception):
    """A turn did not end as promised."""


def turn(running: RunningHost, model: FakeModel) -> dict[str, Any]:
    """Runs one turn with one search; returns the result that the model was given."""
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
    """Returns `ok` for the passage, or `unavailable` for a reason and an action. Raises LostError for all else."""
    if result.get("unavailable") and result["error"] and result["action"] and result["warning"]:
        return "unavailable"
    if result["outcome"] == "ok" and "Hartmann" in result["results"][0]["snippet"]:
        return "ok"
    raise LostError(f"the model was told {result}")


def kill(running: RunningHost) -> int:
    """Kills the processes of the plugin; returns their number."""
    killed = 0
    for pid in running.children():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def kill_once(running: RunningHost, model: FakeModel, after_s: float) -> str:
    """Returns the outcome of a turn during which, `after_s` from its start, the process is killed."""
    killer = threading.Timer(after_s, kill, (running,))
    killer.start()
    try:
        return outcome_of(turn(running, model))
    finally:
        killer.join()


def kill_all_the_time(running: RunningHost, model: FakeModel) -> str:
    """Returns the outcome of a turn during which no process lives for long."""
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


def kill_host(host: OpenClaw, model: FakeModel, after_s: float) -> float:
    """Kills the host `after_s` into a turn; returns the seconds after which our process was gone."""
    with host.gateway() as running:
        outcome_of(turn(running, model))
        model.script(SEARCH, _ANSWER)
        asking = threading.Thread(target=_say, args=(running,))
        asking.start()
        asking.join(after_s)
        gone_after_s = running.kill()
        asking.join()
        model.forget_script()
    return gone_after_s


def _say(running: RunningHost) -> None:
    """Runs a turn of a host that may be killed meanwhile."""
    with suppress(OSError, HTTPException, HostError):
        running.say("Who services the boiler?")


def kill_installing(host: OpenClaw, kills: int) -> Counter[str]:
    """Kills `install` and `uninstall`, alone and with what they run, at moments spread over their run."""
    before = host.config.read_bytes()
    install, uninstall = ("openclaw", "install", "--yes"), ("openclaw", "uninstall", "--yes")
    outcomes: Counter[str] = Counter()
    for command, other in ((install, uninstall), (uninstall, install)):
        if command is uninstall:
            _must_work(host, install)
        _, taken_s = host.kill_memory_gateway(600, *command, whole_group=False)
        _must_work(host, other)
        for number in range(kills):
            after_s = taken_s * (number + 1) / (kills + 1)
            was_killed, _ = host.kill_memory_gateway(after_s, *command, whole_group=number % 2 == 1)
            outcomes["killed" if was_killed else "ended before"] += 1
            if not host.accepts([host.config])[0]:
                raise LostError(f"a killed {command[1]} left a configuration that is not valid")
            _must_work(host, command)
            if command is uninstall and host.config.read_bytes() != before:
                raise LostError(f"uninstall left {host.config.read_text()}")
            _must_work(host, other)
            if command is install and host.config.read_bytes() != before:
                raise LostError(f"uninstall after a kill left {host.config.read_text()}")
            print(f"{command[1]} {number + 1}/{kills}: {dict(outcomes)}", flush=True)
    _must_work(host, uninstall)
    if host.config.read_bytes() != before:
        raise LostError(f"uninstall left {host.config.read_text()}")
    return outcomes


def _must_work(host: OpenClaw, command: Sequence[str]) -> None:
    done = host.memory_gateway(*command)
    if done.returncode:
        raise LostError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")


def _kill_hosts(host: OpenClaw, model: FakeModel, kills: int, duration_s: float) -> list[float]:
    seconds = []
    for number in range(kills):
        seconds.append(kill_host(host, model, duration_s * number / kills))
        print(f"host {number + 1}/{kills}: our process gone after {seconds[-1]:.2f} s", flush=True)
    return seconds


def _run(asked: argparse.Namespace, root: Path) -> bool:
    command = subprocess.run([SETUP], capture_output=True, check=True, encoding="utf-8").stdout
    kills: int = asked.kills
    outcomes: Counter[str] = Counter()
    with FakeModel(most=10 * (kills + asked.hosts) + 100) as model:
        host = OpenClaw(command.strip(), root, model)
        (host.workspace / "MEMORY.md").write_text(NOTE)
        if asked.installs:
            print(f"install, uninstall: {dict(kill_installing(host, asked.installs))}; none torn")
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
        print(f"No turn was lost, no process left: {dict(outcomes)}")
        if asked.hosts:
            seconds = _kill_hosts(host, model, asked.hosts, duration)
            with host.gateway() as running:
                outcome_of(turn(running, model))
            print(
                f"{asked.hosts} hosts killed; our process gone after {max(seconds):.2f} s at most"
            )
        if model.refused:
            raise LostError(f"the model refused: {model.refused[0]}")
    return outcomes["next turn ok"] == kills + 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of the process behind the plugin")
    parser.add_argument("--hosts", type=int, default=10, help="kills of OpenClaw itself")
    parser.add_argument("--installs", type=int, default=6, help="kills of each of our two commands")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="memory-gateway-kills-") as root:
        return 0 if _run(options, Path(root)) else 1
