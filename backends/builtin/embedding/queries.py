"""The vector of a query, or why it has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import anyio
import structlog

from providers.errors import ProviderError
from providers.interface import Fingerprint, QueryVector

if TYPE_CHECKING:
    from providers.embedding.failover import Embeddings
    from providers.embedding.service import EmbeddingService


class Meaning(NamedTuple):
    """Neither vector nor warning: none was wanted, or there is no provider."""

    vector: QueryVector | None = None
    warning: str | None = None


_log = structlog.get_logger(__name__)


class QueryReader:
    """Belongs to one event loop. `aclose` closes the predecessor."""

    def __init__(
        self,
        embeddings: Embeddings,
        predecessor: EmbeddingService | None,
        *,
        is_superseded: Callable[[], bool],
    ) -> None:
        """`is_superseded` tells whether the provider in use has read every note by now."""
        self._embeddings = embeddings
        self._predecessor = predecessor
        self._is_superseded = is_superseded
        self._failed = False

    @property
    def predecessor(self) -> Fingerprint | None:
        """Of the model that still answers for the provider in use."""
        if self._predecessor is None or self._failed or self._is_superseded():
            return None
        return self._predecessor.fingerprint

    async def read(self, query: str, deadline_s: float) -> Meaning:
        """Never raises for a provider's sake."""
        ends = anyio.current_time() + deadline_s
        if self._predecessor is not None and self.predecessor is not None:
            found = await self._read_as_before(self._predecessor, query, deadline_s)
            if found is not None:
                return Meaning(found)
        try:
            # Its own deadline, none around it: a host's silence must be counted against the host.
            left_s = max(0.0, ends - anyio.current_time())
            return Meaning(await self._embeddings.embed_query(query, deadline_s=left_s))
        except ProviderError as error:
            return Meaning(warning=f"Answered by keywords, without the query's vector: {error}")
        except Exception as fault:  # noqa: BLE001 - ours; keywords answer all the same
            _log.exception("query not embedded")
            name = type(fault).__name__
            return Meaning(warning=f"Answered by keywords: internal fault ({name}); see the log")

    async def _read_as_before(
        self, predecessor: EmbeddingService, query: str, deadline_s: float
    ) -> QueryVector | None:
        try:
            vector = await predecessor.embed_query(query, deadline_s=deadline_s)
        except ProviderError as error:
            # It is on its way out: one failure is enough to go on with what the new model has read.
            self._failed = True
            _log.warning(
                "predecessor given up", model=predecessor.fingerprint.model, error=str(error)
            )
            return None
        return QueryVector(vector, predecessor.fingerprint)

    async def aclose(self) -> None:
        if self._predecessor is not None:
            await self._predecessor.aclose()
