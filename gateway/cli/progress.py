"""Progress bars of syncs, copies and downloads: on standard error, on terminals, gone when they are done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from backends.interface import ProgressCallback, SyncProgress
from gateway.cli.terminal import console, size


def can_move() -> bool:
    """Returns whether standard error is a terminal on which a line can be redrawn."""
    dumb = os.environ.get("TERM", "").lower() in {"", "dumb", "unknown"}
    return sys.stderr is not None and sys.stderr.isatty() and not dumb


@contextmanager
def sync_progress() -> Iterator[ProgressCallback | None]:
    """Yields a function to call with the state of a sync; None if nothing is to be shown."""
    with _bar(TextColumn("Indexing"), _OF_ALL, TextColumn("files"), RateColumn()) as update:

        def show(state: SyncProgress) -> None:
            update(state.done, state.total, bytes_done=state.bytes_done)

        yield show if can_move() else None


@contextmanager
def vector_progress() -> Iterator[ProgressCallback]:
    """Yields a function to call with the state of the vectors of one model."""
    with _bar(TextColumn("{task.fields[model]}"), _OF_ALL, TextColumn("vectors")) as update:
        yield lambda state: update(state.done, state.total, model=state.path or "")


@contextmanager
def download_progress(name: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yields a function to call with the bytes of a download; None if nothing is to be shown."""
    with _bar(TextColumn(name), DownloadColumn(), TransferSpeedColumn()) as update:
        yield update if can_move() else None


@contextmanager
def _bar(first: ProgressColumn, *columns: ProgressColumn) -> Iterator[Callable[..., None]]:
    """Yields a function that updates a bar; nothing is drawn while there is nothing to count."""
    if not can_move():
        yield lambda *_, **_fields: None
        return
    with Progress(
        first, BarColumn(), *columns, TimeRemainingColumn(),
        console=console(stderr=True), transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task("", total=None, visible=False, bytes_done=0, model="")

        def update(done: int, total: int | None, **fields: Any) -> None:
            visible = done > 0 or bool(total)
            progress.update(task, completed=done, total=total, visible=visible, **fields)

        yield update


class RateColumn(ProgressColumn):
    """Files and bytes per second since the start."""

    def render(self, task: Task) -> Text:
        seconds = task.elapsed or 0
        if not seconds or not task.completed:
            return Text("- files/s")
        bytes_done: int = task.fields["bytes_done"]
        return Text(f"{task.completed / seconds:,.0f} files/s  {size(bytes_done / seconds)}/s")


_OF_ALL = MofNCompleteColumn()
