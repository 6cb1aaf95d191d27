"""Asks the vector side of an index to do its work once: the provider, then the engine.

Owns what is asked and how the outcome is told. Unlike a search it says what did not work instead of
answering by keywords.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Literal

import anyio
import msgspec
from anyio.to_thread import run_sync

from backends.interface import Trial
from config.errors import MemoryGatewayError

if TYPE_CHECKING:
    from backends.builtin.embedding.semantics import Semantics
    from backends.builtin.storage.database import Database
    from providers.embedding.failover import Embeddings, QueryVector

_SKIPPED = "No vector to search with."


async def try_out(
    database: Database, semantics: Semantics, timeout_s: float
) -> tuple[Trial, Trial]:
    """See `MemoryBackend.try_out`: the provider gives a vector, the engine searches with it."""
    provider, vector = await _try_provider(semantics, timeout_s)
    if vector is None:
        return provider, Trial(part="vectors", outcome="skipped", detail=_SKIPPED)
    return provider, await _try_vectors(database, semantics, vector, timeout_s)


async def _try_provider(semantics: Semantics, timeout_s: float) -> tuple[Trial, QueryVector | None]:
    started = time.perf_counter()
    with anyio.move_on_after(timeout_s):
        embeddings = await semantics.opened()
        if embeddings is None:
            outcome: Literal["failed", "skipped"] = (
                "failed" if semantics.weaknesses() else "skipped"
            )
            return Trial(part="provider", outcome=outcome, detail=semantics.reason), None
        try:
            vector = await _ask(embeddings, timeout_s)
        except MemoryGatewayError as error:
            return _failed("provider", error, started), None
        mark = vector.fingerprint
        detail = f"{mark.provider} answered with {len(vector.vector)} numbers ({mark.model})."
        return _timed(Trial(part="provider", outcome="ok", detail=detail), started), vector
    detail = f"No vector within {timeout_s:g} s."
    return _timed(Trial(part="provider", outcome="failed", detail=detail), started), None


async def _ask(embeddings: Embeddings, timeout_s: float) -> QueryVector:
    """A text that no cache knows; a lost primary gets its chance before its stand-in is asked."""
    if embeddings.state().fell_back is not None:
        await embeddings.probe()
    return await embeddings.embed_query(f"health {secrets.token_hex(4)}", deadline_s=timeout_s)


async def _try_vectors(
    database: Database, semantics: Semantics, vector: QueryVector, timeout_s: float
) -> Trial:
    started = time.perf_counter()
    trial = Trial(part="vectors", outcome="failed", detail=f"No answer within {timeout_s:g} s.")
    try:
        with anyio.move_on_after(timeout_s):
            trial = await run_sync(_search, database, semantics, vector, abandon_on_cancel=True)
    except MemoryGatewayError as error:
        return _failed("vectors", error, started)
    return _timed(trial, started)


def _search(database: Database, semantics: Semantics, vector: QueryVector) -> Trial:
    from backends.builtin.vectors import store  # noqa: PLC0415 - needs numpy
    from backends.builtin.vectors.engine import Unavailable  # noqa: PLC0415

    with database.reading() as connection:
        number = store.fingerprint_id(connection, vector.fingerprint)
        if semantics.engines is None or number is None:
            detail = f"{vector.fingerprint.model} has not embedded any note yet."
            return Trial(part="vectors", outcome="skipped", detail=detail)
        answer = semantics.engines.search(connection, number, vector.vector, limit=1)
    if isinstance(answer, Unavailable) or answer.reason:
        return Trial(part="vectors", outcome="failed", detail=f"{answer.reason}.")
    return Trial(part="vectors", outcome="ok", detail=f"{answer.engine} answered.")


def _failed(
    part: Literal["provider", "vectors"], error: MemoryGatewayError, started: float
) -> Trial:
    trial = Trial(part=part, outcome="failed", detail=error.message, remedy=error.remedy)
    return _timed(trial, started)


def _timed(trial: Trial, started: float) -> Trial:
    return msgspec.structs.replace(trial, ms=round((time.perf_counter() - started) * 1000, 1))
