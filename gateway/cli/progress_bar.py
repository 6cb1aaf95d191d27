"""How the progress bar of a sync looks: files done, rates, time left.

Imports rich; `progress` decides whether that is worth it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from backends.interface import ProgressCallback, SyncProgress
from gateway.cli.rendering.words import size
from gateway.cli.terminal import console


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
        task = progress.add_task("", total=None, bytes_done=0)

        def show(state: SyncProgress) -> None:
            progress.update(
                task, completed=state.done, total=state.total, bytes_done=state.bytes_done
            )

        yield show
