"""`upgrade`: how this installation is brought up to date, and doing it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Annotated

import msgspec
import typer

from gateway.cli import output
from gateway.cli.options import CommandLineError, Options


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
    from gateway.version import VERSION

    plan = plan_upgrade(file)
    if plan.needs_file and yes:
        raise CommandLineError(
            f"It was installed from {plan.source}, and which file is newer is not known.",
            remedy="Name it: memory-gateway upgrade FILE --yes",
        )
    if options.json:
        output.write_json({"version": VERSION, **msgspec.to_builtins(plan)})
    else:
        place = plan.source or "a package index"
        output.note(f"memory-gateway {VERSION}, installed by {plan.installer} from {place}.")
        for command in plan.commands:
            output.say(shlex.join(command))
    if not yes:
        hint = (
            "memory-gateway upgrade FILE --yes"
            if plan.needs_file
            else "memory-gateway upgrade --yes"
        )
        output.note(f"`{hint}` runs this.")
        return os.EX_OK
    for command in plan.commands:
        if not _run(command):
            return os.EX_UNAVAILABLE
    output.note(
        "What runs goes on as it was: restart the clients, `memory-gateway service install` a service, "
        "`memory-gateway openclaw install` the plugin. `memory-gateway doctor` checks."
    )
    return os.EX_OK


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
