"""QMD in the hands of a person: on exactly the index that the gateway uses, one change at a time.

Owns becoming that QMD, and the variables with which a shell reaches the same index.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from backends.qmd.environment import NEUTRAL_DIRECTORY
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.home import embed_lock
from backends.qmd.sidecar import home_of, qmd_command, qmd_environment
from config.disk.locking import lock_within, open_lock, try_lock
from config.settings import Settings

_CHANGING: Final = frozenset(("cleanup", "collection", "context", "embed", "update"))
_HINDERING: Final = ("CI",)
_OF_THE_SHELL: Final = ("PWD",)


def become_qmd(
    settings: Settings, arguments: Sequence[str], on_wait: Callable[[], None]
) -> NoReturn:
    """Replaces this process by QMD. Raises QmdUnavailableError.

    A command that changes the index first waits until nobody else does (`on_wait` is called then) and
    keeps the lock until QMD ends: the open files go over to it.
    """
    argv = (*qmd_command(settings), *arguments)
    variables = qmd_environment(settings)
    try:
        if not _CHANGING.isdisjoint(arguments[:1]):
            locks = [home_of(settings).lock]
            if arguments[0] == "embed":
                locks.insert(0, embed_lock(os.environ))
            for path in locks:
                _hold(path, on_wait)
        os.chdir(NEUTRAL_DIRECTORY)
        os.execve(argv[0], argv, variables)  # noqa: S606 - no shell is the point
    except OSError as error:
        raise QmdUnavailableError("broken", f"QMD cannot be run: {error}.") from None


def shell_lines(settings: Settings, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """What to type (or `eval`) so that `qmd` works on the index of this agent."""
    for name, value in own_variables(settings, environment).items():
        yield f"export {name}={shlex.quote(value)}"
    for name in _HINDERING:
        if name in environment:
            yield f"unset {name}"


def own_variables(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables that differ from those of the shell."""
    variables = qmd_environment(settings, environment)
    return {
        name: value
        for name, value in variables.items()
        if name not in _OF_THE_SHELL and environment.get(name) != value
    }


def _hold(path: Path, on_wait: Callable[[], None]) -> None:
    descriptor = open_lock(path)
    os.set_inheritable(descriptor, True)
    if not try_lock(descriptor):
        on_wait()
        lock_within(descriptor)
