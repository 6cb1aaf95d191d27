"""Replacing a small file whole: a reader sees the old one or the new one, never a part. Blocks."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Readable by this user alone. Raises OSError, and then nothing new is left behind."""
    making = path.with_name(f"{path.name}.making-{os.getpid()}")
    try:
        with making.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        making.replace(path)
    except OSError:
        making.unlink(missing_ok=True)
        raise
