"""Whether a directory lies on a file system where SQLite's write-ahead log is safe.

Owns the list of those where it is not: WAL needs memory shared between processes, which network and
passthrough file systems do not give (sqlite.org/wal.html, "Disadvantages").
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_UNSAFE_FOR_WAL: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p virtiofs vboxsf prl_fs afs ceph lustre gpfs beegfs fuse".split()
)
_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def is_wal_safe(directory: Path, mounts: Path = _MOUNTS) -> bool:
    """True where the type of the file system is unknown, as on systems without /proc."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return True
    file_system = _type_of(os.path.realpath(directory), text)
    return file_system not in _UNSAFE_FOR_WAL and not file_system.startswith("fuse.")


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
