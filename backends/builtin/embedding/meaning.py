"""What is known of the meaning of a query: its vector, or why it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from providers.embedding.failover import QueryVector


class Meaning(NamedTuple):
    """Neither vector nor warning: none was wanted, or there is no provider."""

    vector: QueryVector | None = None
    warning: str | None = None
