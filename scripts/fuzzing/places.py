"""Directories for what the targets write; gone when the process ends."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path


@cache
def place(name: str) -> Path:
    """The same one for the same name."""
    directory = tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-")
    atexit.register(directory.cleanup)
    return Path(directory.name)
