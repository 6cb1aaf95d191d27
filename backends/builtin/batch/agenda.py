"""What is to be done for batch jobs now, and when there will be more. Pure.

Owns the rule that a job which was begun is either due or has a time: both come from one look at the
records, so that nothing which changes between two looks is slept over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from backends.builtin.batch.records import JobRecord

_SHORTEST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 60.0
"""A wish to cancel a job, written down by another process, wakes nobody."""


class Agenda(NamedTuple):
    due: tuple[JobRecord, ...]
    """To advance now."""
    unsent: tuple[JobRecord, ...]
    """Not to be begun any more."""
    pause_s: float | None
    """Seconds until there is more to do; None when nothing is open."""


def plan(
    jobs: Sequence[JobRecord],
    *,
    now_ms: int,
    is_off: bool,
    capacity: int | None,
    concurrency: int,
) -> Agenda:
    """`jobs`: those that are not closed, the oldest first. `capacity`: how many texts the vendor takes in
    all jobs together, if that is known.
    """
    prepared = [job for job in jobs if job.state == "prepared"]
    begun = [job for job in jobs if job.state != "prepared"]
    under_way = [job.items for job in begun if job.state != "read"]
    wanted = [job for job in prepared if not job.cancelling]
    unwanted = [job for job in prepared if job.cancelling]
    startable = _startable(wanted, under_way, capacity, concurrency)
    candidates = tuple(begun) if is_off else (*begun, *unwanted, *startable)
    due = tuple(job for job in candidates if job.next_at_ms <= now_ms)
    unsent = tuple(prepared) if is_off else ()
    return Agenda(due, unsent, 0.0 if due or unsent else _pause_s(candidates, now_ms))


def _startable(
    prepared: Sequence[JobRecord], under_way: Sequence[int], capacity: int | None, concurrency: int
) -> list[JobRecord]:
    """As many of these as may go on beside those under way, whose numbers of texts are given."""
    started: list[JobRecord] = []
    for job in prepared:
        sizes = [*under_way, *(one.items for one in started)]
        is_too_much = capacity is not None and sizes and sum(sizes) + job.items > capacity
        if is_too_much or len(sizes) >= concurrency:
            break
        started.append(job)
    return started


def _pause_s(candidates: Sequence[JobRecord], now_ms: int) -> float | None:
    """None of these is due."""
    if not candidates:
        return None
    soonest_ms = min(job.next_at_ms for job in candidates)
    return min(max(_SHORTEST_PAUSE_S, (soonest_ms - now_ms) / 1000), _LONGEST_PAUSE_S)
