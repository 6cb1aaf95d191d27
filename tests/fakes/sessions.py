"""The context of a request, which says who asks, for methods of the pipe."""

from __future__ import annotations

from typing import Final

from gateway.rpc.registry import RequestContext, Session

OPERATOR: Final = RequestContext(Session(operator=True))


def of_session(session_key: str | None = None) -> RequestContext:
    return RequestContext(Session(session_key=session_key))
