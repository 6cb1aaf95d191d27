"""Replacing a small file whole: a reader sees the old one or the new one, never a part. Blocks."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Durably, so that a power cut leaves one or the other. `mode` does not depend on the umask.

    Raises OSError, and then nothing new is left behind.
    """
    making = path.with_name(f".{path.name}.making-{os.getpid()}-{threading.get_native_id()}")
    try:
        with making.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        making.replace(path)
    except BaseException:
        making.unlink(missing_ok=True)
        raise
