"""`config set` and `config unset`: the file and the place at which a key is changed, and the changed text.

The file that is in force is changed: our own, or the `openclaw.json` that was found. There an existing value keeps its
place; a new one goes into our own entry. Nothing is written before the changed file has been read like any other.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from config import host_keys, paths
from config.describe import short_name
from config.errors import (
    ConfigInvalidError,
    ConfigNotFoundError,
    ErrorKind,
    MemoryGatewayError,
)
from config.host_keys import OWN_ENTRY_PATH, is_own_entry, search_place
from config.keys.tree import ANY_ITEM, ANY_NAME, Given, Key, Section
from config.loading import load_found, normalize_agent_id, read_found
from config.runtime.files import (
    denied,
    keep_copy,
    make_directories,
    read_if_there,
    remove_empty,
    replace_file,
)
from config.sections import OWN_FILE_SECTIONS, SEARCH, SECTIONS
from config.settings import Settings
from config.source.discover import FoundConfig, LoadRequest, discover, resolve_includes
from config.source.editing import parse_object, with_member, without_member
from config.source.environment import AnyVariable
from config.source.json5 import MAX_BYTES, parse_json5, require_object
from config.source.located import KeyPath, Located, Reading, descend, render_path

_NEW_MODE: Final = 0o600


_SHOWN: Final = 8


class UnwritableSettingsError(MemoryGatewayError):
    """The file of the settings cannot be written."""

    kind = ErrorKind.FILE_UNWRITABLE


class EditedFile(msgspec.Struct, frozen=True):
    """One file as it is; `data` is None if it does not exist."""

    path: Path
    """The path with links resolved: a file that a dotfile manager put elsewhere is changed there."""
    data: bytes | None
    named: Path
    """The path as the caller named it."""

    @property
    def is_linked(self) -> bool:
        """True if the named path is a link: the file then stays where it is, and is not removed."""
        return self.named.is_symlink()

    @property
    def text(self) -> str:
        return (self.data or b"").decode()

    def write(self, text: str, *, keeps_copy: bool = False) -> Path | None:
        """Replaces the content; an empty text removes the file. Returns the copy of what was there, if one is kept.

        Raises ConfigInvalidError, DeniedError, UnwritableSettingsError, and OSError where no space is
        left; then nothing has changed.
        """
        copy = None
        try:
            self._check_unchanged()
            if not text:
                self._remove()
                return None
            make_directories(self.path.parent)
            mode = _NEW_MODE
            if self.data is not None:
                mode = self.path.stat().st_mode & 0o777
                if keeps_copy:
                    copy = keep_copy(self.path, self.data, mode=mode)
            replace_file(self.path, text.encode(), mode=mode, check=self._check_unchanged)
        except OSError as error:
            if (refusal := denied(error)) is not None:
                raise refusal from None
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise UnwritableSettingsError(
                f"{self.path} cannot be written: {error.strerror}.",
                remedy="Nothing was written: see the permissions of its directory.",
            ) from None
        return copy

    def _remove(self) -> None:
        """Removes the file and the directories that are empty then; one that is a link stays, with its target."""
        self.path.unlink(missing_ok=True)
        parent = self.named.parent
        if not parent.is_symlink() and not any(parent.iterdir()):
            parent.rmdir()
            remove_empty(parent.parent, below=Path.home())

    def _check_unchanged(self) -> None:
        if read_if_there(self.path, MAX_BYTES) != self.data:
            raise self.changed()

    def changed(self) -> ConfigInvalidError:
        """Returns the error to raise if the file is no longer as it was when the change was made."""
        return _failed(self.path, "was changed by somebody else in this moment")


def open_file(path: Path) -> EditedFile:
    """Raises ConfigInvalidError, and DeniedError where it is another user's."""
    real = Path(os.path.realpath(path))
    try:
        found = EditedFile(real, read_if_there(real, MAX_BYTES), path)
        found.text  # noqa: B018 - a file that is not text is refused here
    except (OSError, UnicodeDecodeError) as error:
        if (refusal := denied(error)) is not None:
            raise refusal from None
        if isinstance(error, OSError):
            raise _failed(real, f"cannot be read: {error.strerror}") from None
        raise _failed(real, "is not UTF-8", "Save the file in the encoding UTF-8.") from None
    return found


def _failed(
    path: Path, message: str, remedy: str = "Nothing was written; try again."
) -> ConfigInvalidError:
    return ConfigInvalidError.of(path, message, remedy)


class SettingError(MemoryGatewayError):
    """A key or a value that cannot be set."""

    kind = ErrorKind.INVALID_PARAMS


class NamedKey(msgspec.Struct, frozen=True):
    """A key as the user named it."""

    section: Section
    key: Key
    names: tuple[str, ...]
    """Its path below the section, with the names that stand for `*`."""

    @property
    def path(self) -> str:
        return self.section.documented(".".join(self.names))


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file with one setting changed, not written yet."""

    file: EditedFile
    text: str
    key: str
    settings: Settings
    """The settings in force afterwards."""
    left: tuple[str, ...] = ()
    """Places of the key that stay: in other files, and those for all agents when one was named."""

    @property
    def changes(self) -> bool:
        return self.text != self.file.text

    def write(self) -> None:
        """Raises as `EditedFile.write`, and then nothing has changed."""
        if self.changes:
            self.file.write(self.text)


def find_key(text: str) -> NamedKey:
    """Returns the key of this name, in any spelling. Raises SettingError, which proposes similar names."""
    if ANY_NAME in text.split("."):
        raise SettingError(f"{text} names no entry.", remedy="Put its name in place of the *.")
    wanted = short_name(text)
    known = [(section, key, path) for section in SECTIONS for key in section.keys
             for path in (key.path, *key.aliases)]  # fmt: skip
    for name, (section, key, path) in product((text.strip(), wanted), known):
        documented = section.documented(path)
        names = _matched(documented, name)
        if names is not None:
            depth = documented.count(".") - path.count(".")
            own = tuple(key.path.split(".")) if ANY_NAME not in path else names[depth:]
            return NamedKey(section, key, own)
    raise _unknown(text, {section.documented(key.path) for section, key, _ in known})


def _matched(documented: str, text: str) -> tuple[str, ...] | None:
    """Returns the names in `text` if it is a path of this key, where `*` stands for any one name; else None."""
    pattern, names = documented.split("."), tuple(text.split("."))
    if len(pattern) != len(names):
        return None
    return names if all(p in (ANY_NAME, n) for p, n in zip(pattern, names, strict=True)) else None


def _unknown(text: str, known: Iterable[str]) -> SettingError:
    wanted = short_name(text)
    ends = sorted(one for one in known if one.endswith(f".{wanted}"))
    near = ends or difflib.get_close_matches(wanted, sorted(known), n=1)
    hint = f"Did you mean {' or '.join(near[:_SHOWN])}? " if near else ""
    return SettingError(
        f"There is no setting {text!r}.",
        remedy=f"{hint}`memory-gateway config` shows all of them, `config WORD` those with a word.",
    )


def change_setting(request: LoadRequest, text: str, value: str | None) -> SettingChange:
    """Returns the change that gives a key this value, written as JSON or as a word; None removes the key.

    Raises SettingError, ConfigInvalidError, ConfigNotFoundError.
    """
    named = find_key(text)
    read = UNSET if value is None else _read_value(named, value)
    found = discover(request)
    file = open_file(_path(request, found))
    places = _places(request, found, named)
    ours = [one.at for one in places if _file_of(one.node) == file.path]
    changed = file.text
    if read is UNSET:
        if _is_for_one_agent(request, named):
            ours = list(filter(_is_of_one_agent, ours))
        for at in ours:
            changed = without_key(changed, file.path, at, is_ours=found.is_ours)
        if found.is_ours and not file.is_linked and "".join(changed.split()) == "{}":
            changed = ""
    else:
        at = _kept_place(request, named, ours) or _new_place(request, found, named)
        if not _hosts_accept(at, read):
            at = _place_instead(request, found, named, at)
        changed = with_member(changed, file.path, at, read)
    kept = (one.at for one in places if one.at not in ours or _file_of(one.node) != file.path)
    left = tuple(map(render_path, kept))
    settings = _load(request, found, changed, file.path)
    return SettingChange(file=file, text=changed, key=named.path, settings=settings, left=left)


def _read_value(named: NamedKey, text: str) -> object:
    """Returns the value as JSON if that is allowed, else the text. Raises SettingError with the allowed values."""
    if text.strip() == "null":
        raise SettingError(
            f"Nothing is written: null is no value for {named.path}.",
            remedy=f"`memory-gateway config unset {named.path}` takes the key out.",
        )
    for read in (_json, str):
        try:
            root = parse_json5(msgspec.json.encode({"value": read(text)}), Path("value"))
        except ValueError:
            continue
        reading = Reading(AnyVariable())
        node = root.value["value"]
        is_read = node.value is not None and named.key.kind.read(node, (), reading) is not UNSET
        if is_read and not reading.remarks and not reading.problems:
            return read(text)
    raise SettingError(
        f"Nothing is written: this is no value for {named.path}; allowed is {named.key.kind.allowed}.",
        remedy=f"Give such a value; `memory-gateway config {named.path}` shows the one in force. "
        f"Its meaning: {named.key.meaning}",
    )


def _json(text: str) -> object:
    """Parses JSON or JSON5. Raises ValueError for any other text."""
    import pyjson5  # noqa: PLC0415 - as the reader of files

    try:
        value = pyjson5.decode(text)
        msgspec.json.encode(value)
    except (pyjson5.Json5Exception, msgspec.MsgspecError, TypeError) as error:
        raise ValueError(str(error)) from None
    return value


def _path(request: LoadRequest, found: FoundConfig) -> Path:
    if found.root is not None:
        return found.root.source.path
    if not found.is_ours:
        raise ConfigNotFoundError(
            f"There is no openclaw.json in {found.state_dir}.",
            remedy="Make one that holds {}, or leave out what names that directory.",
        )
    return paths.own_file(request.environment, home=found.home)


def _file_of(node: Located) -> Path:
    return node.source.path.resolve()


def _places(request: LoadRequest, found: FoundConfig, named: NamedKey) -> list[Given]:
    """Returns the places at which the file, with its includes, sets the key for this agent; its own places first."""
    content, _, _ = read_found(request, found)
    agent_id = normalize_agent_id(request.agent_id or content.default_agent)
    others = content.places_of_others(agent_id)
    givens = [
        one
        for one in content.givens
        if one.leaf.section.name == named.section.name
        and one.leaf.key.path == named.key.path
        and (ANY_NAME not in named.key.path or one.at[-len(named.names) :] == named.names)
        and not any(one.at[: len(place)] == place for place in others)
    ]
    own = content.places(agent_id)
    return sorted(
        givens, key=lambda one: (not any(one.at[: len(p)] == p for p in own), one.leaf.rank)
    )


def _kept_place(request: LoadRequest, named: NamedKey, ours: list[KeyPath]) -> KeyPath | None:
    """Returns the place in force, unless an agent was named and that place is for all agents."""
    if not ours or _is_for_one_agent(request, named):
        return next(filter(_is_of_one_agent, ours), None)
    return ours[0]


def _is_for_one_agent(request: LoadRequest, named: NamedKey) -> bool:
    return request.agent_id is not None and named.section.name == SEARCH.name


def _is_of_one_agent(at: KeyPath) -> bool:
    return "agents" in at and "defaults" not in at


def _new_place(request: LoadRequest, found: FoundConfig, named: NamedKey) -> KeyPath:
    """Returns the place for a new value. Raises SettingError for a key that is set only with OpenClaw's agents."""
    sections = OWN_FILE_SECTIONS if found.is_ours else SECTIONS
    section = next((one for one in sections if one.name == named.section.name), None)
    if section is None or ANY_ITEM in section.places[0].split("."):
        raise SettingError(
            f"{named.path} is a setting of OpenClaw and is not set from here.",
            remedy="Write it into openclaw.json.",
        )
    if request.agent_id is not None and section.name == SEARCH.name and not found.is_ours:
        agent = normalize_agent_id(request.agent_id)
        return (*OWN_ENTRY_PATH, "agents", agent, "search", *named.names)
    place = tuple(section.places[0].split(".")) if section.places[0] else ()
    return (*place, *named.names)


def _hosts_accept(at: KeyPath, value: object) -> bool:
    """Returns False if this is a key of the host's and the host would refuse it because of the value."""
    place = search_place(at)
    if place is None or place[-2:] != ("memory", "search"):
        return True
    key = ".".join(map(str, at[len(place) :]))
    return key not in host_keys.SEARCH or host_keys.accepts(key, value)


def _place_instead(
    request: LoadRequest, found: FoundConfig, named: NamedKey, at: KeyPath
) -> KeyPath:
    """Returns the place of the key in our own entry, which takes precedence over the host's place."""
    agent = load_found(request, found).agent_id
    above = ("agents", agent) if at[0] == "agents" else ()
    return (*OWN_ENTRY_PATH, *above, "search", *named.names)


def without_key(text: str, path: Path, at: KeyPath, *, is_ours: bool) -> str:
    """Returns the text without the member and objects of ours that are then empty. `is_ours`: the whole file is."""
    text = without_member(text, path, at)
    for depth in range(len(at) - 1, 0, -1):
        above = at[:depth]
        if not (is_ours or (is_own_entry(above) and above != OWN_ENTRY_PATH)):
            break
        node = descend(parse_object(text, path), *above)
        assert node is not None
        if node.value or text[node.start : node.end].strip("{}").strip():
            break
        text = without_member(text, path, above)
    return text


def _load(request: LoadRequest, found: FoundConfig, text: str, path: Path) -> Settings:
    """Returns the settings that the changed text would give. Raises ConfigInvalidError if it is not valid."""
    source = found.root.source.path if found.root is not None else path
    root = require_object(resolve_includes(parse_json5((text or "{}").encode(), source)))
    return load_found(request, msgspec.structs.replace(found, root=root))
