"""`upgrade`: shows how this installation is brought up to date, by its installer and its source, and does it.

It looks nothing up on the network; the installer does.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from gateway.cli import output
from gateway.cli.guard import NotThereError
from gateway.cli.options import PROGRAM, CommandLineError, Options
from providers.installing import DISTRIBUTION, is_of_pipx, pip_install, uv_receipt

if TYPE_CHECKING:
    from gateway.cli import arguments as typed

NEWER: Final = "NEWER-RELEASE.whl"
"""A placeholder for the file that the user has to get."""

Installer = Literal["uv", "pipx", "pip"]


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    installer: Installer
    source: str | None
    """The folder, file or address that it came from; None for a package index."""
    commands: tuple[tuple[str, ...], ...]
    """The commands to run, one after the other."""
    needs_file: bool = False
    """True if it came from a file, so that the newer one has to be named."""


def plan_upgrade(file: str | None = None) -> Upgrade:
    """Returns what to run. `file` is a newer release that comes as a file."""
    origin = _origin()
    installer: Installer = "uv" if uv_receipt() is not None else "pipx" if is_of_pipx() else "pip"
    source = _place(origin)
    plan = partial(Upgrade, installer=installer, source=source)
    if file is not None or "archive_info" in origin:
        return plan(commands=(_from_file(installer, file or NEWER),), needs_file=file is None)
    if "dir_info" in origin:
        assert source is not None
        is_editable = bool(origin["dir_info"].get("editable"))
        is_clone = Path(source, ".git").exists()
        pulled = (("git", "-C", source, "pull", "--ff-only"),) if is_clone else ()
        anew = _from_folder(installer, source, is_editable=is_editable)
        return plan(commands=(*pulled, *anew))
    return plan(commands=(_again(installer, origin),))


def _origin() -> dict[str, Any]:
    """Returns the origin that installers record (PEP 610); empty for a release from an index."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        origin = msgspec.json.decode(text) if text else {}
    except (metadata.PackageNotFoundError, msgspec.DecodeError):
        return {}
    return origin if isinstance(origin, dict) and isinstance(origin.get("url"), str) else {}


def _place(origin: dict[str, Any]) -> str | None:
    address = origin.get("url")
    if address is None:
        return None
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme == "file" else str(address)


def _from_file(installer: Installer, file: str) -> tuple[str, ...]:
    if installer == "uv":
        extras = ",".join((uv_receipt() or {}).get("extras", ()))
        return ("uv", "tool", "install", "--force", f"{file}[{extras}]" if extras else file)
    if installer == "pipx":  # unlike `pipx install --force`, this keeps what was injected
        return ("pipx", "runpip", DISTRIBUTION, "install", "--upgrade", file)
    return (*pip_install(), "--upgrade", file)


def _from_folder(
    installer: Installer, folder: str, *, is_editable: bool
) -> tuple[tuple[str, ...], ...]:
    if installer == "uv":
        return (("uv", "tool", "upgrade", "--reinstall", DISTRIBUTION),)
    if installer == "pipx":
        return (("pipx", "reinstall", DISTRIBUTION),)
    if Path(sys.prefix) == Path(folder, ".venv"):
        return ()  # `scripts/run` of a clone does it at its next start
    return ((*pip_install(), *(("--editable",) if is_editable else ()), folder),)


def _again(installer: Installer, origin: dict[str, Any]) -> tuple[str, ...]:
    """Returns the command that upgrades from an index, or from the newest commit of a repository."""
    if installer == "uv":
        return ("uv", "tool", "upgrade", DISTRIBUTION)
    if installer == "pipx":
        return ("pipx", "upgrade", DISTRIBUTION)
    versions = origin.get("vcs_info")
    if versions is None:
        return (*pip_install(), "--upgrade", DISTRIBUTION)
    branch = versions.get("requested_revision")
    address = f"{versions.get('vcs', 'git')}+{origin['url']}{f'@{branch}' if branch else ''}"
    return (*pip_install(), "--upgrade", f"{DISTRIBUTION} @ {address}")


def upgrade(options: Options, file: typed.ReleaseFile = None, *, yes: typed.RunIt = False) -> int:
    """Show how this installation is brought up to date, and with --yes do it.

    It does not look for a newer release, and sends nothing; the installer that it names does.
    """
    if file is not None:
        file = _release(file)
    plan = plan_upgrade(file)
    if plan.needs_file and yes:
        raise CommandLineError(
            f"It was installed from {plan.source}, and which file is newer is not known.",
            remedy="Name it: memory-gateway upgrade FILE --yes",
        )
    _show(plan, as_json=options.json)
    if not yes:
        named = "FILE" if plan.needs_file else file
        words = filter(None, (PROGRAM, "upgrade", named, "--yes"))
        output.note(f"`{shlex.join(words)}` runs this.")
        return os.EX_OK
    for command in plan.commands:
        if not _run(command):
            return os.EX_UNAVAILABLE
    output.note(
        "Restart the clients; where you use them, run `memory-gateway service install` and "
        "`memory-gateway openclaw install` again. `memory-gateway doctor` checks."
    )
    return os.EX_OK


def _release(named: str) -> str:
    """Returns an address as it is, and the path of a file, also with extras in brackets, from the root: installers look
    a bare name up in the package index, and install what a stranger has there. Raises NotThereError.
    """
    if "://" in named:
        return named
    if not any(Path(one).exists() for one in (named, named.rpartition("[")[0] or named)):
        raise NotThereError(
            f"There is no file {named}.", remedy="Name the newer release as it is called."
        )
    return str(Path(named).absolute())


def _show(plan: Upgrade, *, as_json: bool) -> None:
    from gateway.version import VERSION

    if as_json:
        output.write_json({"version": VERSION, **msgspec.to_builtins(plan)})
        return
    place = plan.source or "a package index"
    output.note(f"memory-gateway {VERSION}, installed by {plan.installer} from {place}.")
    for command in plan.commands:
        output.say(shlex.join(command))


def _run(command: tuple[str, ...]) -> bool:
    """Runs an installer with its output on standard error; returns whether it succeeded."""
    try:
        # Words of our own and the file that was named.
        done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603
    except OSError as error:
        output.note(f"{command[0]} cannot be started: {error.strerror}. Run it yourself.")
        return False
    if done.returncode:
        output.note(f"{shlex.join(command)} failed with exit code {done.returncode}.")
    return done.returncode == 0
