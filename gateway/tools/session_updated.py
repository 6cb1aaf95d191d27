"""`session_updated`: what a client says when a conversation went on."""

from __future__ import annotations

import msgspec

from gateway.rpc.errors import InvalidParamsError
from gateway.tools.bounds import Key, PathText


class SessionUpdatedParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Parameters of `session_updated`: one of the two."""

    path: PathText | None = None
    session_id: Key | None = None


def read_reference(params: SessionUpdatedParams) -> str:
    """What the client calls the transcript. Raises InvalidParamsError."""
    given = [name for name in (params.path, params.session_id) if name and name.strip()]
    if len(given) != 1:
        raise InvalidParamsError(
            "session_updated needs a path or a sessionId, and only one of them.",
            remedy='Send {"path": "<the transcript>.jsonl"} or {"sessionId": "<its name>"}.',
        )
    return given[0]
