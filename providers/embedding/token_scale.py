"""How a host counts tokens against how we estimate them, so that a limit it names can be filled.

Owns one host's named limit of tokens a request and the ratio of its count to ours. Before the first
answer the two are taken for equal; the answers tell the ratio, refusals correct it.
"""

from __future__ import annotations

from typing import Final

import msgspec

_RESERVE: Final = 0.97
"""Requests differ a little in their ratio; a refusal costs more than a few free tokens."""
_ENOUGH_TOKENS: Final = 200
"""Shorter requests say little: closing tokens and rounding weigh too much in them."""
_CORRECTION: Final = 1.25


class TokenScale(msgspec.Struct):
    """Mutable; survives restarts as a small dictionary."""

    limit: int | None = None
    """Of one request, in the host's own tokens; None as long as it named none."""
    ratio: float = 1.0
    """The host's tokens for one estimated token; the largest that was seen."""
    observed: bool = False

    def observe(self, estimated: int, counted: int) -> None:
        """Learns from an answer; `counted` is 0 when the host does not count."""
        if not counted or estimated < _ENOUGH_TOKENS:
            return
        ratio = counted / estimated
        self.ratio = max(self.ratio, ratio) if self.observed else ratio
        self.observed = True

    def refuse(self, estimated: int, named: int) -> None:
        """Learns from a refusal that names the limit.

        What should have fitted counts for more than was thought, by an unknown factor.
        """
        if named >= estimated * self.ratio * _RESERVE:
            self.ratio = max(self.ratio, named / max(1, estimated)) * _CORRECTION
        self.limit = named

    @property
    def cap(self) -> int | None:
        """Estimated tokens for one request."""
        if self.limit is None:
            return None
        return max(1, int(self.limit * _RESERVE / self.ratio))
