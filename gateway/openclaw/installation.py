"""Putting the plugin into OpenClaw's memory slot, and taking it out again with the configuration as it was.

OpenClaw rewrites its configuration file whenever it changes something in it: comments and layout are lost.
So the file is kept as it was, and put back as long as nothing but our part of it has changed since.
Everything blocks; OpenClaw's own commands take seconds each. The plugin reads what it shares with us from
`shared.json`, which `./scripts/reference` writes with `shared_json`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from backends.interface import FileUnwritableError
from config.errors import MemoryGatewayError
from config.host_keys import PLUGIN_ID, plain
from config.paths import own_dir
from config.runtime.decoding import prepared
from config.runtime.files import (
    attributes_of,
    make_directories,
    read_if_there,
    replace_file,
    set_attributes,
    try_lock,
)
from config.runtime.start import command_of
from config.settings import CompactionSettings
from config.source.discover import INCLUDE
from config.source.json5 import MAX_BYTES, parse_json5
from config.vendors import KEY_VARIABLES
from gateway.flush import flush_texts
from gateway.openclaw.program import HostConfig, HostError, OpenClawHost
from gateway.session_start import recall_texts
from gateway.version import VERSION

_INSTALLED: Final = "installed.json"
_MODE: Final = 0o600


class InstallPlaces(msgspec.Struct, frozen=True):
    """The places of our own files. A name with a dot is never that of an agent, whose folders are beside them."""

    plugin: Path
    kept: Path

    @classmethod
    def below(cls, state_dir: Path) -> InstallPlaces:
        return cls(own_dir(state_dir, "openclaw.plugin"), own_dir(state_dir, "openclaw.before"))

    @property
    def record(self) -> Path:
        return self.kept / "record.json"

    @property
    def original(self) -> Path:
        return self.kept / "openclaw.json"


class InstallRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state that the first installation found."""

    config: str
    """The configuration file, as OpenClaw names it."""
    existed: bool
    mode: int = _MODE
    link: str | None = None
    """The target, if the file was a link: OpenClaw puts a file in the place of the link."""
    attributes: dict[str, bytes | None] = {}
    """Its extended attributes: the file that OpenClaw writes has none."""
    names: int = 1
    """The number of its hard links."""
    left: str | None = None
    """The digest of the parts of others in the file as OpenClaw left it: to a new file it adds its own defaults."""


class InstallPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The effects of an installation that is yet to be made."""

    openclaw: str
    node: str
    config: str
    plugin: str
    """The place where the plugin will be."""
    command: tuple[str, ...]
    """The command that it will start for each agent, before the word `serve`."""
    slot: str | None
    """The plugin that has the memory slot now; None: OpenClaw's own memory."""
    loses_comments: bool
    loses_link: bool
    loses_attributes: tuple[str, ...]
    """Extended attributes, which OpenClaw does not keep."""
    names: int
    """The number of hard links of the file."""
    is_update: bool


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of an uninstallation: the file is as it was, only our part is out of it, or nothing was there."""

    config: Literal["restored", "edited", "untouched"]
    path: str | None = None
    remarks: tuple[str, ...] = ()
    """Sentences about what is not as one may expect."""


class InstallState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    openclaw: str
    node: str
    config: str
    config_problem: str | None
    installed: bool
    """True if `install` put it there, which kept the configuration as it was."""
    plugin: str | None
    """The place where OpenClaw found it."""
    version: str | None
    loaded: bool
    """True if OpenClaw loads it into its memory slot."""
    problems: tuple[str, ...] = ()


def plan_installation(host: OpenClawHost, state_dir: Path) -> InstallPlan:
    """Raises HostError where the configuration is not valid."""
    config = host.read_config()
    path = config.path
    before = read_if_there(path, MAX_BYTES)
    if before is not None and config.problem:
        raise _not_valid(config)
    places = InstallPlaces.below(state_dir)
    _refuse_links(places)
    _refuse_unwritable(path)
    parsed = _parse(before, path)
    _refuse_includes(parsed, path)
    return InstallPlan(
        openclaw=host.version,
        node=host.node,
        config=str(path),
        plugin=str(places.plugin),
        command=command_of("gateway"),
        slot=_dig(parsed, "plugins", "slots", "memory"),
        loses_comments=before is not None and not _is_json(before),
        loses_link=path.is_symlink(),
        loses_attributes=tuple(_attributes(path)),
        names=_names(path),
        is_update=places.record.exists(),
    )


def _attributes(path: Path) -> dict[str, bytes | None]:
    """Returns the extended attributes; none for a link: the file behind it is never written, and keeps its own."""
    return {} if path.is_symlink() else attributes_of(path)


def _names(path: Path) -> int:
    """Returns the number of hard links."""
    return path.stat().st_nlink if path.exists() and not path.is_symlink() else 1


def _not_valid(config: HostConfig) -> HostError:
    return HostError(
        f"OpenClaw's configuration {config.path} is not valid: {config.problem}.",
        remedy="Mend it first; `openclaw doctor` helps, and `memory-gateway config --migrate` with keys of ours.",
    )


def _refuse_unwritable(path: Path) -> None:
    """Raises HostError where OpenClaw may not write: it would fail in the middle."""
    for place in (path, path.parent):
        if place.exists() and not os.access(place, os.W_OK, effective_ids=True):
            raise HostError(
                f"{place} may not be written, and OpenClaw writes its configuration {path} with each plugin.",
                remedy="Make it writable for you; nothing was touched so far.",
            )


def _refuse_links(places: InstallPlaces) -> None:
    """Raises HostError for a link: the place behind it is somebody else's, and our files would be written there."""
    for place in (places.plugin.parent, places.plugin, places.kept):
        if place.is_symlink():
            raise HostError(
                f"{place} is a link to {place.readlink()}, and nothing is written behind it.",
                remedy="Remove the link: the plugin needs a directory of its own there.",
            )


def _refuse_includes(config: object, path: Path) -> None:
    """Raises HostError for an include: OpenClaw writes into the files that `plugins` includes, of which no copy is
    kept, and does not write a configuration that includes another file as a whole.
    """
    if _has_include(_dig(config, "plugins")):
        raise HostError(
            f"plugins in {path} includes another file ({INCLUDE}), which OpenClaw would change beyond undoing.",
            remedy="Write what that file holds into plugins itself; nothing was touched so far.",
        )
    if isinstance(config, dict) and INCLUDE in config:
        raise HostError(
            f"{path} includes another file as a whole ({INCLUDE} beside its sections), "
            "and OpenClaw writes no such file.",
            remedy=f"Put {INCLUDE} into the sections that need it, other than plugins; nothing was touched so far.",
        )


def _has_include(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_include, value))
    return isinstance(value, dict) and (INCLUDE in value or any(map(_has_include, value.values())))


def install(host: OpenClawHost, state_dir: Path, plan: InstallPlan) -> dict[str, object]:
    """Returns what OpenClaw says of the plugin, once it loads it.

    Raises HostError where it does not; all is then as before. Raises FileUnwritableError.
    """
    with _alone(state_dir):
        places = InstallPlaces.below(state_dir)
        is_update = places.record.exists()
        try:
            _keep(places, Path(plan.config))
            _copy_plugin(places.plugin, plan.command)
        except OSError as error:
            raise _unwritable(Path(error.filename), error) from error
        try:
            _link(host, str(places.plugin))
            if not is_update:
                _note_left(places)
            return _loaded(host)
        except BaseException as error:
            if not is_update:
                _undo(host, state_dir, error)
            raise


@contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """Runs one command at a time: one that fails would remove what another installs. Raises HostError at once."""
    make_directories(state_dir)
    descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not try_lock(descriptor, lenient=True):
            raise HostError(
                "Another `memory-gateway openclaw install` or `uninstall` is at work.",
                remedy="Wait for its end, and try again; nothing was touched so far.",
            )
        yield
    finally:
        os.close(descriptor)


def _undo(host: OpenClawHost, state_dir: Path, cause: BaseException) -> None:
    """Takes back what was begun. Raises HostError that names both failures, where that is impossible."""
    try:
        _uninstall(host, state_dir)
    except MemoryGatewayError as error:
        raise HostError(
            f"{str(cause) or type(cause).__name__} What was begun is not undone: {error}",
            remedy="Once that is mended, `memory-gateway openclaw uninstall` takes it back.",
        ) from cause


def _link(host: OpenClawHost, plugin: str) -> None:
    host.run("plugins", "install", "--link", plugin, "--force", "--accept-capabilities")


_ENTRY: Final = f'plugins.entries["{PLUGIN_ID}"]'


def allow_recall(host: OpenClawHost) -> None:
    """Lets the plugin show the model before each turn what is in memory; the host must allow it to read prompts."""
    places = (f"{_ENTRY}.config.recall", f"{_ENTRY}.hooks.allowConversationAccess")
    changes = [{"path": place, "value": True} for place in places]
    host.run("config", "set", "--batch-json", msgspec.json.encode(changes).decode())


def _loaded(host: OpenClawHost) -> dict[str, object]:
    """Returns what OpenClaw knows of the plugin, enabled if need be: a disabled entry outlasts an installation."""
    for attempt in ("plugins", "enable", PLUGIN_ID, "--accept-capabilities"), None:
        known = host.inspect(PLUGIN_ID)
        plugin = known.get("plugin", {})
        if plugin.get("status") == "loaded" and plugin.get("memorySlotSelected") is True:
            return known
        if attempt is not None and plugin.get("status") != "error":
            host.run(*attempt)
    reason = "; ".join(_complaints(known)) or f"its status is {plugin.get('status', 'unknown')}"
    raise HostError(
        f"OpenClaw does not load the plugin into its memory slot: {reason}.",
        remedy="`openclaw plugins inspect memory-gateway --runtime` says more.",
    )


def uninstall(host: OpenClawHost, state_dir: Path) -> Outcome:
    """Raises HostError, FileUnwritableError; what was kept is then still there."""
    with _alone(state_dir):
        return _uninstall(host, state_dir)


def _uninstall(host: OpenClawHost, state_dir: Path) -> Outcome:
    places = InstallPlaces.below(state_dir)
    record = _read_record(places)
    if record is None:
        if not host.inspect(PLUGIN_ID):
            return Outcome(config="untouched")
        _forget(host)
        return Outcome(config="edited")
    path = Path(record.config)
    original = read_if_there(places.original, MAX_BYTES) if record.existed else None
    found = read_if_there(path, MAX_BYTES)
    before, now = _parse(original, path), _parse(found, path)
    is_same = _same_but_for_ours(before, now, places.plugin, record.left)
    if host.inspect(PLUGIN_ID):
        _forget(host)
    elif not is_same and (config := host.read_config()).problem and found is not None:
        raise _not_valid(config)  # then it knows no plugin, and removes none
    remarks = _commented(path, found, original)
    if is_same:
        _put_back(path, original, record)
        how: Literal["restored", "edited"] = "restored"
    else:
        _restore_values(host, before, now)
        with suppress(OSError):
            path.chmod(record.mode)  # OpenClaw writes a file of mode 600, whatever it was
        how = "edited"
        if record.link is not None and not path.is_symlink():
            remarks += (
                f"It was a link to {record.link}, which is as it was; {path} is a file now.",
            )
    remarks += _give_back_the_rest(path, record)
    shutil.rmtree(places.plugin, ignore_errors=True)
    shutil.rmtree(places.kept, ignore_errors=True)
    return Outcome(config=how, path=str(path), remarks=remarks)


def _give_back_the_rest(path: Path, record: InstallRecord) -> tuple[str, ...]:
    """Restores the extended attributes; returns remarks about anything that cannot be restored."""
    remarks = []
    if lost := set_attributes(path, record.attributes) if path.is_file() else ():
        remarks.append(f"Attributes of {path} that could not be given back: {', '.join(lost)}.")
    if record.names > _names(path):
        remarks.append(
            f"{path} had {record.names} names (hard links) and is a file of its own now; the others are as they were."
        )
    return tuple(remarks)


def _commented(path: Path, found: bytes | None, original: bytes | None) -> tuple[str, ...]:
    """Copies the file if comments were written into it since the installation: they would be lost."""
    if found is None or found == original or _is_json(found):
        return ()
    copy = path.with_name(f"{path.name}.commented")
    try:
        replace_file(copy, found, mode=_MODE)
    except OSError as error:
        raise _unwritable(copy, error) from error
    return (f"Comments that were written into it since the installation are kept in {copy} alone.",)


def _forget(host: OpenClawHost) -> None:
    """Uninstalls the plugin. The process behind a killed command of OpenClaw's works on, and may do so meanwhile.

    If it was killed as well, it may have removed only its record of the installation, without which OpenClaw
    removes nothing: linking the plugin again makes a new one.
    """
    uninstall = "plugins", "uninstall", PLUGIN_ID, "--force"
    try:
        host.run(*uninstall)
    except HostError:
        known = host.inspect(PLUGIN_ID)
        if "install" in known:
            raise
        if known:
            _link(host, known["plugin"]["rootDir"])
            host.run(*uninstall)


def read_state(host: OpenClawHost, state_dir: Path) -> InstallState:
    """Raises HostError where OpenClaw does not say where its configuration is."""
    config = host.read_config()
    known = host.inspect(PLUGIN_ID)
    plugin = known.get("plugin", {})
    problems = list(_complaints(known))
    version = plugin.get("version")
    if version not in (None, VERSION):
        problems.append(f"the plugin is of {version}, this program is {VERSION}: install it again")
    return InstallState(
        openclaw=host.version,
        node=host.node,
        config=str(config.path),
        config_problem=config.problem if config.path.exists() else None,
        installed=InstallPlaces.below(state_dir).record.exists(),
        plugin=plugin.get("rootDir"),
        version=version,
        loaded=plugin.get("status") == "loaded" and plugin.get("memorySlotSelected") is True,
        problems=tuple(problems),
    )


def _complaints(known: dict[str, Any]) -> list[str]:
    said = [one.get("message", "") for one in known.get("diagnostics", ())]
    error = known.get("plugin", {}).get("error")
    return [*([str(error)] if error else []), *filter(None, said)]


def _keep(places: InstallPlaces, config: Path) -> None:
    """Keeps the configuration as it is before our first installation; a later one changes nothing of that."""
    if places.record.exists():
        return
    make_directories(places.kept)
    original = read_if_there(config, MAX_BYTES)
    mode = config.stat().st_mode & 0o777 if original is not None else _MODE
    if original is not None:
        replace_file(places.original, original, mode=_MODE)
    record = InstallRecord(
        config=str(config),
        existed=original is not None,
        mode=mode,
        link=str(config.readlink()) if config.is_symlink() else None,
        attributes=_attributes(config),
        names=_names(config),
    )
    replace_file(places.record, msgspec.json.encode(record))


def _note_left(places: InstallPlaces) -> None:
    record = _read_record(places)
    assert record is not None
    path = Path(record.config)
    left = _digest(_without_ours(_parse(read_if_there(path, MAX_BYTES), path), places.plugin))
    replace_file(places.record, msgspec.json.encode(replace(record, left=left)))


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _copy_plugin(target: Path, command: tuple[str, ...]) -> None:
    make_directories(target)
    for file in sorted(PLUGIN.iterdir()):
        if file.suffix in (".js", ".json"):
            replace_file(target / file.name, file.read_bytes(), mode=_MODE)
    installed = {"command": command, "version": VERSION}
    replace_file(target / _INSTALLED, msgspec.json.encode(installed), mode=_MODE)


def _put_back(path: Path, original: bytes | None, record: InstallRecord) -> None:
    try:
        if record.link is not None and not path.is_symlink():
            path.unlink(missing_ok=True)  # what is behind the link was never written
            path.symlink_to(record.link)
        elif original is None:
            path.unlink(missing_ok=True)
        else:
            replace_file(path.resolve(), original, mode=record.mode)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> FileUnwritableError:
    return FileUnwritableError(
        f"{path} cannot be written: {error.strerror}.",
        remedy="Make it writable for you, and try again.",
    )


def _restore_values(host: OpenClawHost, before: object, now: object) -> None:
    """Restores who had the slot, and our settings that are in force, after OpenClaw has removed its part."""
    slot = _dig(before, "plugins", "slots", "memory")
    if slot not in (None, PLUGIN_ID):
        host.run("config", "set", "plugins.slots.memory", slot)
    allowed = _dig(now, "plugins", "allow")
    if isinstance(allowed, list) and PLUGIN_ID not in (_dig(before, "plugins", "allow") or ()):
        others = [one for one in allowed if one != PLUGIN_ID]
        if others != allowed:
            _set(host, "plugins.allow", others)
    settings = _dig(now, "plugins", "entries", PLUGIN_ID, "config")
    if settings:
        _set(host, f"{_ENTRY}.config", settings)


def _set(host: OpenClawHost, place: str, value: object) -> None:
    host.run("config", "set", place, msgspec.json.encode(value).decode(), "--strict-json")


def _same_but_for_ours(before: object, now: object, plugin: Path, left: str | None) -> bool:
    """Returns whether only OpenClaw has changed what is not ours. `left`: see InstallRecord."""
    slot = _dig(now, "plugins", "slots", "memory")
    is_slot_ours = slot in (PLUGIN_ID, _dig(before, "plugins", "slots", "memory"))
    others = _without_ours(now, plugin)
    return is_slot_ours and (others == _without_ours(before, plugin) or _digest(others) == left)


def _without_ours(config: object, plugin: Path) -> object:
    """Returns what others wrote: without slot, our switch and link, OpenClaw's notes to itself, and empty objects."""
    if not isinstance(config, dict):
        return {}
    plugins = dict(_dig(config, "plugins") or {})
    entries = dict(plugins.get("entries") or {})
    entry = entries.get(PLUGIN_ID) or {}
    entries[PLUGIN_ID] = _without_recall(entry)
    load = dict(plugins.get("load") or {})
    links = {str(plugin), os.path.realpath(plugin)}
    load["paths"] = [one for one in load.get("paths") or () if one not in links] or {}
    slots = {
        name: value for name, value in (plugins.get("slots") or {}).items() if name != "memory"
    }
    plugins |= {"entries": entries, "load": load, "slots": slots}
    plugins["allow"] = [one for one in plugins.get("allow") or () if one != PLUGIN_ID] or {}
    others = {name: value for name, value in config.items() if name != "meta"}
    return _pruned(others | {"plugins": plugins})


def _without_recall(entry: dict[str, Any]) -> dict[str, object]:
    """Returns an entry without its switch and without what `allow_recall` wrote."""
    config, hooks = dict(entry.get("config") or {}), dict(entry.get("hooks") or {})
    if config.pop("recall", None) is True:
        hooks.pop("allowConversationAccess", None)
    kept = {name: value for name, value in entry.items() if name != "enabled"}
    return kept | {"config": config, "hooks": hooks}


def _pruned(value: object) -> object:
    """Removes members that are empty objects: OpenClaw adds some, such as `agents.entries.main`."""
    if not isinstance(value, dict):
        return value
    members = {name: _pruned(member) for name, member in value.items()}
    return {name: member for name, member in members.items() if member != {}}


def _dig(value: object, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _parse(data: bytes | None, path: Path) -> object:
    """Returns the values. Raises ConfigInvalidError for data that is not JSON5."""
    return {} if data is None else plain(parse_json5(data, path))


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        return False
    return True


def _read_record(places: InstallPlaces) -> InstallRecord | None:
    data = read_if_there(places.record, MAX_BYTES)
    try:
        return msgspec.json.decode(data, type=prepared(InstallRecord)) if data is not None else None
    except msgspec.DecodeError:
        raise HostError(
            f"{places.record} cannot be read as what `install` wrote.",
            remedy=f"`openclaw plugins uninstall {PLUGIN_ID}` removes the plugin; "
            f"{places.original} is the file as it was.",
        ) from None


PLUGIN: Final = Path(__file__).with_name("plugin")


def shared_json() -> str:
    """Returns numbers and words of the flush, instructions for recall, and key variables that a child gets, as JSON."""
    compaction = CompactionSettings()
    shared: dict[str, object] = {
        "flush": {
            "softThresholdTokens": compaction.memory_flush.soft_threshold_tokens,
            "reserveTokensFloor": compaction.reserve_tokens_floor,
            **flush_texts(),
        },
        "instructions": recall_texts(),
        "keyVariables": KEY_VARIABLES,
    }
    return msgspec.json.format(msgspec.json.encode(shared), indent=2).decode() + "\n"
