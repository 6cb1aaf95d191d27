"""`batch list` and `batch cancel`: the jobs that embed a large backlog at a vendor."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gateway.cli import output
from gateway.cli.exit_codes import NOT_FOUND
from gateway.cli.options import PROGRAM, Options


def list_batches(options: Options) -> int:
    """Show the batch jobs of the index, the newest first."""
    from backends.builtin.batch.by_hand import list_jobs
    from gateway.cli.loading import load
    from gateway.cli.rendering.batches import batch_lines
    from gateway.cli.terminal import print_lines

    jobs = list_jobs(load(options))
    if options.json:
        output.write_json({"jobs": jobs})
    elif jobs:
        print_lines(batch_lines(jobs))
    else:
        output.note("There are no batch jobs.")
    return os.EX_OK


def cancel_batch(
    options: Options,
    job: Annotated[int, typer.Argument(help="The job's number, as `batch list` shows it.")],
) -> int:
    """Cancel a batch job; what it has done by then is kept, the rest gets ordinary requests."""
    from backends.builtin.batch.by_hand import cancel_job
    from gateway.cli.loading import load

    found = cancel_job(load(options), job)
    if options.json:
        output.write_json({"cancelling": found})
    elif found:
        output.say(f"Job {job} is cancelled as soon as the gateway looks after it again.")
    else:
        output.note(f"No job {job} is under way; see `{PROGRAM} batch list`.")
    return os.EX_OK if found else NOT_FOUND
