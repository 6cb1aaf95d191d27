"""Progress bars of syncs, copies and downloads: on standard error, on terminals, gone when they are done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    """Whether standard error is a terminal on which a line can be drawn again."""
    dumb = os.environ.get("TERM", "").lower() in {"", "dumb", "unknown"}
    return sys.stderr is not None and sys.stderr.isatty() and not dumb


@contextmanager
def sync_progress() -> Iterator[ProgressCallback | None]:
    """What to call with the state of a sync; None where nothing is to be shown."""
    if not can_move():
        yield None
        return

    with sync_bar() as bar:
        yield bar


@contextmanager
def download_progress(name: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """What to call with the bytes of a download; None where nothing is to be shown."""
    if not can_move():
        yield None
        return

    with download_bar(name) as bar:
        yield bar


class RateColumn(ProgressColumn):
    """Files and bytes a second since the start."""

    def render(self, task: Task) -> Text:
        seconds = task.elapsed or 0
        if not seconds or not task.completed:
            return Text("- files/s")
        bytes_done: int = task.fields["bytes_done"]
        return Text(f"{task.completed / seconds:,.0f} files/s  {size(bytes_done / seconds)}/s")


@contextmanager
def sync_bar() -> Iterator[ProgressCallback]:
    """A bar for as long as the body runs; it disappears afterwards."""
    with Progress(
        TextColumn("Indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        RateColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=None, bytes_done=0, visible=False)

        def show(state: SyncProgress) -> None:
            """Nothing is drawn while there is nothing to count."""
            progress.update(
                task, completed=state.done, total=state.total, bytes_done=state.bytes_done,
                visible=state.total > 0,
            )  # fmt: skip

        yield show


@contextmanager
def vector_progress() -> Iterator[ProgressCallback]:
    """What to call with the vectors copied so far of one model."""
    if not can_move():
        yield lambda _: None
        return
    with Progress(
        TextColumn("{task.fields[model]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("vectors"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=None, model="", visible=False)

        def show(state: SyncProgress) -> None:
            """Nothing is drawn while there is nothing to count."""
            progress.update(
                task, completed=state.done, total=state.total, model=state.path or "",
                visible=state.total > 0,
            )  # fmt: skip

        yield show


@contextmanager
def download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar for as long as the body runs; it disappears afterwards."""
    with Progress(
        TextColumn(name),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=None, visible=False)

        def show(done: int, total: int | None) -> None:
            """Nothing is drawn before the host has answered."""
            progress.update(
                task, completed=done, total=total, visible=done > 0 or total is not None
            )

        yield show
