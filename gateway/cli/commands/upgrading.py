"""`upgrade`: how this installation is brought up to date, and doing it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from gateway.cli import output
from gateway.cli.options import CommandLineError, Options

if TYPE_CHECKING:
    from gateway.upgrade import Upgrade


def upgrade(
    options: Options,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="The newer release, where it comes as a file."),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run what it shows.")] = False,
) -> int:
    """Show how this installation is brought up to date, and with --yes do it.

    It does not look for a newer release, and sends nothing; the installer that it names does.
    """
    from gateway.upgrade import plan_upgrade

    plan = plan_upgrade(file)
    if plan.needs_file and yes:
        raise CommandLineError(
            f"It was installed from {plan.source}, and which file is newer is not known.",
            remedy="Name it: memory-gateway upgrade FILE --yes",
        )
    _show(plan, as_json=options.json)
    if not yes:
        output.note(
            f"`memory-gateway upgrade {'FILE ' if plan.needs_file else ''}--yes` runs this."
        )
        return os.EX_OK
    for command in plan.commands:
        if not _run(command):
            return os.EX_UNAVAILABLE
    output.note(
        "What runs goes on as it was: restart the clients, `memory-gateway service install` a service, "
        "`memory-gateway openclaw install` the plugin. `memory-gateway doctor` checks."
    )
    return os.EX_OK


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
    """What an installer says goes to standard error."""
    try:
        done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603 - words of our own and the file that was named
    except OSError as error:
        output.note(f"{command[0]} cannot be started: {error.strerror}. Run it yourself.")
        return False
    if done.returncode:
        output.note(f"{shlex.join(command)} failed with exit code {done.returncode}.")
    return done.returncode == 0
