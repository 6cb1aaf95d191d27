"""Counts of what one provider did since it was opened, for `status` and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot. `requests` counts every request sent, also repeated and refused ones."""

    requests: int
    retries: int
    failures: int
    """Requests given up, after their retries."""
    documents: int
    """Texts that got a vector."""
    item_errors: int
    """Texts that got none although their request succeeded, or that were refused alone."""
    queries: int
    """Query embeddings asked for, cached ones included."""
    query_cache_hits: int
    tokens: int
    """As counted by the host."""


@dataclass(slots=True)
class Counters:
    """The running counts; belongs to one event loop."""

    requests: int = 0
    retries: int = 0
    failures: int = 0
    documents: int = 0
    item_errors: int = 0
    queries: int = 0
    query_cache_hits: int = 0
    tokens: int = 0

    def snapshot(self) -> Statistics:
        return Statistics(
            requests=self.requests,
            retries=self.retries,
            failures=self.failures,
            documents=self.documents,
            item_errors=self.item_errors,
            queries=self.queries,
            query_cache_hits=self.query_cache_hits,
            tokens=self.tokens,
        )
