"""Replacing a small file whole: a reader sees the old one or the new one, never a part. Blocks."""

from __future__ import annotations

import glob
import os
import threading
from pathlib import Path
from typing import Final

from config.disk.making import give_to_owner

_DRAFT: Final = ".{name}.making-{writer}"


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Durably, so that a power cut leaves one or the other. `mode` does not depend on the umask.

    Raises OSError, and then nothing new is left behind.
    """
    writer = f"{os.getpid()}-{threading.get_native_id()}"
    making = path.with_name(_DRAFT.format(name=path.name, writer=writer))
    try:
        with making.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            give_to_owner(file.fileno(), path.parent)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        making.replace(path)
    except BaseException:
        making.unlink(missing_ok=True)
        raise


def remove_drafts(path: Path) -> None:
    """Removes what writers left that were killed while they replaced this file.

    Only for whoever keeps all other writers away. Raises OSError.
    """
    for draft in path.parent.glob(_DRAFT.format(name=glob.escape(path.name), writer="*")):
        draft.unlink(missing_ok=True)
