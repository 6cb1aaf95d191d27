"""What a method knows about the request it serves, beside its parameters.

Owns the per-connection `Session` and the per-request `RequestContext`. Both are plain values, so a
method can be called in a test without any connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.sessions.terms import Guest


@dataclass(slots=True)
class Session:
    """One client, for as long as its connection lives. `initialize` fills it, other methods read it.

    Requests start in the order of their lines, so what a method sets before its first `await` is
    seen by all later ones.
    """

    connection: str = "stdio"
    """Names the connection in the log."""
    client: str | None = None
    session_key: str | None = None
    """Holds for requests that do not bring their own."""
    protocol: str | None = None
    operator: bool = False
    """Somebody who sits at the machine: scope, which guards conversations, does not hold."""
    guest: Guest | None = None
    """Set for a client whom another process carries to us."""
    leave: Callable[[], None] | None = None
    """Ends this connection alone; None where it is the only one, and the process ends with it."""


def _ignore(_method: str, _params: object) -> None:
    """Stand in where nobody listens to notifications."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    session: Session
    request_id: str | None = None
    """For messages and the log; None for a notification."""
    notify: Callable[[str, object], None] = _ignore
    """Send the client a notification: `notify(method, params)`.

    Never waits and never fails, so it suits progress: of several that the client has not read yet,
    only the newest of each method is kept. Does nothing once the request is answered. Call it
    from the event loop.
    """
    stages: dict[str, float] = field(default_factory=dict)
    """How long parts of the work took, in milliseconds: the method adds its own, for the log."""
