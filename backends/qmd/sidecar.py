"""A QMD that works, in the home of one agent: what every other part runs its commands through.

Owns joining program, environment and home, and telling a damaged index from other failures.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from anyio.to_thread import run_sync

from backends.qmd.environment import qmd_variables
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.home import QmdHome
from backends.qmd.models import all_models, named_models
from backends.qmd.process import Finished, run
from backends.qmd.program import Program, find_command, probe
from backends.qmd.running import end_orphans, owner_variables
from config.paths import former_qmd_home, qmd_home
from config.settings import Settings

_log = structlog.get_logger(__name__)

_DAMAGE = re.compile(
    "SQLITE_(?:NOTADB|CORRUPT)|file is not a database|database disk image is malformed"
)


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
    """What a new home uses for `embed`, `generate` and `rerank`."""
    named_models: Mapping[str, str]
    """The part of `models` that the operator names in variables."""

    async def run_program(
        self, argv: Sequence[str], *, timeout_s: float, niced: bool = False
    ) -> Finished:
        """Runs any program in this home. Raises QmdUnavailableError."""
        return await run(argv, self.variables, timeout_s=timeout_s, niced=niced)

    async def run(self, *arguments: str, timeout_s: float, niced: bool = False) -> Finished:
        """Runs one command of QMD. Raises QmdUnavailableError, also when the index is damaged."""
        argv = (*self.program.command.argv, *arguments)
        finished = await self.run_program(argv, timeout_s=timeout_s, niced=niced)
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
        ended = await run_sync(end_orphans, home)
        if ended:
            _log.warning("ended what an earlier gateway left running", processes=ended)
        trial = home.probing()
        try:
            program = await probe(command, environment, trial)
        finally:
            await run_sync(lambda: shutil.rmtree(trial.root, ignore_errors=True))
    except OSError as error:
        raise QmdUnavailableError(
            "broken",
            f"QMD's home {home.root} cannot be created: {error.strerror}.",
            remedy="Make room, or give the user who runs the gateway permission to write there.",
        ) from None
    variables = {**qmd_variables(environment, home, command.directory), **owner_variables()}
    return Sidecar(program, home, variables, all_models(environment), named_models(environment))


def is_damage(text: str) -> bool:
    """Whether SQLite says in this text that the index file is damaged."""
    return _DAMAGE.search(text) is not None
