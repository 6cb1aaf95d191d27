"""The sample workspace that ships with the package: an agent's `MEMORY.md` and six weeks of notes.

The demo indexes it and the recall benchmark asks questions about it. It is read in place and never
written: copy the folder before you edit its notes.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["sample_workspace"]


def sample_workspace() -> Path:
    """Returns the folder with `MEMORY.md` and `memory/`, as installed beside this module."""
    return Path(__file__).resolve().parent / "workspace"
