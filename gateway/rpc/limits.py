"""The bounds that keep one connection from costing more than it should.

Owns their defaults, each with its reason. Whatever a client does, it holds at most about
`line_bytes + open_bytes + outbox_bytes`, and the results of `running` requests. The times add up to 2 s:
so long may it take, in the worst of all cases, until a connection whose input has ended is over.
"""

from __future__ import annotations

import msgspec


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    line_bytes: int = 4 * 1024 * 1024
    """Of one line; a longer one is discarded while it streams in."""
    all_lines_bytes: int = 32 * 1024 * 1024
    """Of all unfinished lines of the sockets' clients together; the client on the pipe has its own."""
    batch_members: int = 256
    running: int = 64
    """Requests at work at the same time."""
    waiting: int = 256
    """Requests accepted beyond those; then reading pauses."""
    open_bytes: int = 16 * 1024 * 1024
    """Parameters of all accepted requests together; then reading pauses too."""
    outbox_bytes: int = 1024 * 1024
    """Frames that the client has not read yet; then requests wait to be answered."""
    admission_patience_s: float = 0.3
    """How long reading pauses for room before it refuses, so that a cancellation gets through."""
    grace_s: float = 1.0
    """How long open requests may go on after the end of input or a shutdown."""
    unwind_s: float = 0.2
    """How long cancelled requests may tidy up before they are answered without waiting."""
    flush_s: float = 0.5
    """How long the client may read nothing of the last answers before it is given up."""
    stall_s: float = 0.5
    """How long a client that hung up may read nothing before it counts as gone."""

    @property
    def shutdown_s(self) -> float:
        """The most that a shutdown may take, once asked for."""
        return self.grace_s + self.unwind_s + self.flush_s
