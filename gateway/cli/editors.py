"""Opening a note in the editor of the person who asks: `$VISUAL`, `$EDITOR`, or Obsidian."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import PurePath
from typing import Final

from gateway.cli.options import CommandLineError
from gateway.cli.rendering.places import EDITORS, url_of

_WITH_PLUS: Final = frozenset("vi vim nvim nano emacs emacsclient micro kak ne joe mg ed".split())
_WITH_COLON: Final = frozenset("hx helix subl sublime_text zed cursor".split())
_WITH_GOTO: Final = frozenset("code codium code-insiders cursor windsurf".split())
_FALLBACKS: Final = ("sensible-editor", "editor", "nano", "vi")


def open_in_editor(path: str, line: int, editor: str | None = None) -> None:
    """Waits until an editor in the terminal has ended. Raises CommandLineError where there is none."""
    named = editor or os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if named is not None and named in EDITORS:
        command = [_opener(), url_of(EDITORS[named], path, line)]
    else:
        command = editor_command(shlex.split(named) if named else [_fallback()], path, line)
    try:
        ended = subprocess.run(command, check=False)  # noqa: S603 - the person's own program
    except OSError as error:
        raise CommandLineError(
            f"{command[0]!r} cannot be started: {error.strerror}.",
            remedy="Name an editor in EDITOR, or with --editor.",
        ) from None
    if ended.returncode:
        raise CommandLineError(
            f"{command[0]!r} ended with exit code {ended.returncode}.",
            remedy="Another editor is named in EDITOR, or with --editor.",
        )


def editor_command(program: list[str], path: str, line: int) -> list[str]:
    """How that editor is told the line. A path that begins with a dash is none: paths are absolute."""
    name = PurePath(program[0]).name
    if name in _WITH_PLUS:
        return [*program, f"+{line}", path]
    if name in _WITH_GOTO:
        return [*program, "--goto", f"{path}:{line}"]
    if name in _WITH_COLON:
        return [*program, f"{path}:{line}"]
    return [*program, path]


def _opener() -> str:
    """What opens addresses on this desktop."""
    found = shutil.which("xdg-open") or shutil.which("open")
    if found is None:
        raise CommandLineError(
            "There is no program that opens addresses (xdg-open).",
            remedy="Name a program as the editor, such as `--editor nano`.",
        )
    return found


def _fallback() -> str:
    found = next(filter(None, map(shutil.which, _FALLBACKS)), None)
    if found is None:
        raise CommandLineError(
            "No editor is named, and none of the usual ones is there.",
            remedy="Name one in EDITOR, or with --editor.",
        )
    return found
