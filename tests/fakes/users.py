"""Other users of the machine: real ones, for whom root starts processes."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

OWNER: Final = 64_401
"""The owner of the memory, in tests of what other users may do."""
OTHER: Final = 64_402
IMPOSSIBLE: Final = os.geteuid() != 0 or shutil.which("setpriv") is None
WHY_NOT: Final = "only root can start processes of another user"

IMPOSTOR: Final = [sys.executable, "-P", str(Path(__file__).with_name("impostor.py"))]
"""Listens at the path of its first argument and writes what it receives to the file of its second."""


def as_user(uid: int) -> list[str]:
    """Returns the words to put before a command so that this user runs it."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]


def give(place: Path, uid: int) -> None:
    """Gives a directory and all that is in it to this user."""
    for one in (place, *place.rglob("*")):
        os.chown(one, uid, uid, follow_symlinks=False)
