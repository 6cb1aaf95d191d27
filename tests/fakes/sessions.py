"""Who asks, as a method of the pipe is told."""

from __future__ import annotations

from typing import Final

from gateway.rpc.registry import RequestContext, Session

OPERATOR: Final = RequestContext(Session(operator=True))


def of_session(session_key: str | None = None) -> RequestContext:
    return RequestContext(Session(session_key=session_key))
