"""Finds the state directory and the configuration file, reads that file with all its includes, and determines the
folder of notes that a request means: from an option, a variable or what `setup` wrote into our own file; else none.

A folder may be named by its path, or by the name that `setup` gave it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from config import paths
from config.errors import (
    ConfigInvalidError,
    ConfigNotFoundError,
    ConfigProblem,
    ErrorKind,
    MemoryGatewayError,
)
from config.runtime.files import is_addressable
from config.source.located import Located, SettingOrigin, descend, quote, type_words

FOLDERS: Final = ("notes", "folders")
DEFAULT: Final = ("notes", "default")


class UnusableFolderError(MemoryGatewayError):
    """A folder that cannot be used as a folder of notes."""

    kind = ErrorKind.INVALID_PARAMS


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The agent whose settings to load, and the places that the command line names."""

    environment: Mapping[str, str]
    cwd: Path
    """The base of relative paths on the command line, in the environment and in most keys."""
    agent_id: str | None = None
    """None: the default agent of the configuration."""
    config_path: str | Path | None = None
    state_dir: str | Path | None = None
    workspace: str | Path | None = None
    notes: str | Path | None = None
    """A folder that is the whole memory; OpenClaw's places of a configuration are ignored then."""
    notes_origin: SettingOrigin = SettingOrigin(kind="command-line", detail="--notes")
    claude_code: bool = False
    """Adds Claude Code's memory, whatever the file says."""


class FoundConfig(msgspec.Struct, frozen=True):
    """The directories and the file that are found before any key is read."""

    home: Path
    state_dir: Path
    state_origin: SettingOrigin
    root: Located | None
    """None without a configuration file."""
    config_origin: SettingOrigin
    is_ours: bool = False
    """True if it is our own file, which OpenClaw never sees."""


def discover(request: LoadRequest) -> FoundConfig:
    """Finds the file. Raises `ConfigNotFoundError` if a named one is missing, `ConfigInvalidError` if it is wrong."""
    home = paths.home_dir(request.environment, request.cwd)
    if request.notes is not None:
        return _discover_notes(request, home)
    state, state_origin = _state_dir(request, home)
    root, config_origin = _named_config(request, home) or _usual_config(request, home, state)
    found = FoundConfig(home, state, state_origin, root, config_origin)
    if root is not None or names_openclaw(request):
        return found
    return msgspec.structs.replace(found, root=read_own_file(request, home), is_ours=True)


def names_openclaw(request: LoadRequest) -> bool:
    """Returns whether an option or a variable says which OpenClaw is meant."""
    given = (request.config_path, request.state_dir)
    variables = (*paths.STATE_DIR_VARIABLES, *paths.CONFIG_PATH_VARIABLES, "OPENCLAW_PROFILE")
    return any(given) or paths.variable(request.environment, *variables) is not None


def read_own_file(request: LoadRequest, home: Path) -> Located | None:
    """Returns our own file, None if it is missing. Raises `ConfigInvalidError`, also if we may not access it."""
    path = paths.own_file(request.environment, home=home)
    with suppress(PermissionError):  # the error of reading it names its owner
        if not paths.is_present(path):
            return None
    return _read(path)


def _discover_notes(request: LoadRequest, home: Path) -> FoundConfig:
    """Reads the configuration for a folder of notes: the file that the command line names, else our own."""
    folder = notes_folder(request, home)
    base, origin = _notes_base(request, home)
    state = paths.notes_state_dir(base, folder)
    named = _named_config(request, home) if request.config_path is not None else None
    if named is not None:
        return FoundConfig(home, state, origin, *named)
    ours = read_own_file(request, home)
    return FoundConfig(home, state, origin, ours, SettingOrigin(kind="default"), is_ours=True)


def _notes_base(request: LoadRequest, home: Path) -> tuple[Path, SettingOrigin]:
    """Returns the directory that contains the state directories of folders of notes."""
    if request.state_dir is not None:
        return _state_dir(request, home)
    return paths.data_dir(request.environment, home=home), SettingOrigin(kind="default")


def notes_folder(request: LoadRequest, home: Path, *, may_be_away: bool = True) -> Path:
    """Returns the folder, with links resolved. One that is indexed `may_be_away`, as its disk may be.

    Raises `ConfigNotFoundError` if there is none, and `UnusableFolderError`.
    """
    text = str(request.notes)
    path = paths.resolve_path(text, home=home, base=request.cwd) if text.strip() else None
    if path is not None:
        _refuse_odd_name(os.path.realpath(path))
    if path is None or not path.is_dir():
        is_there = path is not None and paths.exists(path)
        if path is not None and may_be_away and not is_there:
            away = Path(os.path.realpath(path))  # which accepts links that lead nowhere
            state = paths.notes_state_dir(_notes_base(request, home)[0], away)
            if (state / paths.NOTES_INDEX).is_file():
                return away
        what = "is not a folder" if is_there else "does not exist"
        named = request.notes_origin.detail
        message = f"{path} {what}." if path else f"{named} is empty."
        raise ConfigNotFoundError(message, remedy=f"Let {named} name the folder with the notes.")
    return path.resolve()


def _refuse_odd_name(path: str) -> None:
    """Refuses a name that settings and messages, which are UTF-8, cannot contain. Raises `UnusableFolderError`."""
    if not is_addressable(path):
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise UnusableFolderError(
            f"The name of the folder {shown} is not UTF-8.",
            remedy="Rename it, or the directory that it is in.",
        )


def _state_dir(request: LoadRequest, home: Path) -> tuple[Path, SettingOrigin]:
    if request.state_dir is not None:
        chosen = paths.resolve_path(str(request.state_dir), home=home, base=request.cwd)
        return chosen, SettingOrigin(kind="command-line", detail="--state-dir")
    named = paths.variable(request.environment, *paths.STATE_DIR_VARIABLES)
    origin = SettingOrigin(kind="default")
    if named:
        origin = SettingOrigin(kind="environment", detail=named[0])
    return paths.state_dir(request.environment, home=home, cwd=request.cwd), origin


def _named_config(request: LoadRequest, home: Path) -> tuple[Located, SettingOrigin] | None:
    if request.config_path is not None:
        text = str(request.config_path)
        origin = SettingOrigin(kind="command-line", detail="--config")
    elif named := paths.variable(request.environment, *paths.CONFIG_PATH_VARIABLES):
        text, origin = named[1], SettingOrigin(kind="environment", detail=named[0])
    else:
        return None
    path = paths.resolve_path(text, home=home, base=request.cwd)
    root = _read(path)
    if root is None:
        message = f"There is no configuration file {path}, which {origin.detail} names."
        remedy = f"Correct {origin.detail}, or leave it out so that the usual places are used."
        raise ConfigNotFoundError(message, remedy=remedy)
    return root, origin


def _usual_config(
    request: LoadRequest, home: Path, state: Path
) -> tuple[Located | None, SettingOrigin]:
    everywhere = request.state_dir is None
    places = tuple(paths.config_candidates(state, home=home, everywhere=everywhere))
    for path in places:
        root = _read(path) if paths.exists(path) else None
        if root is not None:
            return root, SettingOrigin(kind="default")
    _refuse_broken_link(places)
    return None, SettingOrigin(kind="default")


def _refuse_broken_link(places: Sequence[Path]) -> None:
    """Refuses a link that leads nowhere: there are settings, and a disk that is away must not mean the defaults."""
    link = next(filter(os.path.islink, places), None)
    if link is not None:
        message = f"is a link to {os.path.realpath(link)}, which cannot be found"
        raise ConfigInvalidError.of(link, message, "Bring that file back, or remove the link.")


def _read(path: Path) -> Located | None:
    from config.source.json5 import read_json5, require_object  # noqa: PLC0415 - likewise

    try:
        return require_object(resolve_includes(read_json5(path)))
    except FileNotFoundError:
        return None


INCLUDE = "$include"
MAX_CHAIN = 10
"""The longest chain of files that include one another."""


def resolve_includes(root: Located) -> Located:
    """Returns the tree with every include filled in. Raises `ConfigInvalidError`."""
    return _resolve(root, (root.source.path,), 0) if INCLUDE in root.source.text else root


def _resolve(node: Located, chain: tuple[Path, ...], depth: int) -> Located:
    """Fills in the includes below `node`. `chain` holds the files from the first one to that of `node`.

    `depth` counts the levels of all these files together, since the parser limits each one only by itself.
    """
    from config.source.json5 import MAX_DEPTH  # noqa: PLC0415 - as the parser

    if depth > MAX_DEPTH:
        raise _refused(node, "the files together are nested too deeply")
    if isinstance(node.value, list):
        return _replaced(node, [_resolve(item, chain, depth + 1) for item in node.value])
    if not isinstance(node.value, dict):
        return node
    own = {n: _resolve(m, chain, depth + 1) for n, m in node.value.items() if n != INCLUDE}
    if INCLUDE not in node.value:
        return _replaced(node, own)
    names = node.value[INCLUDE]
    parts = [_load(name, chain, depth) for name in _names(names)]
    if own and any(not isinstance(part.value, dict) for part in parts):
        raise _refused(names, "a file that is included beside other members must hold an object")
    parts += [_replaced(node, own)] if own or not parts else []
    return _replaced(node, reduce(_merged, parts).value)


def _names(node: Located) -> list[Located]:
    names = node.value if isinstance(node.value, list) else [node]
    for name in names:
        if not isinstance(name.value, str) or "\0" in name.value:
            found = type_words(name.value)
            raise _refused(name, f"found {found}, allowed is a path or a list of paths")
    return names


def _load(name: Located, chain: tuple[Path, ...], depth: int) -> Located:
    path = Path(os.path.realpath(chain[-1].parent / name.value))
    if path in (Path(os.path.realpath(link)) for link in chain):
        raise _refused(name, f"the file {quote(name.value)} includes itself")
    if len(chain) > MAX_CHAIN:
        raise _refused(name, f"more than {MAX_CHAIN} files include one another")
    try:
        from config.source.json5 import read_json5  # noqa: PLC0415 - likewise

        included = read_json5(path)
    except FileNotFoundError:
        raise _refused(name, f"there is no file {quote(str(path))}") from None
    return _resolve(included, (*chain, path), depth)


def _refused(node: Located, message: str) -> ConfigInvalidError:
    from config.source.json5 import error_at  # noqa: PLC0415 - likewise

    return error_at(node.source, node.offset, f"{INCLUDE}: {message}", "Correct it there.")


def _replaced(node: Located, value: object) -> Located:
    return msgspec.structs.replace(node, value=value)


def _merged(under: Located, over: Located) -> Located:
    if isinstance(under.value, dict) and isinstance(over.value, dict):
        members = dict(under.value)
        for name, member in over.value.items():
            members[name] = _merged(members[name], member) if name in members else member
        return _replaced(over, members)
    if isinstance(under.value, list) and isinstance(over.value, list):
        return _replaced(over, under.value + over.value)
    return over


class Folders(msgspec.Struct, frozen=True):
    """The folders that our own file names."""

    by_name: Mapping[str, Located] = {}
    default: str | None = None

    def path(self, name: str, *, home: Path) -> Path:
        node = self.by_name[name]
        return paths.resolve_path(str(node.value), home=home, base=node.source.path.parent)


def with_notes(request: LoadRequest) -> LoadRequest:
    """Returns the request with the folder of notes that it means; unchanged if it means an agent's workspace.

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
    """Resolves a folder by its name if our own file has that, else by its path."""
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
    """Returns the folders of our own file. Raises `ConfigInvalidError` for an invalid name or path."""
    if root is None:
        return Folders()
    _check_names(root)
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


def _check_names(root: Located) -> None:
    """Refuses unknown names: a mistyped one would mean another memory than the folder. Raises `ConfigInvalidError`."""
    notes = descend(root, FOLDERS[0])
    if notes is None or notes.value is None:
        return
    if not isinstance(notes.value, dict):
        raise _wrong(notes, f"notes: found {type_words(notes.value)}, allowed is an object")
    for name, node in notes.value.items():
        if name not in (FOLDERS[1], DEFAULT[1]):
            raise _wrong(node, f"notes holds folders and default; {quote(name)} is not a known key")


def _wrong(node: Located, message: str) -> ConfigInvalidError:
    problem = ConfigProblem(
        message=message, file=str(node.source.path), line=node.line, column=node.column
    )
    return ConfigInvalidError([problem], remedy="Correct it there, or run `memory-gateway setup`.")
