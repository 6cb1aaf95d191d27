"""Links to places in notes, for terminals that show them (OSC 8), and in the forms that editors know. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from backends.interface import Hit
from gateway.cli.options import CommandLineError

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
"""What a link of each looks like."""

_PROGRAMS: Final = frozenset(
    {"iterm.app", "wezterm", "vscode", "ghostty", "hyper", "tabby", "rio", "warpterminal", "zed"}
)
_TERMS: Final = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
_VTE_WITH_LINKS: Final = 5000
"""GNOME Terminal and its relatives, from 0.50 on."""


def has_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is one that is known to show links; FORCE_HYPERLINK decides, as elsewhere."""
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
    """What links look like; None where there are to be none. Raises CommandLineError.

    Who names an editor has a terminal with links.
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
    """Whether the hit names a file by its place in the workspace."""
    return hit.source == "memory" and not hit.path.startswith("qmd/")


def url_of(pattern: str, path: str, line: int) -> str:
    """Each part is encoded, so that no name of a file is anything but a name."""
    encoded = quote(path, safe="/", errors="surrogateescape")
    return pattern.replace("{line}", str(line)).replace("{path}", encoded)


def link_to(pattern: str | None, base: str, hit: Hit, line: int) -> str | None:
    if pattern is None or not is_file(hit):
        return None
    return url_of(pattern, absolute_path(base, hit.path), line)
