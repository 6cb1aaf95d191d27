"""The gateway as a systemd user service: unit files, installing them, asking systemctl."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

import gateway
from config.paths import named_dir
from config.runtime.files import make_directories
from config.settings import Settings

SERVICE: Final = "memory-gateway@.service"
SOCKET: Final = "memory-gateway@.socket"
PLACEHOLDER: Final = "%h/.local/bin/memory-gateway"
"""Stands for the program in the template, and is right for a program that pipx or uv installed."""
_HIDDEN: Final = ("/tmp", "/var/tmp")  # noqa: S108 - named, not used
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(1, 0x20), 0x7F)}
"""A newline in the name of a directory would begin another setting."""


def templates() -> Path:
    """Returns the folder with the templates: in the installed package, else beside it in a checkout."""
    package = Path(gateway.__file__).resolve().parent
    packed = package / "systemd"
    return packed if packed.is_dir() else package.parent / "systemd"


def unit_directory(environment: Mapping[str, str], home: Path) -> Path:
    """Returns the directory in which the user's service manager looks for units."""
    base = named_dir(environment, "XDG_CONFIG_HOME") or home / ".config"
    return base / "systemd" / "user"


def name_of(settings: Settings) -> str:
    """Returns the name of this memory's unit: its agent's; for a folder of notes, that of its index directory."""
    return settings.agent_id if settings.notes_folder is None else settings.state_dir.name


def instance(name: str) -> str:
    """Returns the unit of an agent, or of a folder of notes."""
    return SERVICE.replace("@", f"@{name}")


def drop_in_path(directory: Path, name: str) -> Path:
    return directory / f"{instance(name)}.d" / "installed.conf"


def render(template: str, program: Sequence[str]) -> str:
    """Returns the unit for a program at another place."""
    return template.replace(PLACEHOLDER, " ".join(map(_quote_argument, program)))


def render_drop_in(
    program: Sequence[str], arguments: Sequence[str], writable: Sequence[Path]
) -> str:
    """Returns the settings of one service beyond the template: more arguments, other places to write to."""
    command = " ".join(map(_quote_argument, (*program, "serve", "--socket-only", *arguments)))
    paths = " ".join(_quote(f"-{path}") for path in writable)
    return f"[Service]\nExecStart=\nExecStart={command}\nReadWritePaths={paths}\n"


def _quote_argument(text: str) -> str:
    return _quote(text.replace("$", "$$"))


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.translate(_CONTROLS)
    return f'"{escaped}"' if any(one in escaped for one in " \"'\\;") else escaped


_PATIENCE_S: Final = 30.0
_SHOWN: Final = ("LoadState", "UnitFileState", "ActiveState", "SubState", "MainPID", "StatusText")


class ManagerAnswer(msgspec.Struct, frozen=True):
    """The answer of systemctl; `problem` is empty when it did what was asked."""

    text: str
    problem: str = ""


class UnitState(msgspec.Struct, frozen=True, rename="camel"):
    unit: str
    installed: bool
    enabled: bool
    active: bool
    state: str
    """The state in the words of systemd, such as `active (running)`."""
    pid: int | None
    status: str
    """The gateway's own status line."""


def systemctl(*arguments: str) -> ManagerAnswer:
    command = ("systemctl", "--user", *arguments)
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, arguments of our own
            command, capture_output=True, encoding="utf-8", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ManagerAnswer("", f"{' '.join(command)} cannot be run: {error}")
    if done.returncode:
        return ManagerAnswer(done.stdout, done.stderr.strip() or f"exit code {done.returncode}")
    return ManagerAnswer(done.stdout)


def read_state(unit: str) -> UnitState | ManagerAnswer:
    """Returns the state of a unit; the answer itself where there is no service manager."""
    answer = systemctl("show", unit, f"--property={','.join(_SHOWN)}")
    if answer.problem:
        return answer
    shown = dict(line.split("=", 1) for line in answer.text.splitlines() if "=" in line)
    is_over = shown.get("ActiveState") == "inactive"  # the last line of one that ended is no state
    return UnitState(
        unit=unit,
        installed=shown.get("LoadState") == "loaded",
        enabled=shown.get("UnitFileState") == "enabled",
        active=shown.get("ActiveState") == "active",
        state=f"{shown.get('ActiveState', 'unknown')} ({shown.get('SubState', 'unknown')})",
        pid=int(shown.get("MainPID", "0")) or None,
        status="" if is_over else shown.get("StatusText", ""),
    )


class UnitChange(msgspec.Struct, frozen=True, kw_only=True):
    """The files that were written or removed; `problem` says why the manager did not follow, if it did not."""

    paths: tuple[str, ...]
    problem: str = ""
    by_hand: tuple[str, ...] = ()
    """The commands that were not run."""
    refused: bool = False
    """True if the manager answered, and did not do it."""
    hidden: tuple[str, ...] = ()
    """Paths that the service needs and cannot see, since `PrivateTmp=` gives it a /tmp of its own."""


class UnitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One service: `program` runs the gateway, `arguments` follow `serve --socket-only`."""

    name: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    directory: Path
    """The directory of the units."""
    writable: tuple[Path, ...]
    """Directories that the gateway writes to. Installing makes them: the unit has no permission to."""
    workspace: Path


def install(plan: UnitPlan) -> UnitChange:
    """Writes the units, enables and starts the service. Raises OSError."""
    for path in plan.writable:
        make_directories(path)
    folder = templates()
    units = {
        plan.directory / name: render((folder / name).read_text(encoding="utf-8"), plan.program)
        for name in (SERVICE, SOCKET)
    }
    drop_in = drop_in_path(plan.directory, plan.name)
    units[drop_in] = render_drop_in(plan.program, plan.arguments, plan.writable)
    for path, text in units.items():
        make_directories(path.parent, mode=0o755)
        _write(path, text)
    unit = instance(plan.name)
    change = _follow(tuple(units), (("daemon-reload",), ("enable", unit), ("restart", unit)))
    needed = dict.fromkeys((Path(plan.program[0]), plan.workspace, *plan.writable))
    hidden = tuple(str(path) for path in needed if any(map(path.is_relative_to, _HIDDEN)))
    return msgspec.structs.replace(change, hidden=hidden)


def _write(path: Path, text: str) -> None:
    """Raises OSError that names the file, as that of a full disk does not by itself."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        error.filename = str(path)
        raise


def uninstall(directory: Path, name: str) -> UnitChange:
    """Stops the service and removes what `install` wrote; templates go with the last service.

    The socket goes first: a client that connects to it would start the service again, and the link of
    one that the user enabled would outlive its unit.
    """
    socket = SOCKET.replace("@", f"@{name}")
    stopped = _follow((), (("disable", "--now", socket, instance(name)),))
    drop_in = drop_in_path(directory, name)
    removed = [drop_in] if drop_in.exists() else []
    others = set(directory.glob(f"{instance('*')}.d/installed.conf")) - {drop_in}
    if not others:
        units = (directory / SERVICE, directory / SOCKET)
        removed += [path for path in units if path.exists()]
    if stopped.problem and not removed:
        return UnitChange(paths=())  # there is no such service, whether or not systemd answers
    for path in removed:
        path.unlink()
    if drop_in.parent.is_dir() and not any(drop_in.parent.iterdir()):
        drop_in.parent.rmdir()
    reloaded = _follow(tuple(removed), (("daemon-reload",),))
    return msgspec.structs.replace(
        reloaded,
        problem=stopped.problem or reloaded.problem,
        by_hand=stopped.by_hand + reloaded.by_hand,
        refused=stopped.refused or reloaded.refused,
    )


def _follow(paths: Sequence[Path], commands: Sequence[tuple[str, ...]]) -> UnitChange:
    """Runs these commands of systemctl up to the first that fails."""
    written = tuple(map(str, paths))
    for number, command in enumerate(commands):
        answer = systemctl(*command)
        if answer.problem:
            left = tuple(f"systemctl --user {' '.join(one)}" for one in commands[number:])
            refused = not systemctl("show", "--property=Version").problem
            return UnitChange(paths=written, problem=answer.problem, by_hand=left, refused=refused)
    return UnitChange(paths=written)
