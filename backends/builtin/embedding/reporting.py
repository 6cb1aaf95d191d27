"""What `status` tells of the providers: their own words, under the names of the protocol. Pure.

Owns the spelling. Providers keep Python's names, since fingerprints are stored with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from providers.embedding.failover import EmbeddingsState
    from providers.interface import Candidate


def report_candidates(candidates: Iterable[Candidate]) -> list[dict[str, Any]]:
    return [_camel(msgspec.to_builtins(one)) for one in candidates]


def report_embeddings(state: EmbeddingsState, lacks: str | None) -> dict[str, Any]:
    """`lacks` is what the provider in use waits for before its first vector; None: nothing."""
    report: dict[str, Any] = _camel(msgspec.to_builtins(state, enc_hook=repr))
    if lacks is not None and state.active.status == "ready":
        report["active"] |= {"status": "waiting", "reason": lacks}
    return report


def _camel(value: Any) -> Any:
    """The value with every name in it as `nextProbeInS`."""
    match value:
        case dict():
            return {_camel_name(name): _camel(item) for name, item in value.items()}
        case list() | tuple():
            return [_camel(item) for item in value]
        case _:
            return value


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
