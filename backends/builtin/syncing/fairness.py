"""The order in which a sync works off two sources, so that neither waits for the other to end. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from backends.builtin.sessions.planning import TranscriptPart
from backends.files.scan import FoundFile


def fair_order(
    files: Sequence[FoundFile], parts: Sequence[TranscriptPart]
) -> tuple[FoundFile | TranscriptPart, ...]:
    """Both in their own order; next comes the source of which fewer bytes came so far.

    Memory comes first where they are level: a person wrote it to be found.
    """
    order: list[FoundFile | TranscriptPart] = []
    files_left, parts_left = list(reversed(files)), list(reversed(parts))
    lead = 0
    while files_left and parts_left:
        task = files_left.pop() if lead <= 0 else parts_left.pop()
        lead += task.size if isinstance(task, FoundFile) else -task.size
        order.append(task)
    return (*order, *reversed(files_left), *reversed(parts_left))
