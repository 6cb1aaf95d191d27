"""A client's configuration on the disk: what it says of us, and how it is changed and put back.

Nothing is written before it was shown, and only over what was read. A copy of what was there lies beside the
file till the gateway is taken out again: if nothing else has changed by then, that copy is what comes back, byte
for byte. No link is followed: a file that a dotfile manager owns is its business.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from backends.backend_errors import FileUnreadableError, FileUnwritableError
from config.errors import ConfigInvalidError, ConfigProblem
from config.runtime.files import copies_of, is_copy, keep_copy, make_directories, replace_file
from config.source.json5 import MAX_BYTES
from gateway.connect.clients import Client, Entry, Surroundings, is_ours
from gateway.connect.entries import has_place, servers_in, with_server, without_server

_NEW_MODE: Final = 0o600
_BY_HAND: Final = "Put in by hand what `memory-gateway connect {client} --print` shows."
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Content(msgspec.Struct, frozen=True):
    """What a file holds; without `data` there is none."""

    data: bytes | None
    mode: int = _NEW_MODE
    names: int = 1
    """Hard links."""

    @property
    def text(self) -> str:
        return (self.data or b"").decode()


class FilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one file, not made yet."""

    client: Client
    path: Path
    name: str
    before: Content
    after: bytes | None
    """None: the file goes, as nothing else was ever in it."""
    old: Entry | None
    new: Entry | None
    base: bytes | None = None
    """The file without us; None where there is none."""
    copy: Path | None = None
    """The copy that holds `base`, if there is one."""

    @property
    def changes(self) -> bool:
        return self.before.data != self.after

    @property
    def warning(self) -> str | None:
        """What the change does not keep."""
        if self.before.names < 2 or not self.changes:
            return None
        return f"{self.path} has {self.before.names} names (hard links): the others keep what it says now."


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What making the change came to."""

    copy: Path | None = None
    """The copy of what was there, where one lies beside the file now."""
    lost: tuple[str, ...] = ()
    """The extended attributes that the new file could not be given."""


def connected(client: Client, there: Surroundings) -> dict[str, Entry]:
    """The servers of a client that are this gateway, by name. Raises as `read`."""
    path = client.file(there)
    servers = servers_in(client, read(client, there).text, path)
    return {name: entry for name, entry in servers.items() if _is_ours(client, entry)}


def _is_ours(client: Client, entry: Entry) -> bool:
    """Of hooks only ours are looked at."""
    return client.is_hooks or is_ours(entry)


def read(client: Client, there: Surroundings) -> Content:
    """Raises FileUnreadableError, and ConfigInvalidError for what is no text."""
    path = client.file(there)
    _refuse_links(client, path, there.home)
    try:
        found = _read(path)
        found.text  # noqa: B018 - no text at all is refused here
    except FileNotFoundError:
        return Content(None)
    except UnicodeDecodeError:
        problem = ConfigProblem(message="is not UTF-8", file=str(path))
        raise ConfigInvalidError([problem], remedy="Save the file in the encoding UTF-8.") from None
    except OSError as error:
        raise FileUnreadableError(
            f"{path} cannot be read: {error.strerror}.", remedy="Make it readable for you."
        ) from None
    return found


def _read(path: Path) -> Content:
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(0, f"it is larger than {MAX_BYTES >> 20} MiB")
    return Content(data, stat.S_IMODE(status.st_mode), status.st_nlink)


def _refuse_links(client: Client, path: Path, home: Path) -> None:
    """Looks at every directory below the home, or at the file alone where it lies elsewhere."""
    below = [one for one in (path, *path.parents) if home in one.parents] or [path]
    for one in below:
        if one.is_symlink():
            raise FileUnwritableError(
                f"{one} is a link, and links are not followed.",
                remedy=_BY_HAND.format(client=client.name),
            )


def plan_connection(client: Client, there: Surroundings, name: str, entry: Entry) -> FilePlan:
    """What a person added to an entry of ours (variables, a time limit) stays in it.

    Raises as `read`, and ConfigInvalidError where another server has the name.
    """
    path, before = client.file(there), read(client, there)
    old = servers_in(client, before.text, path).get(name)
    if old is not None and not _is_ours(client, old):
        problem = ConfigProblem(message=f"another server has the name {name}", file=str(path))
        raise ConfigInvalidError([problem], remedy="Give this one another name: --name NAME.")
    new = {**old, **entry} if old and not client.is_hooks else entry
    if old == new:
        return FilePlan(
            client=client,
            path=path,
            name=name,
            before=before,
            after=before.data,
            old=old,
            new=new,
        )
    base, copy = _without(client, path, before, name, old)
    text = with_server(client, (base or b"").decode(), path, name, new)
    return FilePlan(
        client=client,
        path=path,
        name=name,
        before=before,
        after=text.encode(),
        old=old,
        new=new,
        base=base,
        copy=copy,
    )


def plan_removal(client: Client, there: Surroundings, name: str) -> FilePlan:
    """Raises as `plan_connection`."""
    path, before = client.file(there), read(client, there)
    old = servers_in(client, before.text, path).get(name)
    if old is not None and not _is_ours(client, old):
        problem = ConfigProblem(message=f"{name} is another server", file=str(path))
        raise ConfigInvalidError([problem], remedy="It is left alone; --name names ours.")
    base, copy = _without(client, path, before, name, old)
    return FilePlan(
        client=client,
        path=path,
        name=name,
        before=before,
        after=base,
        old=old,
        new=None,
        base=base,
        copy=copy,
    )


def _without(
    client: Client, path: Path, content: Content, name: str, entry: Entry | None
) -> tuple[bytes | None, Path | None]:
    """What a file was before us, and the copy that says so, if nothing else has changed since."""
    if entry is None:
        return content.data, None
    was_bare = False
    for copy in _copies(path):
        try:
            text = _read(copy).text
            servers = servers_in(client, text, copy)
            if name in servers:
                continue
            if with_server(client, text, copy, name, entry) == content.text:
                return text.encode(), copy
        except (OSError, ValueError, ConfigInvalidError):
            continue
        was_bare = was_bare or not has_place(client, text, copy)
    if with_server(client, "", path, name, entry) == content.text:
        return None, None
    return without_server(client, content.text, path, name, bare=was_bare).encode(), None


def _copies(path: Path) -> list[Path]:
    try:
        return copies_of(path)
    except OSError:
        return []


def carry_out(plan: FilePlan) -> Done:
    """Makes the change. Raises FileUnwritableError, and then the file is as it was."""
    copy = plan.copy
    try:
        _check_unchanged(plan)
        if plan.new is None:
            return _put_back(plan)
        make_directories(plan.path.parent)
        if copy is None and plan.base is not None:
            copy = _copy(plan.path, plan.base, plan.before.mode)
        return Done(copy=copy, lost=_replace(plan, plan.after or b""))
    except OSError as error:
        raise FileUnwritableError(
            f"{plan.path} cannot be replaced: {error.strerror}.",
            remedy=_BY_HAND.format(client=plan.client.name),
        ) from None


def _replace(plan: FilePlan, data: bytes) -> tuple[str, ...]:
    """A slow disk gives the client time to write: it is looked at again when the new content is there."""
    return replace_file(
        plan.path, data, mode=plan.before.mode, check=partial(_check_unchanged, plan)
    )


def _copy(path: Path, data: bytes, mode: int) -> Path:
    """A new copy, or the one of a run that was killed behind it."""
    there = (one for one in _copies(path) if is_copy(one, data, mode=mode))
    return next(there, None) or keep_copy(path, data, mode=mode)


def _check_unchanged(plan: FilePlan) -> None:
    """Clients write their files while they run."""
    try:
        now = _read(plan.path).data
    except FileNotFoundError:
        now = None
    if now != plan.before.data:
        raise OSError(0, "somebody else changed it in this moment; try again")


def _put_back(plan: FilePlan) -> Done:
    if plan.after is None:
        plan.path.unlink()
        return Done()
    lost = _replace(plan, plan.after)
    if plan.copy is not None:
        plan.copy.unlink()
        return Done(lost=lost)
    return Done(copy=next(iter(_copies(plan.path)), None), lost=lost)


def shown(entry: Mapping[str, object]) -> dict[str, object]:
    """What of an entry may be printed: people keep keys in the variables of theirs."""
    return {
        name: dict.fromkeys(value, "...") if isinstance(value, Mapping) else value
        for name, value in entry.items()
    }
