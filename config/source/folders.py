"""Which folder of notes a request means: an option, a variable, what `setup` wrote into our own file, else none.

The one place where that is decided. A folder may be named by its path, or by the name that `setup` gave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from config import paths
from config.errors import ConfigInvalidError, ConfigNotFoundError, ConfigProblem
from config.source.discover import LoadRequest, names_openclaw, read_own_file
from config.source.located import Located, descend, quote, type_words
from config.values import SettingOrigin

FOLDERS: Final = ("notes", "folders")
DEFAULT: Final = ("notes", "default")


class Folders(msgspec.Struct, frozen=True):
    """The folders that our own file names."""

    by_name: Mapping[str, Located] = {}
    default: str | None = None

    def path(self, name: str, *, home: Path) -> Path:
        node = self.by_name[name]
        return paths.resolve_path(str(node.value), home=home, base=node.source.path.parent)


def with_notes(request: LoadRequest) -> LoadRequest:
    """The request with the folder of notes that it means; as it is where it means an agent's workspace.

    Raises `ConfigInvalidError` for a file of ours that cannot be read, `ConfigNotFoundError`.
    """
    if request.notes is not None:
        return _named(request, str(request.notes), request.notes_origin)
    if request.agent_id is not None or request.workspace is not None:
        return request
    if (variable := paths.variable(request.environment, paths.NOTES_VARIABLE)) is not None:
        origin = SettingOrigin(kind="environment", detail=paths.NOTES_VARIABLE)
        return _named(request, variable[1], origin)
    if names_openclaw(request):
        return request
    home = paths.home_dir(request.environment, request.cwd)
    folders = read_folders(read_own_file(request, home))
    return request if folders.default is None else _known(request, folders, folders.default, home)


def _named(request: LoadRequest, text: str, origin: SettingOrigin) -> LoadRequest:
    """By its name if our own file has that, else by its path."""
    if text and not set(text) & set("/~."):
        home = paths.home_dir(request.environment, request.cwd)
        folders = read_folders(read_own_file(request, home))
        if text in folders.by_name:
            return _known(request, folders, text, home)
        if not (request.cwd / text).exists() and folders.by_name:
            raise ConfigNotFoundError(
                f"{origin.detail} {text} is neither a folder here nor one that `setup` knows.",
                remedy=f"It knows {', '.join(folders.by_name)}.",
            )
    return replace(request, notes=text, notes_origin=origin)


def _known(request: LoadRequest, folders: Folders, name: str, home: Path) -> LoadRequest:
    node = folders.by_name[name]
    place = f"{node.source.path}, line {node.line} ({name})"
    origin = SettingOrigin(kind="file", detail=place)
    return replace(request, notes=folders.path(name, home=home), notes_origin=origin)


def read_folders(root: Located | None) -> Folders:
    """Raises `ConfigInvalidError` for what is no name or no path."""
    if root is None:
        return Folders()
    block = descend(root, *FOLDERS)
    if block is not None and not isinstance(block.value, dict):
        raise _wrong(block, f"found {type_words(block.value)}, allowed is an object of paths")
    by_name = dict(block.value) if block is not None else {}
    for name, node in by_name.items():
        if not isinstance(node.value, str) or not node.value.strip() or "\0" in node.value:
            raise _wrong(node, f"the folder {quote(name)} needs a path as a string")
    default = descend(root, *DEFAULT)
    if default is None or default.value is None:
        return Folders(by_name)
    if not isinstance(default.value, str) or default.value not in by_name:
        raise _wrong(default, "notes.default names none of notes.folders")
    return Folders(by_name, default.value)


def _wrong(node: Located, message: str) -> ConfigInvalidError:
    problem = ConfigProblem(
        message=message, file=str(node.source.path), line=node.line, column=node.column
    )
    return ConfigInvalidError([problem], remedy="Correct it there, or run `memory-gateway setup`.")
