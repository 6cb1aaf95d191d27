"""Making directories for what is the user's alone.

Owns that no parent is made more open than the directory itself, whatever the umask: `Path.mkdir` gives its
mode to the last name only. What exists keeps its mode.
"""

from __future__ import annotations

from pathlib import Path


def make_directories(directory: Path, *, mode: int = 0o700) -> None:
    """Makes a directory and those above it that are missing, each with `mode`. Raises OSError."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
    directory.mkdir(mode=mode, exist_ok=True)  # FileExistsError where something else has the name
