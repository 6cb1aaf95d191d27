"""Making directories for what is the user's alone.

Owns that no parent is made more open than the directory itself, whatever the umask (`Path.mkdir` gives its
mode to the last name only), and that what root makes for somebody else is theirs. What exists keeps its mode.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path


def make_directories(directory: Path, *, mode: int = 0o700) -> None:
    """Makes a directory and those above it that are missing, each with `mode`. Raises OSError."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
        if os.geteuid() == 0:
            _give_directory(one)
    directory.mkdir(mode=mode, exist_ok=True)  # FileExistsError where something else has the name


def _give_directory(made: Path) -> None:
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give_to_owner(descriptor, made.parent)
    finally:
        os.close(descriptor)


def give_to_owner(made: int, directory: Path) -> None:
    """Gives what root has just made, by its descriptor, to the owner of its directory. Raises OSError.

    Made by `sudo`, it would shut the user's own gateway out.
    """
    if os.geteuid() != 0:
        return
    owner, status = directory.stat(), os.fstat(made)
    # That user may have put something else there meanwhile, such as another name of a file of root's.
    if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
        os.fchown(made, owner.st_uid, owner.st_gid)


def foreign_owner(path: Path) -> str | None:
    """Who owns what is there, or the nearest directory above; None: this user, or it is not known."""
    for one in (path, *path.parents):
        try:
            uid = one.stat().st_uid
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return None if uid == os.geteuid() else _name_of(uid)
    return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
