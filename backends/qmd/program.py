"""Finding the QMD program and judging whether it really works here.

From `memory.qmd.command` to an argument vector, past QMD's launcher where possible, and the probe: a program
counts as working when it is recent enough and has opened a database, since `--version` also answers under a
Node.js that crashes on the first query.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from backends.qmd.home import QmdHome, qmd_variables
from backends.qmd.process import Finished, QmdUnavailableError, run

Version = tuple[int, int, int]

OLDEST: Final[Version] = (2, 8, 0)
_NEWEST_MAJOR: Final = 2

_VERSION = re.compile(r"\bqmd\s+v?(\d+)\.(\d+)\.(\d+)")
_PACKAGE_ENTRY = "dist/cli/qmd.js"
_NODE_OLDEST = 22
_PROBE_TIMEOUT_S = 20.0
_INSTALL = "Install QMD (npm install -g @tobilu/qmd), or name it in memory.qmd.command."
_UPDATE = "Update QMD (npm install -g @tobilu/qmd@2), or name another one in memory.qmd.command."
# The gateway holds the other end of standard input: when it is gone, however it ended, so is QMD.
# Helper processes and threads of QMD inherit this argument, but not that input.
_FOLLOW_GATEWAY = (
    'data:text/javascript,import{isMainThread}from"node:worker_threads";'
    "if(isMainThread&&!process.send)"
    'process.stdin.on("error",()=>{}).on("end",()=>process.kill(process.pid,"SIGKILL"))'
    ".resume().unref?.()"
)


class Command(msgspec.Struct, frozen=True):
    """How QMD is started. `node` is None when a launcher chooses the runtime."""

    program: tuple[str, ...]
    directory: Path
    """Where the command was found; helper programs beside it come first."""
    node: str | None = None
    arguments: tuple[str, ...] = ()
    """What the operator wants before all other arguments."""

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.program, *self.arguments)

    @property
    def script(self) -> str:
        """What is run: QMD's own script where `node` is known, else the launcher."""
        return self.program[-1]

    @property
    def by_hand(self) -> tuple[str, ...]:
        """As a person runs it, whose QMD may outlive the gateway."""
        program = (self.node, self.script) if self.node else self.program
        return (*program, *self.arguments)


class Program(msgspec.Struct, frozen=True):
    """A QMD that has shown that it works."""

    command: Command
    version: Version

    @property
    def version_text(self) -> str:
        return _text(self.version)


def find_command(line: str, environment: Mapping[str, str]) -> Command:
    """Looks the first word up as a shell would. Raises QmdUnavailableError."""
    name, *arguments = shlex.split(line) or [""]
    if any(one.partition("=")[0] == "--index" for one in arguments):
        raise QmdUnavailableError(
            "broken",
            "memory.qmd.command names an index (--index), but every agent has one of its own.",
            remedy="Leave --index out; memory.qmd.paths adds directories to the agent's index.",
        )
    found = shutil.which(os.path.expanduser(name), path=environment.get("PATH", os.defpath))  # noqa: PTH111 - which() wants text
    if found is None:
        raise QmdUnavailableError("missing", f"There is no program {name!r}.", remedy=_INSTALL)
    path = Path(found).absolute()
    entry = _package_entry(path)
    node = _node_for(path, environment) if entry else None
    rest = tuple(arguments)
    if entry is None or node is None:
        return Command((str(path),), path.parent, arguments=rest)
    return Command((node, "--import", _FOLLOW_GATEWAY, str(entry)), path.parent, node, rest)


async def probe(command: Command, environment: Mapping[str, str], home: QmdHome) -> Program:
    """Runs the program twice in a throw-away home. Raises QmdUnavailableError (`broken`)."""
    home.prepare({})
    variables = qmd_variables(environment, home, command.directory)
    said = await run((*command.argv, "--version"), variables, timeout_s=_PROBE_TIMEOUT_S)
    version = read_version(said.stdout)
    if version is None:
        raise await _broken(command, variables, said, "does not tell its version")
    if version < OLDEST or version[0] > _NEWEST_MAJOR:
        raise QmdUnavailableError(
            "broken",
            f"QMD {_text(version)} was found ({command.script}), but 2.8 or a later 2.x is needed.",
            remedy=_UPDATE,
        )
    opened = await run((*command.argv, "status"), variables, timeout_s=_PROBE_TIMEOUT_S)
    if opened.returncode != 0 and "Documents" not in opened.stdout:
        raise await _broken(command, variables, opened, "cannot open a database")
    return Program(command, version)


def read_version(text: str) -> Version | None:
    match = _VERSION.search(text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _package_entry(path: Path) -> Path | None:
    """The script of an npm package that `path` is the launcher of."""
    launcher = path.resolve()
    package = launcher.parent.parent
    try:
        description = json.loads((package / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    entry = package / _PACKAGE_ENTRY
    named = isinstance(description, dict) and description.get("name") == "@tobilu/qmd"
    return entry if named and launcher.name == "qmd" and entry.is_file() else None


def _node_for(path: Path, environment: Mapping[str, str]) -> str | None:
    """The Node.js beside the command, for which it was installed, else that of `PATH`."""
    search = os.pathsep.join((str(path.parent), environment.get("PATH", os.defpath)))
    return shutil.which("node", path=search)


async def _broken(
    command: Command, variables: Mapping[str, str], finished: Finished, what: str
) -> QmdUnavailableError:
    name = command.script
    node = command.node or shutil.which("node", path=variables["PATH"])
    if node is not None:
        said = await run((node, "--version"), variables, timeout_s=_PROBE_TIMEOUT_S)
        major = re.match(r"v(\d+)\.", said.stdout)
        if major and int(major[1]) < _NODE_OLDEST:
            return QmdUnavailableError(
                "broken",
                f"QMD ({name}) {what} under Node.js {said.stdout.strip()} ({node}).",
                remedy=f"QMD needs Node.js {_NODE_OLDEST} or later; put one beside it or on PATH.",
            )
    return QmdUnavailableError(
        "broken", f"QMD ({name}) {what}: {finished.complaint}.", remedy=_INSTALL
    )
