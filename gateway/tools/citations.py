"""Where a passage stands, as a reference that a person can follow.

Owns the documented form of a citation and when it is shown. Conversations are told apart by their
session key (`gateway.sessions.keys`).
"""

from __future__ import annotations

from backends.interface import Hit
from config.settings import CitationsMode
from gateway.sessions.keys import chat_type_of
from gateway.tools.escaping import escape_line


def shows_citations(mode: CitationsMode, session_key: str | None) -> bool:
    """`auto` shows them in direct chats only; without a session key nobody else is listening."""
    if mode == "auto":
        return session_key is None or chat_type_of(session_key) == "direct"
    return mode == "on"


def citation_of(hit: Hit) -> str:
    """`path#L12` or `path#L12-L30`; what is unprintable in the path is escaped.

    Of a conversation in the host's database also the events: `sessions/<id>#L3-L4 (events 7-9)`.
    """
    path = escape_line(hit.path)
    cited = f"{path}#L{hit.start_line}"
    if hit.start_line != hit.end_line:
        cited += f"-L{hit.end_line}"
    if hit.events is None:
        return cited
    first, last = hit.events
    return f"{cited} (event {first})" if first == last else f"{cited} (events {first}-{last})"


def with_footer(snippet: str, citation: str) -> str:
    """The snippet with its source below it, as documented."""
    return f"{snippet.strip()}\n\nSource: {citation}"
