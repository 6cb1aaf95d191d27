"""`recall`: parameters, limits and result."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from config.errors import ErrorKind
from config.settings import Source
from gateway.tools.search import Globs, Key

DEFAULT_TOKENS: Final = 400
MOST_TOKENS: Final = 4_000

RecallReason = Literal[
    "small_talk",
    "machine_output",
    "command",
    "nothing_likely",
    "already_shown",
    "no_room",
    "denied",
    "disabled",
    "unavailable",
    "late",
]
"""Why nothing is told. `already_shown`: this conversation has seen all that is likely; `no_room`: it is longer than
`maxTokens`; `late`: a hook waits no longer."""


class RecallParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Parameters of `recall`."""

    prompt: str
    session_key: Key | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] = DEFAULT_TOKENS
    min_score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    exclude: Globs = ()


class RecalledNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    start_line: int
    end_line: int
    score: float
    source: Source


class RecallResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to put before the prompt, with places, or a `reason` why nothing."""

    tokens: int
    """About how many the text takes."""
    text: str = ""
    notes: tuple[RecalledNote, ...] = ()
    reason: RecallReason | None = None
    error: str | None = None
    """The cause and the remedy, where the reason is `denied`, `disabled` or `unavailable`."""
    kind: ErrorKind | None = None
    """The kind of the error."""
