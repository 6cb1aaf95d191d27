"""`metrics`: what is counted, and what a monitoring system wants to know of a status."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.metrics import Family, Metrics, Sample
from gateway.tools.status import StatusResult
from providers.interface import EmbeddingsState

_PROVIDER_COUNTS = {
    "requests": ("embedding_requests", "Requests to providers of embeddings, repeated ones too."),
    "retries": ("embedding_retries", "Requests to providers that were repeated."),
    "failures": ("embedding_failures", "Requests to providers given up, after their retries."),
    "documents": ("embedded_texts", "Texts that got a vector."),
    "queries": ("query_embeddings", "Query vectors asked for, cached ones too."),
    "query_cache_hits": ("query_embedding_cache_hits", "Query vectors that were in the cache."),
    "tokens": ("embedding_tokens", "Tokens sent, as the providers count them."),
}


def families_of(status: StatusResult) -> Iterator[Family]:
    """The gauges of one snapshot, and the counters that providers keep."""
    yield _info(status)
    yield _gauge("enabled", "1 while memory is on.", float(status.enabled))
    if not status.enabled:
        return
    yield from _sources(status)
    yield _gauge("chunks", "Chunks in the index.", status.chunks)
    yield _gauge("database_bytes", "Size of the index on disk.", status.database_bytes)
    yield _gauge("sync_running", "1 while a sync runs.", float(status.syncing is not None))
    vector = status.details.vector
    if vector and vector.backfill:
        coverage = vector.backfill.coverage
        waiting = max(0, coverage.total - coverage.embedded)
        yield _gauge("embedding_queue_texts", "Texts that wait for their vector.", waiting)
    if vector and vector.provider:
        yield from _providers(vector.provider)


def _info(status: StatusResult) -> Family:
    labels = {
        "version": status.version,
        "agent": status.agent_id,
        "backend": status.backend or "none",
        "provider": status.provider or "none",
        "model": status.model or "none",
    }
    return Family(
        name="info",
        kind="gauge",
        help="What runs here; always 1.",
        labels=tuple(labels),
        samples=(Sample(labels=tuple(labels.values()), value=1.0),),
    )


def _sources(status: StatusResult) -> Iterator[Family]:
    meanings = {
        "indexed": "Files in the index.",
        "pending": "Files waiting to be indexed.",
        "skipped": "Files that cannot be indexed.",
    }
    for state, meaning in meanings.items():
        samples = tuple(
            Sample(labels=(one.source,), value=getattr(one, state)) for one in status.sources
        )
        yield Family(
            name=f"files_{state}", kind="gauge", help=meaning, labels=("source",), samples=samples
        )


def _providers(state: EmbeddingsState) -> Iterator[Family]:
    """What was asked of the provider that comes first, and of the one that may stand in for it."""
    services = [one for one in (state.primary, state.fallback) if one is not None]
    for count, (name, meaning) in _PROVIDER_COUNTS.items():
        samples = tuple(
            Sample(labels=(one.provider,), value=getattr(one.statistics, count)) for one in services
        )
        yield Family(name=name, kind="counter", help=meaning, labels=("provider",), samples=samples)


def _gauge(name: str, meaning: str, value: float) -> Family:
    return Family(name=name, kind="gauge", help=meaning, samples=(Sample(value=value),))


class MetricsResult(msgspec.Struct, frozen=True):
    families: tuple[Family, ...]


def write_metrics(metrics: Metrics, status: StatusResult) -> MetricsResult:
    """Counts of the process and, from a status of the same moment, of index and providers."""
    start = Family(
        name="start_time_seconds",
        kind="gauge",
        help="When the process began to serve, in seconds since 1970.",
        samples=(Sample(value=round(metrics.started_at, 3)),),
    )
    return MetricsResult((start, *families_of(status), *metrics.families()))
