"""Folders in which somebody likely keeps notes: OpenClaw's workspace, vaults of Obsidian, Logseq, `~/notes`.

Looks at names only, at few directories, and follows no link. What is found is proposed, never taken by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from config.runtime.files import read_file

Kind = Literal["OpenClaw workspace", "Obsidian vault", "Logseq graph", "folder of notes"]

_MARKS: Final[Mapping[str, Kind]] = {".obsidian": "Obsidian vault", "logseq": "Logseq graph"}
_USUAL: Final = ("notes", "Notes", "Documents/notes", "Documents/Notes", "zettelkasten", "wiki")
_PARENTS: Final = ("", "Documents", "Dropbox", "Nextcloud", "Sync", "OneDrive", "notes", "Notes")
"""Below the home: where a vault is looked for, one level deep."""
_MOST_DIRECTORIES: Final = 500
_MOST_ENTRIES: Final = 20_000
_REGISTRY_BYTES: Final = 1024 * 1024


class NotesFolder(msgspec.Struct, frozen=True):
    path: Path
    kind: Kind
    files: int
    """Markdown files in it, as far as they were counted."""

    def __str__(self) -> str:
        return f"{self.path} ({self.kind}, {self.files:,} note{'' if self.files == 1 else 's'})"


def find_notes(
    environment: Mapping[str, str], home: Path, cwd: Path, workspace: Path | None
) -> list[NotesFolder]:
    """The best first. `workspace`: that of OpenClaw's default agent."""
    found: dict[str, NotesFolder] = {}
    for path, kind in _candidates(environment, home, cwd, workspace):
        place = os.path.realpath(path)
        if place in found or place == os.path.realpath(home):
            continue
        if files := count_notes(path):
            found[place] = NotesFolder(path, kind, files)
    return list(found.values())


def kind_of(folder: Path) -> Kind:
    """What a folder of notes is, by what its program keeps in it."""
    return next((k for mark, k in _MARKS.items() if (folder / mark).is_dir()), "folder of notes")


def _candidates(
    environment: Mapping[str, str], home: Path, cwd: Path, workspace: Path | None
) -> Iterator[tuple[Path, Kind]]:
    if workspace is not None and workspace.is_dir():
        yield workspace, "OpenClaw workspace"
    yield from ((one, "Obsidian vault") for one in _known_to_obsidian(environment, home))
    if cwd != home and kind_of(cwd) != "folder of notes":
        yield cwd, kind_of(cwd)
    yield from _marked(home)
    for name in _USUAL:
        if (home / name).is_dir():
            yield home / name, "folder of notes"


def _known_to_obsidian(environment: Mapping[str, str], home: Path) -> list[Path]:
    """The vaults that Obsidian lists, the one used last first."""
    base = environment.get("XDG_CONFIG_HOME", "")
    settings = Path(base) if Path(base).is_absolute() else home / ".config"
    if sys.platform == "darwin":
        settings = home / "Library/Application Support"
    places = (settings, home / ".var/app/md.obsidian.Obsidian/config")
    vaults: list[tuple[float, str]] = []
    for place in places:
        with suppress(OSError, msgspec.DecodeError, AttributeError, TypeError):
            data = read_file(place / "obsidian/obsidian.json", _REGISTRY_BYTES)
            listed: Any = msgspec.json.decode(data).get("vaults", {}).values()
            vaults += [
                (float(one.get("ts", 0)), str(one["path"])) for one in listed if "path" in one
            ]
    return [Path(path) for _, path in sorted(vaults, reverse=True) if Path(path).is_dir()]


def _marked(home: Path) -> Iterator[tuple[Path, Kind]]:
    looked_at = 0
    for parent in _PARENTS:
        for directory in _directories(home / parent):
            looked_at += 1
            if looked_at > _MOST_DIRECTORIES:
                return
            if (kind := kind_of(directory)) != "folder of notes":
                yield directory, kind


def _directories(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(
                Path(one.path)
                for one in entries
                if one.name[0] != "." and one.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def count_notes(folder: Path) -> int:
    """Its Markdown files, without hidden ones and those of libraries; of a huge folder those met first."""
    count, left = 0, _MOST_ENTRIES
    pending = [os.fspath(folder)]
    while pending and left > 0:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                left -= 1
                if entry.name[0] == "." or entry.name == "node_modules":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                    count += 1
    return count
