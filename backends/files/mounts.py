"""On what kind of file system a directory lies, by the mount table of the kernel.

Owns the list of those that others may change behind the kernel's back: network and passthrough file
systems. There SQLite's write-ahead log is not safe, since it needs memory shared between processes
(sqlite.org/wal.html, "Disadvantages"), and not every change is announced (inotify(7), "Limitations").
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_SHARED: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p virtiofs vboxsf prl_fs afs ceph lustre gpfs beegfs fuse".split()
)
_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def shared_type(directory: str | Path, mounts: Path = _MOUNTS) -> str | None:
    """The type of the directory's file system if others may share it (`nfs4`), else None.

    None also where the type is unknown, as on systems without /proc.
    """
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    file_system = _type_of(os.path.realpath(directory), text)
    is_shared = file_system in _SHARED or file_system.startswith("fuse.")
    return file_system if is_shared else None


def _type_of(directory: str, mountinfo: str) -> str:
    """The type of the longest mount point that holds `directory` (proc(5), mountinfo)."""
    best, file_system = "", ""
    for line in filter(None, mountinfo.split("\n")):
        mount, _, rest = line.partition(" - ")
        point = _ESCAPE.sub(_character, mount.split(" ")[4]).rstrip("/")
        holds = directory == point or directory.startswith(point + "/")
        if holds and len(point) >= len(best):
            best, file_system = point, rest.split(" ", 1)[0]
    return file_system


def _character(escape: re.Match[str]) -> str:
    """Spaces, newlines and backslashes in a mount point are written as octal numbers."""
    return chr(int(escape[1], 8))
