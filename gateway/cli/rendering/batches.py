"""The list of batch jobs as people read it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from backends.builtin.batch.reporting import JobReport
from gateway.cli.rendering.aligned import aligned
from gateway.cli.rendering.words import duration


def batch_lines(jobs: Sequence[JobReport]) -> Sequence[Text]:
    """Number, state, progress, refused texts, age and reason of each."""
    cells = [
        (
            str(job.id),
            job.outcome or job.remote_state or job.state,
            f"{job.done:,}/{job.items:,}",
            f"{job.refused:,}" if job.refused else "",
            duration(job.age_s * 1000),
            job.reason or "",
        )
        for job in jobs
    ]
    heads = ("JOB", "STATE", "DONE", "REFUSED", "AGE", "REASON")
    return aligned([heads, *cells], ("cyan", "bold", "", "red", "dim", "dim"), widest=40)
