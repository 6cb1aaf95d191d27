"""Makes the gateway of one agent a service of the user, and undoes it.

Owns the order: files first, then the manager reads them, then the service starts; and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from config.disk.making import make_directories
from gateway.units import files
from gateway.units.manager import systemctl


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What was written or removed; `problem` says why the manager did not follow, if so."""

    paths: tuple[str, ...]
    problem: str = ""
    by_hand: tuple[str, ...] = ()
    """The commands that were not run."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's service: `program` runs the gateway, `arguments` follow `serve --socket-only`."""

    agent_id: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    directory: Path
    """Of the units."""
    writable: tuple[Path, ...]
    """Where the gateway writes: made now, as a unit cannot make what it may not write beside."""


def install(plan: Plan) -> Change:
    """Writes the units, enables and starts the service. Raises OSError."""
    for path in plan.writable:
        make_directories(path)
    folder = files.templates()
    units = {
        plan.directory / name: files.render(
            (folder / name).read_text(encoding="utf-8"), plan.program
        )
        for name in (files.SERVICE, files.SOCKET)
    }
    drop_in = files.drop_in_path(plan.directory, plan.agent_id)
    units[drop_in] = files.render_drop_in(plan.program, plan.arguments, plan.writable)
    for path, text in units.items():
        make_directories(path.parent, mode=0o755)
        path.write_text(text, encoding="utf-8")
    unit = files.instance(plan.agent_id)
    return _follow(tuple(units), (("daemon-reload",), ("enable", unit), ("restart", unit)))


def uninstall(directory: Path, agent_id: str) -> Change:
    """Stops the service and removes what `install` wrote; templates go with the last agent."""
    unit = files.instance(agent_id)
    stopped = _follow((), (("disable", "--now", unit),))
    drop_in = files.drop_in_path(directory, agent_id)
    removed = [drop_in] if drop_in.exists() else []
    others = set(directory.glob(f"{files.instance('*')}.d/installed.conf")) - {drop_in}
    if not others:
        units = (directory / files.SERVICE, directory / files.SOCKET)
        removed += [path for path in units if path.exists()]
    for path in removed:
        path.unlink()
    if drop_in.parent.is_dir() and not any(drop_in.parent.iterdir()):
        drop_in.parent.rmdir()
    reloaded = _follow(tuple(removed), (("daemon-reload",),))
    return msgspec.structs.replace(
        reloaded,
        problem=stopped.problem or reloaded.problem,
        by_hand=stopped.by_hand + reloaded.by_hand,
    )


def _follow(paths: Sequence[Path], commands: Sequence[tuple[str, ...]]) -> Change:
    """Has the manager follow, up to the first command that fails."""
    written = tuple(map(str, paths))
    for number, command in enumerate(commands):
        answer = systemctl(*command)
        if answer.problem:
            left = tuple(f"systemctl --user {' '.join(one)}" for one in commands[number:])
            return Change(paths=written, problem=answer.problem, by_hand=left)
    return Change(paths=written)
