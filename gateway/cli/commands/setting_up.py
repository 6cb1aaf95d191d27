"""`setup`: the folder of notes, meaning and the clients, each shown before it is written; and undoing all of it.

Likely places of notes (OpenClaw's workspace, vaults of Obsidian, Logseq, `~/notes`) are proposed, and none is used
without consent: only names are looked at, in few directories, and no link is followed.

Our own file (`config.source.discover` reads the folders) records what was done: `notes` has the folders, and `setup`
has what is to be undone, noted before it is done. Names and a default that somebody wrote by hand stay, or come back.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from config.errors import ConfigNotFoundError, MemoryGatewayError
from config.loading import load_settings
from config.paths import data_dir, home_dir, notes_state_dir, own_file
from config.runtime.files import is_addressable, read_file
from config.runtime.tasks import run_within
from config.settings import SettingOrigin
from config.source.discover import (
    DEFAULT,
    FOLDERS,
    LoadRequest,
    notes_folder,
    read_folders,
)
from config.source.located import descend
from gateway.cli import output
from gateway.cli.commands.connecting import (
    connect_found,
    disconnect_found,
    installed_clients,
    is_seen,
)
from gateway.cli.guard import EXIT_CODES
from gateway.cli.options import (
    PROGRAM,
    READING_PATIENCE_S,
    CommandLineError,
    Options,
    load,
    openclaw_request,
)

if TYPE_CHECKING:
    from config.changing import EditedFile
    from config.settings import Settings
    from config.source.discover import Folders
    from config.source.located import Located
    from gateway.cli import arguments as typed
    from gateway.connect.clients import Client
_LONGEST_NAME: Final = 64
_HEADER: Final = f"""\
// What `{PROGRAM} setup` found; `{PROGRAM} setup --undo` takes it out again.
// Settings may stand here, too: `{PROGRAM} config set query.maxResults 8`.
"""
_ADDED: Final = ("setup", "folders")
"""The names that setup gave to folders, each with its folder until then, or null."""
_REPLACED: Final = ("setup", "default")
"""The default that setup wrote, and the one before it, or null."""

Kind = Literal["OpenClaw workspace", "Obsidian vault", "Logseq graph", "folder of notes"]


class NotesFolder(msgspec.Struct, frozen=True):
    path: Path
    kind: Kind
    files: int
    """The number of Markdown files in it, as far as they were counted."""

    def __str__(self) -> str:
        return f"{self.path} ({self.kind}, {self.files:,} note{'' if self.files == 1 else 's'})"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The folder and name that setup will write."""

    name: str
    folder: NotesFolder
    is_default: bool
    is_workspace: bool
    """True if it is the workspace that commands use anyway: nothing has to be written."""
    is_known: bool = False
    """True if our own file says so already."""
    replaces: str | None = None
    """The name of the folder that was the default until now."""

    def as_data(self) -> dict[str, object]:
        one = self.folder
        return {
            "name": self.name,
            "folder": str(one.path),
            "kind": one.kind,
            "notes": one.files,
            "default": self.is_default,
        }


def setup(
    options: Options,
    folder: typed.NotesPath = None,
    *,
    name: typed.FolderName = None,
    meaning: typed.Meaning = None,
    clients: typed.Clients = None,
    undo: typed.Undo = False,
    dry_run: typed.DryRun = False,
    yes: typed.Yes = False,
) -> int:
    """Say once where your notes are; offer meaning, and the clients that are installed.

    Afterwards no command needs --notes. It shows each change and asks. `--undo` takes everything back.
    """
    _check_options(options, meaning=meaning and not undo)
    if undo:
        return _undo(options, yes=yes, dry_run=dry_run)
    plan = _plan(options, folder, name, yes=yes or dry_run or options.json)
    if not options.json:
        _show(plan)
    may_write = not dry_run and (yes or not options.json)
    writes = may_write and (yes or output.agreed("Nothing was written", remedy="--yes writes it."))
    if not (writes or dry_run or options.json):
        return os.EX_OK
    if writes and not plan.is_workspace:
        _write_folder(plan)
    chosen = replace(options, notes=None if plan.is_workspace else str(plan.folder.path))
    if writes:
        _offer_meaning(chosen, wanted=meaning, yes=yes)
    found = installed_clients() if clients is not False else []
    done = [_connect(chosen, one, yes=yes, writes=writes) for one in found]
    data = {**plan.as_data(), "file": str(_own_path()), "written": writes, "clients": done}
    return _end(options, data, plan if writes else None, code=_code_of(done))


def _check_options(options: Options, *, meaning: bool | None) -> None:
    """Raises CommandLineError for options that setup does not take together."""
    if any((options.notes, options.workspace, options.agent, options.config)):
        raise CommandLineError(
            "setup takes the folder as its argument.", remedy=f"`{PROGRAM} setup DIR`."
        )
    if meaning and options.json:
        raise CommandLineError(
            "--meaning and --json do not go together.",
            remedy=f"`{PROGRAM} models suggest --yes --json` afterwards.",
        )


def _code_of(done: Sequence[Mapping[str, Any]]) -> int:
    """Returns the exit code of `connect` for the first client that is not connected or does not see the server."""
    for one in done:
        if "kind" in one:
            return EXIT_CODES[one["kind"]]
        if not is_seen(one):
            return os.EX_UNAVAILABLE
    return os.EX_OK


def _end(
    options: Options, data: Mapping[str, object], plan: Plan | None = None, *, code: int = os.EX_OK
) -> int:
    if options.json:
        output.write_json(data)
    elif plan is not None:
        named = "" if plan.is_default else f" -n {plan.name}"
        output.say(f'Ask: {PROGRAM} search{named} "your question"')
    return code


# The folder.


def _plan(options: Options, given: str | None, name: str | None, *, yes: bool) -> Plan:
    """Raises CommandLineError, ConfigNotFoundError, ConfigInvalidError for our own file."""
    if name is not None and not _may_be_name(name):
        raise CommandLineError(
            f"--name {name!r} is no name for a folder.",
            remedy="Use letters, digits, - and _, and not digits alone.",
        )
    workspace = _workspace(options)
    folder = _given(given) if given is not None else _choose(workspace, yes=yes)
    known = read_folders(_own_file()[1])
    is_default = name is None or known.default in (None, name)
    is_workspace = (
        name is None
        and workspace is not None
        and os.path.realpath(folder.path) == os.path.realpath(workspace)
        and known.default is None
    )
    chosen = name or _free_name(folder.path, known)
    return Plan(
        name=chosen,
        folder=folder,
        is_default=is_default,
        is_workspace=is_workspace,
        is_known=chosen in known.by_name
        and _means(known, chosen, folder.path)
        and (known.default == chosen or not is_default),
        replaces=known.default if is_default and known.default != chosen else None,
    )


def _given(text: str) -> NotesFolder:
    origin = SettingOrigin(kind="command-line", detail="DIR")
    request = LoadRequest(environment=os.environ, cwd=Path.cwd(), notes=text, notes_origin=origin)
    path = notes_folder(request, home_dir(os.environ, Path.cwd()), may_be_away=False)
    return NotesFolder(path, kind_of(path), count_notes(path))


def _workspace(options: Options) -> Path | None:
    """Returns the workspace of OpenClaw's default agent, if it exists and its configuration can be read."""
    try:
        found = load_settings(openclaw_request(options)).workspace
    except MemoryGatewayError:
        return None
    return found if found.is_dir() else None


def _choose(workspace: Path | None, *, yes: bool) -> NotesFolder:
    """Returns the first folder found, or the one that the person names. Raises ConfigNotFoundError."""
    cwd = Path.cwd()
    found = find_notes(os.environ, home_dir(os.environ, cwd), cwd, workspace)
    if yes or not output.may_ask():
        if not found:
            raise ConfigNotFoundError(
                "No folder of notes was found: no workspace of OpenClaw, no vault, no ~/notes.",
                remedy=f"Name it: `{PROGRAM} setup DIR`.",
            )
        return found[0]
    for number, one in enumerate(found, 1):
        output.say(f"  {number}  {one}")
    asked = "Where are your notes? A number or a folder" if found else "Where are your notes?"
    answer = output.ask_text(asked, default="1" if found else None)
    if len(found) == 1 and answer.lower() in ("y", "yes"):
        return found[0]
    if answer.isdecimal() and 1 <= int(answer) <= len(found):
        return found[int(answer) - 1]
    return _given(answer)


def _free_name(folder: Path, known: Folders) -> str:
    """Returns the name that a folder has already, else a free one: its own, in letters that a shell need not quote."""
    for name in known.by_name:
        if _means(known, name, folder):
            return name
    composed = unicodedata.normalize("NFC", folder.name.lower())
    plain = "-".join("".join(one if _is_plain(one) else " " for one in composed).split())
    name = plain if _may_be_name(plain) else "notes"
    numbered = (name if n == 1 else f"{name}-{n}" for n in range(1, len(known.by_name) + 2))
    return next(one for one in numbered if one not in known.by_name)


def _means(known: Folders, name: str, folder: Path) -> bool:
    named = known.path(name, home=home_dir(os.environ, Path.cwd()))
    return os.path.realpath(named) == os.path.realpath(folder)


def _may_be_name(text: str) -> bool:
    """Returns whether it may name a folder: `-n 5` means five results, and a hyphen begins an option."""
    return (
        0 < len(text) <= _LONGEST_NAME
        and text[0] != "-"
        and all(one == "-" or _is_plain(one) for one in text)
        and not text.replace("-", "").isdecimal()
    )


def _is_plain(character: str) -> bool:
    """Returns whether it is a letter or digit of any script, a combining mark, or an underscore."""
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _show(plan: Plan) -> None:
    one = plan.folder
    output.say(str(one))
    if not one.files:
        output.say("No note is in it yet: of a folder of notes, files that end in .md are read.")
    if plan.is_workspace:
        output.say("Commands use it already, with the settings of openclaw.json.")
        return
    if plan.is_known:
        output.say(f"{_own_path()} names it already.")
        return
    output.say(f"{_own_path()}:")
    for line in _member_lines(plan):
        output.say(f"  + {line}")
    if plan.replaces is not None:
        output.say(
            f"It is searched instead of {plan.replaces}, which stays as `-n {plan.replaces}`; "
            f"`{PROGRAM} setup --name {plan.name} DIR` leaves the default as it is."
        )
    if one.kind == "OpenClaw workspace":
        output.say(
            "As a folder of notes it has an index of its own; openclaw.json does not count for it."
        )


def _member_lines(plan: Plan) -> Sequence[str]:
    from config.source.editing import member_lines

    value: dict[str, object] = {"folders": {plan.name: str(plan.folder.path)}}
    if plan.is_default:
        value["default"] = plan.name
    return member_lines("notes", value)


def _write_folder(plan: Plan) -> None:
    from config.source.editing import parse_object, with_member

    file, root = _own_file()
    known, added = read_folders(root), _value(root, *_ADDED) or {}
    text = file.text
    if plan.is_default and known.default != plan.name:
        noted = _value(root, *_REPLACED) or {}
        is_ours = known.default in (noted.get("now"), *added)
        before_us = noted.get("before") if is_ours else known.default
        text = with_member(text, file.path, _REPLACED, {"before": before_us, "now": plan.name})
        text = with_member(text, file.path, DEFAULT, plan.name)
    before = known.by_name.get(plan.name)
    if before is None or not _means(known, plan.name, plan.folder.path):
        if plan.name not in added:
            former = before.value if before is not None else None
            text = with_member(text, file.path, (*_ADDED, plan.name), former)
        text = with_member(text, file.path, (*FOLDERS, plan.name), str(plan.folder.path))
    if text == file.text:
        return
    assert _means(read_folders(parse_object(text, file.path)), plan.name, plan.folder.path)
    file.write(text if file.data is not None else _HEADER + text)


# Likely places of notes.

_MARKS: Final[Mapping[str, Kind]] = {".obsidian": "Obsidian vault", "logseq": "Logseq graph"}
_USUAL: Final = ("notes", "Notes", "Documents/notes", "Documents/Notes", "zettelkasten", "wiki")
_PARENTS: Final = ("", "Documents", "Dropbox", "Nextcloud", "Sync", "OneDrive", "notes", "Notes")
"""The directories below the home in which vaults are looked for, one level deep."""
_MOST_DIRECTORIES: Final = 500
_MOST_ENTRIES: Final = 20_000
_REGISTRY_BYTES: Final = 1024 * 1024


def find_notes(
    environment: Mapping[str, str], home: Path, cwd: Path, workspace: Path | None
) -> list[NotesFolder]:
    """Returns the likely places, the best first. `workspace` is that of OpenClaw's default agent."""
    found: dict[str, NotesFolder] = {}
    for path, kind in _candidates(environment, home, cwd, workspace):
        place = os.path.realpath(path)
        if place in found or place == os.path.realpath(home) or not is_addressable(place):
            continue
        if files := count_notes(path):
            found[place] = NotesFolder(path, kind, files)
    return list(found.values())


def kind_of(folder: Path) -> Kind:
    """Returns the kind of a folder, by the directory that its program keeps in it."""
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
    """Returns the vaults that Obsidian lists, the one used last first."""
    from gateway.connect.clients import Surroundings

    settings = Surroundings(environment, home, home).settings_dir()
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
    """Counts Markdown files, without hidden ones and those of libraries; in a huge folder only those found first."""
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


# Meaning and clients.


def _offer_meaning(options: Options, *, wanted: bool | None, yes: bool) -> None:
    from gateway.cli.commands.maintaining import offer_suggestion
    from providers.choosing import choose

    if wanted is False or (wanted is None and (yes or not output.may_ask())):
        return
    settings: Settings = load(options)
    choice = run_within(lambda: choose(settings), READING_PATIENCE_S)
    if choice.primary is not None:
        if not options.json:
            output.say(f"Meaning is on: {choice.primary.provider} ({choice.reason}).")
        return
    named = [] if options.notes is None else ["--notes", options.notes]
    offer_suggestion(options, yes=bool(wanted), again=["models", "suggest", *named], brief=True)


def _connect(options: Options, client: Client, *, yes: bool, writes: bool) -> dict[str, object]:
    """Connects a client. A failure is returned, so that the others can still be connected."""
    try:
        note = partial(_note_client, client.name)
        return connect_found(options, client, yes=yes, writes=writes, before=note)
    except MemoryGatewayError as error:
        return _failed(options, client, error)


def _failed(options: Options, client: Client, error: MemoryGatewayError) -> dict[str, object]:
    if not options.json:
        output.note(f"{client.title}: {error}")
    return {"client": client.name, "written": False, "error": str(error), "kind": error.kind}


# Undoing.


def _undo(options: Options, *, yes: bool, dry_run: bool) -> int:
    file, root = _own_file()
    clients = _noted_clients(root)
    data: dict[str, object] = {"file": str(file.path), "written": False, "clients": []}
    if root is None or "setup" not in root.value:
        if not options.json:
            output.say("There is nothing to undo.")
        return _end(options, data)
    after = _without_ours(file, root)
    if not options.json:
        output.say(f"{file.path} {_what_goes(root) if after else 'goes'}.")
    shown = [_disconnect(options, one, writes=False) for one in clients]
    if dry_run or (options.json and not yes) or not (yes or output.agreed("Nothing was undone")):
        return _end(options, data, code=_code_of(shown))
    data["clients"] = done = [
        before if "kind" in before else _disconnect(options, one, writes=True)
        for one, before in zip(clients, shown, strict=True)
    ]
    left = [one.name for one, outcome in zip(clients, done, strict=True) if "kind" in outcome]
    places = _index_places(root)
    file.write(_without_ours(file, root, left) if left else after)
    data["written"] = True
    data["indexes"] = places
    if not options.json:
        for place in places:
            output.say(f"The index stays in {place}; delete it whenever you like.")
        output.say(f"A model that was downloaded stays: `{PROGRAM} models list` and `remove`.")
    if left:
        output.note(
            f"Not disconnected: {', '.join(left)}. {file.path} keeps that in mind, for another "
            f"`{PROGRAM} setup --undo`."
        )
    return _end(options, data, code=_code_of(done))


def _disconnect(options: Options, client: Client, *, writes: bool) -> dict[str, object]:
    """Disconnects a client. A failure is returned, so that the rest can still be undone."""
    try:
        return disconnect_found(options, client, writes=writes)
    except MemoryGatewayError as error:
        return _failed(options, client, error)


def _noted_clients(root: Located | None) -> list[Client]:
    from gateway.connect.clients import CLIENTS

    return [CLIENTS[one] for one in _value(root, "setup", "clients") or () if one in CLIENTS]


def _value(root: Located | None, *at: str) -> Any:
    """Returns the value at a path; None if there is none, or one that setup cannot have written."""
    from config.host_keys import plain

    node = descend(root, *at) if root is not None else None
    found = plain(node) if node is not None else None
    wanted = list if at == ("setup", "clients") else dict
    return found if isinstance(found, wanted) else None


def _what_goes(root: Located) -> str:
    names = [one for one in _value(root, *_ADDED) or () if one in read_folders(root).by_name]
    what = f"the name {names[0]}" if len(names) == 1 else f"the names {', '.join(names)}"
    return f"loses {f'{what}, and ' if names else ''}what setup noted; the rest stays"


def _without_ours(file: EditedFile, root: Located, left: Sequence[str] = ()) -> str:
    """Returns the text without what setup added, except for the clients that are `left`.

    It is empty if setup made the file and nothing else is in it.
    """
    from config.changing import without_key
    from config.source.editing import with_member

    text, folders = file.text, read_folders(root)
    names, default = set(folders.by_name), folders.default
    for name, before in (_value(root, *_ADDED) or {}).items():
        if name not in folders.by_name:
            continue
        if isinstance(before, str):
            text = with_member(text, file.path, (*FOLDERS, name), before)
        else:
            names.remove(name)
            text = without_key(text, file.path, (*FOLDERS, name), is_ours=True)
    replaced = _value(root, *_REPLACED) or {}
    if default is not None and default == replaced.get("now"):
        default = replaced.get("before")
    if default in names and default != folders.default:
        text = with_member(text, file.path, DEFAULT, default)
    elif folders.default is not None and default not in names:
        text = without_key(text, file.path, DEFAULT, is_ours=True)
    text = without_key(text, file.path, ("setup",), is_ours=True)
    if left:
        return with_member(text, file.path, ("setup", "clients"), left)
    is_ours = text.startswith(_HEADER) and not file.is_linked
    bare = re.sub(r"\s", "", text.removeprefix(_HEADER))
    return "" if is_ours and bare == "{}" else text


def _index_places(root: Located) -> list[str]:
    """Returns the existing directories with indexes of the folders that setup had named."""
    home = home_dir(os.environ, Path.cwd())
    folders = read_folders(root)
    base = data_dir(os.environ, home=home)
    added = [one for one in _value(root, *_ADDED) or () if one in folders.by_name]
    real = dict.fromkeys(folders.path(name, home=home).resolve() for name in added)
    places = (notes_state_dir(base, one) for one in real)
    return [str(one) for one in places if one.is_dir()]


# Our own file.


def _own_path() -> Path:
    return own_file(os.environ, home=home_dir(os.environ, Path.cwd()))


def _own_file() -> tuple[EditedFile, Located | None]:
    """Returns the file and what it contains. Raises ConfigInvalidError."""
    from config.changing import open_file
    from config.source.editing import parse_object

    file = open_file(_own_path())
    return file, parse_object(file.text, file.path) if file.data is not None else None


def _note_client(name: str) -> None:
    """Notes a client before it is connected, so that it can be undone even if this process is killed meanwhile."""
    from config.source.editing import with_member

    file, root = _own_file()
    names = _value(root, "setup", "clients") or []
    if name in names:
        return
    text = with_member(file.text, file.path, ("setup", "clients"), [*names, name])
    file.write(text if file.data is not None else _HEADER + text)
