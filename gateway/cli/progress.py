"""Progress bars: on standard error, only where they can move, gone when they are done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backends.interface import ProgressCallback


def can_move() -> bool:
    """Whether standard error is a terminal on which a line can be drawn again."""
    dumb = os.environ.get("TERM", "").lower() in {"", "dumb", "unknown"}
    return sys.stderr is not None and sys.stderr.isatty() and not dumb


@contextmanager
def sync_progress() -> Iterator[ProgressCallback | None]:
    """What to call with the state of a sync; None where nothing is to be shown."""
    if not can_move():
        yield None
        return
    from gateway.cli.progress_bar import sync_bar

    with sync_bar() as bar:
        yield bar


@contextmanager
def download_progress(name: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """What to call with the bytes of a download; None where nothing is to be shown."""
    if not can_move():
        yield None
        return
    from gateway.cli.download_bar import download_bar

    with download_bar(name) as bar:
        yield bar
