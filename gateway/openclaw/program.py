"""The OpenClaw that is installed here: finding it, whether it can load the plugin, and running its commands.

Everything blocks; its commands take seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from config.errors import ErrorKind, MemoryGatewayError
from config.paths import CONFIG_PATH_VARIABLES, STATE_DIR_VARIABLES

PLUGIN_API: Final = (2026, 9, 6)
"""The oldest release whose plugins have what ours uses."""
OLDEST_NODE: Final = (24, 16)
_PATIENCE_S: Final = 180.0
_LOCKED_S: Final = 300.0
"""The time that OpenClaw's plugins stay locked after a command was killed that was changing them."""
_LONG_S: Final = 60.0
"""The time after which the person who waits for a change is informed."""
_TO_END_S: Final = 10.0
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_FOOTER: Final = re.compile(r"\[openclaw\] (Debug|Try|Help): ")
_LAST_LINES: Final = 3


class HostError(MemoryGatewayError):
    """OpenClaw cannot take the plugin, or did not do what it was asked to."""

    kind = ErrorKind.CONFIG_INVALID


class HostConfig(msgspec.Struct, frozen=True):
    """The configuration as OpenClaw describes it."""

    path: Path
    problem: str | None
    """The reason why it is not valid."""


class OpenClawHost(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    version: str
    node: str
    """Its version."""
    environment: Mapping[str, str]
    inform: Callable[[str], None]
    """Gets a line for the person who waits."""

    def run(self, *arguments: str) -> str:
        """Runs a command that changes something; returns its standard output. Raises HostError if it fails."""
        command = f"`openclaw {' '.join(arguments)}`"
        waiting = (
            f"{command} is not done after {_LONG_S:.0f} s. Another command of OpenClaw may be changing its plugins, or "
            f"one was killed meanwhile, which locks them for {_LOCKED_S / 60:.0f} minutes: this one waits for them."
        )
        patience_s = _LOCKED_S + _PATIENCE_S
        done = _run(
            [self.command, *arguments], self.environment, patience_s, lambda: self.inform(waiting)
        )
        if done is None:
            raise HostError(
                f"{command} was not done within {patience_s / 60:.0f} minutes, and was ended.",
                remedy="See what else of OpenClaw runs, and wait for its end; "
                "then run it by hand to see all that it says.",
            )
        if done.returncode:
            raise HostError(
                f"{command} failed: {_last_words(done)}.",
                remedy="Run it by hand to see all that it says.",
            )
        return done.stdout

    def read_config(self) -> HostConfig:
        """Raises HostError where OpenClaw does not say where its configuration is."""
        done = _ask([self.command, "config", "validate", "--json"], self.environment)
        said = _json_in(done.stdout)
        if not isinstance(said.get("path"), str):
            raise HostError(
                f"OpenClaw does not say where its configuration is: {_last_words(done)}.",
                remedy="`openclaw config validate` shows what is wrong.",
            )
        return HostConfig(Path(said["path"]), _problem(said))

    def inspect(self, plugin: str) -> dict[str, Any]:
        """Returns what OpenClaw knows of a plugin, which it loads for that; empty if it knows none of that name."""
        arguments = ("plugins", "inspect", plugin, "--runtime", "--json")
        said = _json_in(_ask([self.command, *arguments], self.environment).stdout)
        return said if "plugin" in said else {}


def find_host(
    environment: Mapping[str, str],
    command: str | None = None,
    overlay: Mapping[str, str] = {},
    inform: Callable[[str], None] = lambda _line: None,
) -> OpenClawHost:
    """Returns the OpenClaw that `command` names, else the one on PATH; `overlay` changes its environment.

    Raises HostError where there is none, or it or its Node.js is too old.
    """
    path = environment.get("PATH", os.defpath)
    found = shutil.which(command or "openclaw", path=path)
    if found is None:
        raise HostError(
            f"There is no OpenClaw here: {command or '`openclaw` is not on PATH'}.",
            remedy="Install it (`npm install -g openclaw`), or name its command with --openclaw.",
        )
    # If there is a Node.js beside its command, OpenClaw is meant to run with that one.
    variables = {
        **environment,
        "PATH": f"{Path(found).parent}{os.pathsep}{path}",
        "NO_COLOR": "1",
        **overlay,
    }
    node, version = _node_version(variables), _host_version(found, variables)
    return OpenClawHost(
        command=found, version=version, node=node, environment=variables, inform=inform
    )


def _host_version(command: str, environment: Mapping[str, str]) -> str:
    version = _ask([command, "--version"], environment)
    numbers = _numbers(version.stdout)
    if version.returncode or numbers is None:
        raise HostError(
            f"{command} does not say its version: {_last_words(version)}.",
            remedy="Make `openclaw --version` work first.",
        )
    if numbers < PLUGIN_API:
        oldest = ".".join(map(str, PLUGIN_API))
        raise HostError(
            f"OpenClaw {_dotted(numbers)} is too old: the plugin needs {oldest} or later.",
            remedy="Update OpenClaw, or let it start `memory-gateway serve` as before.",
        )
    return _dotted(numbers)


def _node_version(environment: Mapping[str, str]) -> str:
    needed = ".".join(map(str, OLDEST_NODE))
    node = shutil.which("node", path=environment["PATH"])
    if node is None:
        raise HostError(
            "OpenClaw needs Node.js, and there is no `node` on PATH.",
            remedy=f"Install Node.js {needed} or later.",
        )
    numbers = _numbers(_ask([node, "--version"], environment).stdout)
    if numbers is None or numbers[:2] < OLDEST_NODE:
        found = _dotted(numbers) if numbers else "of an unknown version"
        raise HostError(
            f"Node.js {found} ({node}) is too old: OpenClaw needs {needed} or later.",
            remedy="Install a newer one, and put it first on PATH.",
        )
    return _dotted(numbers)


def host_overlay(state_dir: str | None, config: str | None) -> dict[str, str]:
    """Returns the variables that make OpenClaw use the places that our options name."""
    named = {STATE_DIR_VARIABLES[0]: state_dir, CONFIG_PATH_VARIABLES[0]: config}
    return {name: str(Path(place).absolute()) for name, place in named.items() if place}


def _ask(argv: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command that changes nothing; one that cannot be run or does not end says so on its standard error."""
    done = _run(argv, environment, _PATIENCE_S)
    return done or subprocess.CompletedProcess(
        argv, 1, "", f"it did not end within {_PATIENCE_S:.0f} s"
    )


def _run(
    argv: list[str],
    environment: Mapping[str, str],
    patience_s: float,
    when_long: Callable[[], None] = lambda: None,
) -> subprocess.CompletedProcess[str] | None:
    """Returns None if the command did not end in time, and was ended. `when_long` is called once, after a minute."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a program that was found, arguments of our own
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        return subprocess.CompletedProcess(argv, 1, "", f"it cannot be run: {error}")
    with process:
        try:
            first_s = min(_LONG_S, patience_s)
            with suppress(subprocess.TimeoutExpired):
                return _ended(process, first_s)
            when_long()
            with suppress(subprocess.TimeoutExpired):
                return _ended(process, patience_s - first_s)
            return None
        finally:
            _end(process)


def _ended(process: subprocess.Popen[str], within_s: float) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired; nothing that it printed is lost then."""
    said, complained = process.communicate(timeout=within_s)
    return subprocess.CompletedProcess(process.args, process.returncode, said, complained)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends also the process that OpenClaw's launcher started in its own session: only the launcher can end that."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TO_END_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the last lines, without the footer of every failure, which says where to look for help."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
    said = [line for line in lines if line and not _FOOTER.match(line)]
    return "; ".join(said[-_LAST_LINES:]).rstrip(".") or f"exit code {done.returncode}"


def _json_in(text: str) -> dict[str, Any]:
    """Returns the document that a command printed after other lines."""
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        said = msgspec.json.decode(text[start:])
    except msgspec.DecodeError:
        return {}
    return said if isinstance(said, dict) else {}


def _problem(said: Mapping[str, Any]) -> str | None:
    if said.get("valid") is True:
        return None
    issues = said.get("issues") or said.get("errors") or [said.get("error")]
    words = [
        f"{one.get('path') or '(root)'}: {one.get('message')}"
        if isinstance(one, dict)
        else str(one)
        for one in issues
        if one
    ]
    return "; ".join(words[:_LAST_LINES]) or "it does not say why"


def _numbers(text: str) -> tuple[int, int, int] | None:
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _dotted(numbers: tuple[int, int, int]) -> str:
    return ".".join(map(str, numbers))
