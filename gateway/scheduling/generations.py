"""What was asked of background indexing and is not done yet. Pure.

Owns the generation counter: every request gets a number, and a sync settles only the requests that were
there when it began. So nothing that arrives meanwhile is lost, and a failure loses nothing at all.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from backends.interface import SyncRequest

MAX_REASONS: Final = 32
"""Reasons are words of clients: beyond so many at a time they count as one."""
OTHER_REASONS: Final = "others"


class Asked(NamedTuple):
    """The last requests of one reason, by generation; 0: never."""

    plain: int
    forced: int
    verifying: int


class Work(NamedTuple):
    """One sync that would do everything asked for so far."""

    generation: int
    request: SyncRequest


class Generations:
    """Requests by reason, in the order in which the reasons first came up."""

    def __init__(self) -> None:
        self._asked: dict[str, Asked] = {}
        self._requested = 0
        self._settled = 0

    @property
    def pending(self) -> tuple[str, ...]:
        """The reasons that no sync has settled."""
        return tuple(self._asked)

    def ask(self, reason: str, *, force: bool = False, verify: bool = False) -> int:
        """The generation of this request."""
        self._requested += 1
        if reason not in self._asked and len(self._asked) >= MAX_REASONS:
            reason = OTHER_REASONS
        last = self._asked.get(reason, Asked(0, 0, 0))
        self._asked[reason] = Asked(
            self._requested,
            self._requested if force else last.forced,
            self._requested if verify else last.verifying,
        )
        return self._requested

    def work(self) -> Work | None:
        """None when everything is settled."""
        if not self._asked:
            return None
        request = SyncRequest(
            reason=", ".join(self._asked),
            force=any(asked.forced > self._settled for asked in self._asked.values()),
            verify=any(asked.verifying > self._settled for asked in self._asked.values()),
        )
        return Work(self._requested, request)

    def settle(self, generation: int) -> None:
        """A sync that began with this generation has done all that was asked for until then."""
        self._settled = generation
        self._asked = {
            reason: asked for reason, asked in self._asked.items() if asked.plain > generation
        }
