"""Where the owner of one index is to be found: its lock and its socket.

Owns the names, and that a directory for sockets is private. The lock stands beside the database, so
that everybody who means this index meets there, whatever their environment; the socket is where
sockets belong, and the lock file names it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from backends.builtin.storage.moving import lock_path
from config.disk.making import make_directories
from config.paths import runtime_dir
from config.settings import Settings


class Place(msgspec.Struct, frozen=True):
    lock: Path
    sockets: tuple[Path, ...]
    """Where the socket may be, best first."""


def place_of(settings: Settings, environment: Mapping[str, str] = os.environ) -> Place:
    """The place of the index that these settings mean. Two indexes never share one."""
    store = settings.search.store
    index = Path(os.path.realpath(store.path))
    mark = hashlib.blake2s(os.fsencode(index), digest_size=4).hexdigest()
    name = f"{settings.agent_id}-{mark}.sock"
    usual = runtime_dir(environment, state=settings.state_dir, uid=os.getuid())
    directories = dict.fromkeys((usual, settings.state_dir / "run"))
    return Place(
        lock=lock_path(store.path, store.former_path),
        sockets=tuple(directory / name for directory in directories),
    )


def make_private(directory: Path) -> None:
    """Makes a directory that only this user may enter, or makes the present one so.

    Raises OSError, also for a directory of somebody else's: what is in it could not be trusted.
    """
    make_directories(directory)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{directory} is not a directory of this user")
    if status.st_mode & 0o077:
        directory.chmod(0o700)
