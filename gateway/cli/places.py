"""Places in notes: links to them in terminals, opening one in an editor, and the hits of the last search.

Links are for terminals that show them (OSC 8), in the forms that editors know. The places of the last hits, and that a
hint was shown, are kept for later commands; if they cannot be written, no command fails.
"""

from __future__ import annotations

import os
import os.path
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

import msgspec

from backends.interface import Hit
from config.paths import named_dir
from config.runtime.files import make_directories, read_file, replace_file
from gateway.cli.options import PROGRAM, CommandLineError

EDITORS: Final[Mapping[str, str]] = {
    "file": "file://{path}",
    "vscode": "vscode://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "textmate": "txmt://open?url=file://{path}&line={line}",
    "obsidian": "obsidian://open?path={path}",
}
"""The pattern of links for each editor."""

_PROGRAMS: Final = frozenset(
    {"iterm.app", "wezterm", "vscode", "ghostty", "hyper", "tabby", "rio", "warpterminal", "zed"}
)
_TERMS: Final = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
_VTE_WITH_LINKS: Final = 5000
"""GNOME Terminal and its relatives, from 0.50 on."""


def has_links(environment: Mapping[str, str]) -> bool:
    """Returns whether the terminal is known to show links; FORCE_HYPERLINK overrides it, as in other programs."""
    forced = environment.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced not in {"", "0", "false"}
    term = environment.get("TERM", "").lower()
    if term.startswith(("dumb", "screen", "linux")) or not term:
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM", "").lower() in _PROGRAMS
        or term.startswith(_TERMS)
        or (vte.isdecimal() and int(vte) >= _VTE_WITH_LINKS)
        or any(environment.get(name) for name in ("KONSOLE_VERSION", "WT_SESSION", "DOMTERM"))
    )


def url_pattern(editor: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the pattern of links; None for no links. Raises CommandLineError.

    If an editor is named, the terminal is taken to show links.
    """
    named = editor or environment.get("MEMORY_GATEWAY_EDITOR")
    if named is None:
        return EDITORS["file"] if has_links(environment) else None
    if named == "none":
        return None
    pattern = EDITORS.get(named, named)
    rest = pattern.replace("{path}", "").replace("{line}", "")
    if "{path}" not in pattern or "{" in rest or not rest.isascii() or not rest.isprintable():
        raise CommandLineError(
            f"--editor: {named!r} is no editor that is known, and no pattern of an address.",
            remedy=f"Give one of {', '.join(EDITORS)}, none, or a pattern such as vscode://file{{path}}:{{line}}.",
        )
    return pattern


def absolute_path(base: str, hit_path: str) -> str:
    return os.path.normpath(os.path.join(base, hit_path))  # noqa: PTH118 - lexical


def is_file(hit: Hit) -> bool:
    """Returns whether the hit names a file by its place in the workspace."""
    return hit.source == "memory" and not hit.path.startswith("qmd/")


def url_of(pattern: str, path: str, line: int) -> str:
    """Returns the address. The path is encoded, so that no character of a file name has a meaning in it."""
    encoded = quote(path, safe="/", errors="surrogateescape")
    return pattern.replace("{line}", str(line)).replace("{path}", encoded)


def link_to(pattern: str | None, base: str, hit: Hit, line: int) -> str | None:
    if pattern is None or not is_file(hit):
        return None
    return url_of(pattern, absolute_path(base, hit.path), line)


# --- Opening one: $VISUAL, $EDITOR, or a program that takes links ---

_WITH_PLUS: Final = frozenset("vi vim nvim nano emacs emacsclient micro kak ne joe mg ed".split())
_WITH_COLON: Final = frozenset("hx helix subl sublime_text zed cursor".split())
_WITH_GOTO: Final = frozenset("code codium code-insiders cursor windsurf".split())
_FALLBACKS: Final = ("sensible-editor", "editor", "nano", "vi")


def open_in_editor(path: str, line: int, editor: str | None = None) -> None:
    """Opens a file and waits until an editor in the terminal has ended. Raises CommandLineError if there is none."""
    origin, named = _named_editor(editor)
    if named in EDITORS:
        command = [_opener(), url_of(EDITORS[named], path, line)]
    else:
        program = _split(origin, named) if named else [_fallback()]
        command = editor_command(program, path, line)
    import subprocess

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


def _named_editor(editor: str | None) -> tuple[str, str]:
    """Returns where an editor is named, and the name as it is there; a blank one is none."""
    places = {
        "--editor": editor,
        "VISUAL": os.environ.get("VISUAL"),
        "EDITOR": os.environ.get("EDITOR"),
    }
    return next(
        ((where, name) for where, named in places.items() if (name := (named or "").strip())),
        ("", ""),
    )


def _split(origin: str, command: str) -> list[str]:
    """Returns the words of a command, as a shell reads them. Raises CommandLineError, also if the first is empty."""
    try:
        words = shlex.split(command)
        problem = "" if words and words[0] else "it names no program"
    except ValueError as error:
        words, problem = [], str(error)[:1].lower() + str(error)[1:]
    if problem:
        raise CommandLineError(
            f"{origin}: {command!r} is no command: {problem}.",
            remedy="Write it as in a shell, such as `vim` or `code --wait`.",
        )
    return words


def editor_command(program: list[str], path: str, line: int) -> list[str]:
    """Returns the command that opens the file at the line. The path is absolute, so it is never an option."""
    name = PurePath(program[0]).name
    if name in _WITH_PLUS:
        return [*program, f"+{line}", path]
    if name in _WITH_GOTO:
        return [*program, "--goto", f"{path}:{line}"]
    if name in _WITH_COLON:
        return [*program, f"{path}:{line}"]
    return [*program, path]


def _opener() -> str:
    """Returns the program that opens addresses on this desktop. Raises CommandLineError."""
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


# --- The hits of the last search ---

_HITS: Final = "last-search.json"
_HINTED: Final = "hinted"
_MOST_BYTES: Final = 1 << 20


def keep_hits(places: Sequence[tuple[str, int]]) -> None:
    """Keeps the places of the hits that a person was shown, for `open 2`."""
    with suppress(OSError, RuntimeError):
        make_directories(_place(_HITS).parent)
        replace_file(_place(_HITS), msgspec.json.encode(places), mode=0o600)


def last_hit(number: int) -> tuple[str, int] | None:
    """Returns path and line of a hit of the last search, counted from 1."""
    try:
        data = read_file(_place(_HITS), _MOST_BYTES)
        places = msgspec.json.decode(data, type=list[tuple[str, int]])
    except (OSError, RuntimeError, msgspec.MsgspecError):
        return None
    return places[number - 1] if 0 < number <= len(places) else None


def may_hint() -> bool:
    """Returns whether to show the hint that search by meaning is off: once for each person, not for each query."""
    with suppress(OSError, RuntimeError):
        make_directories(_place(_HINTED).parent)
        os.close(os.open(_place(_HINTED), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    return False


def _place(name: str) -> Path:
    base = named_dir(os.environ, "XDG_STATE_HOME") or Path.home() / ".local/state"
    return base / PROGRAM / name
