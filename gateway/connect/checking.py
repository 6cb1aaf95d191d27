"""Asking a client's own command whether it sees the server, on a copy of the file that was written.

A copy, because to be asked changes things: Claude Code lays its file out anew whenever it starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Literal

import msgspec

from config.runtime.files import replace_file
from gateway.connect.clients import Client, Surroundings

_PATIENCE_S: Final = 60.0
_SHOWN: Final = 300
_QUIET: Final = {
    "NO_COLOR": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "GEMINI_TELEMETRY_ENABLED": "false",
}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the client said. `unknown`: it has no command to ask, or that is not installed here."""

    verdict: Literal["seen", "not_seen", "unknown"]
    words: str


def check(client: Client, there: Surroundings, name: str, data: bytes) -> Seen:
    """Blocks for as long as the client takes, at most a minute. Raises OSError without a place for the copy."""
    asked = client.check
    if asked is None:
        return Seen(verdict="unknown", words=f"{client.title} has no command that could be asked.")
    program = shutil.which(client.programs[0], path=there.environment.get("PATH"))
    if program is None:
        words = f"Not checked: the command {client.programs[0]} is not on PATH."
        return Seen(verdict="unknown", words=words)
    arguments = tuple(one.replace("{name}", name) for one in asked.arguments)
    with tempfile.TemporaryDirectory(
        prefix="memory-gateway-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder, asked.file)
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(copy, data)
        environment = {
            **there.environment,
            **_QUIET,
            "XDG_CACHE_HOME": folder,
            asked.variable: folder,
        }
        said = _ask((program, *arguments), environment, folder)
    command = " ".join((client.programs[0], *arguments))
    if asked.sign.replace("{name}", name) in said:
        return Seen(verdict="seen", words=f"{client.title} sees it (`{command}`).")
    words = f"`{command}` does not show it: {said.strip()[-_SHOWN:] or 'it says nothing'}"
    return Seen(verdict="not_seen", words=words)


def _ask(command: tuple[str, ...], environment: dict[str, str], folder: str) -> str:
    """What it printed; in a folder that is empty and not trusted it starts nobody else's servers."""
    try:
        done = subprocess.run(  # noqa: S603 - the client's own command, arguments of our own
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE_S:g} s"
    except OSError as error:
        return os.strerror(error.errno or 0)
    return f"{done.stdout}\n{done.stderr}"
