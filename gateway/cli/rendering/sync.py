"""What a sync did, in one line, and what it left undone. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from backends.interface import SyncReport
from gateway.cli.rendering.words import counted, duration, size


def sync_summary(report: SyncReport) -> str:
    """`48 files in 0.31 s: 48 new, 0 changed ...; 110.0 kB read (354.8 kB/s)`."""
    seconds = max(report.duration_ms, 1) / 1000
    changes = (
        f"{report.added:,} new, {report.changed:,} changed, {report.removed:,} removed, "
        f"{report.unchanged:,} unchanged"
    )
    if report.skipped:
        changes += f", {len(report.skipped):,} skipped"
    read = f"{size(report.bytes_read)} read ({size(report.bytes_read / seconds)}/s)"
    return (
        f"{counted(report.scanned, 'file')} in {duration(report.duration_ms)}: {changes}; "
        f"{counted(report.chunks_written, 'chunk')} written, {read}."
    )


def sync_remarks(report: SyncReport) -> Iterator[str]:
    """What is not indexed, and why."""
    for skipped in report.skipped:
        yield f"Skipped {skipped.path}: {skipped.reason}"
    if report.error:
        yield f"Not everything was indexed: {report.error}"
    elif not report.complete:
        yield "Some files were being written; run it again to index them."
