"""A QMD that works, in the home of one agent: what every other part runs its commands through.

Owns joining program, environment and home, and telling a damaged index from other failures.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from anyio.to_thread import run_sync

from backends.qmd.configuration import read_document
from backends.qmd.environment import qmd_variables
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.home import QmdHome
from backends.qmd.process import Finished, run
from backends.qmd.program import Program, find_command, probe
from backends.qmd.running import Running
from backends.qmd.yaml import UnknownYamlError
from config.paths import former_qmd_home, qmd_home
from config.settings import Settings

_log = structlog.get_logger(__name__)

_DAMAGE = re.compile(
    "SQLITE_(?:NOTADB|CORRUPT)|file is not a database|database disk image is malformed"
)
_MODEL_VARIABLES: Final = {
    "embed": "QMD_EMBED_MODEL",
    "generate": "QMD_GENERATE_MODEL",
    "rerank": "QMD_RERANK_MODEL",
}


def home_of(settings: Settings) -> QmdHome:
    """The place of this agent's QMD, and where earlier releases had it."""
    place = settings.state_dir, settings.agent_id
    return QmdHome(qmd_home(*place), former_qmd_home(*place))


def qmd_environment(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables with which QMD works on exactly the index that the gateway uses."""
    home = home_of(settings)
    home.prepare(environment)
    try:
        directory = find_command(settings.qmd.command, environment).directory
    except QmdUnavailableError:
        directory = None
    return qmd_variables(environment, home, directory)


def qmd_command(settings: Settings, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The program, for a person who runs it by hand. Raises QmdUnavailableError."""
    return find_command(settings.qmd.command, environment).by_hand


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One working QMD and its home. Make it with `open_sidecar`."""

    program: Program
    home: QmdHome
    variables: Mapping[str, str]
    models: Mapping[str, str]
    """What this version would use for `embed`, `generate` and `rerank`."""
    named_models: Mapping[str, str]
    """The part of `models` that the operator names in variables."""

    @property
    def running(self) -> Running:
        """Where every process of this home is noted."""
        return Running(self.home)

    async def run(self, *arguments: str, timeout_s: float, niced: bool = False) -> Finished:
        """Runs one command. Raises QmdUnavailableError, also when the index is damaged."""
        argv = (*self.program.command.argv, *arguments)
        finished = await run(
            argv, self.variables, timeout_s=timeout_s, niced=niced, note=self.running.noted
        )
        if finished.returncode != 0 and is_damage(finished.stderr):
            raise QmdUnavailableError(
                "corrupt_index", f"QMD's index is damaged: {finished.complaint}."
            )
        return finished

    async def change(self, *arguments: str, timeout_s: float) -> Finished:
        """Runs a command that must succeed, with low priority. Raises QmdUnavailableError."""
        finished = await self.run(*arguments, timeout_s=timeout_s, niced=True)
        if finished.returncode != 0:
            what = " ".join(arguments[:2])
            raise QmdUnavailableError(finished.cause, f"qmd {what} failed: {finished.complaint}.")
        return finished


async def open_sidecar(settings: Settings, environment: Mapping[str, str] = os.environ) -> Sidecar:
    """Finds and tries the program, makes the home. Raises QmdUnavailableError."""
    home = home_of(settings)
    command = await run_sync(find_command, settings.qmd.command, environment)
    try:
        await run_sync(home.prepare, environment)
        ended = await run_sync(Running(home).reap)
        if ended:
            _log.warning("ended what an earlier gateway left running", processes=ended)
        trial = home.probing()
        try:
            program = await probe(command, environment, trial)
            models = await run_sync(_models, trial.config_file)
        finally:
            await run_sync(lambda: shutil.rmtree(trial.root, ignore_errors=True))
    except OSError as error:
        raise QmdUnavailableError(
            "broken",
            f"QMD's home {home.root} cannot be made: {error.strerror}.",
            remedy="Make room, or give the user who runs the gateway permission to write there.",
        ) from None
    named = {
        kind: environment[name]
        for kind, name in _MODEL_VARIABLES.items()
        if environment.get(name, "").strip()
    }
    variables = qmd_variables(environment, home, command.directory)
    return Sidecar(program, home, variables, {**models, **named}, named)


def is_damage(text: str) -> bool:
    """Whether SQLite says in this text that the index file is damaged."""
    return _DAMAGE.search(text) is not None


def _models(config_file: Path) -> dict[str, str]:
    try:
        models = read_document(config_file).get("models")
    except UnknownYamlError:
        return {}
    return {str(k): str(v) for k, v in models.items()} if isinstance(models, dict) else {}
