"""An embedder over one vendor's wire; answers are decoded, checked and ordered.

The wire is opened with the first request, since its imports take longer than a start should.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import anyio
from anyio.to_thread import run_sync

from providers.installing import library_missing
from providers.provider_interface import (
    EmbeddedBatch,
    Fingerprint,
    InputLimits,
    ItemError,
    ProviderAuthError,
    ProviderBadResponseError,
    Purpose,
    Vector,
    digest_headers,
    without_lone_surrogates,
)
from providers.remote import credentials
from providers.remote.answers import Reply, collect, expecting
from providers.remote.spec import RemoteSpec

if TYPE_CHECKING:
    from providers.remote.wires import Wire

_TIMES_TO_BELIEVE: Final = 3
"""The number of answers with another length that replace the learned one. That one is learned from the first answer,
which may have been wrong; or the host has another model now. One answer of another length proves neither."""
_TIME_TO_BELIEVE_S: Final = 30.0
"""The time over which those answers must agree: a host may fail for a while, and a new model discards the vectors."""


def fingerprint_of(spec: RemoteSpec) -> Fingerprint:
    """Returns everything that decides which vectors a provider gives, the same for requests and for batch jobs."""
    prompt = spec.prompt("document")
    return Fingerprint(
        provider=spec.vendor.name,
        model=spec.model,
        endpoint=spec.endpoint.base_url,
        headers=digest_headers(credentials.without_secrets(spec.headers)),
        dimensions=spec.dimensions,
        input_type=spec.input_type("document"),
        variant=(prompt,) if prompt else (),
    )


class RemoteEmbedder:
    """Implements `providers.provider_interface.Embedder`.

    `renew` builds the spec again; it is called after the host refused the key, so that a key that was
    replaced in the auth profiles is used without a restart.
    """

    def __init__(self, spec: RemoteSpec, renew: Callable[[], RemoteSpec]) -> None:
        self._spec = spec
        self._renew = renew
        self._refused = False
        self._wire: Wire | None = None
        self._opening = anyio.Lock()
        self._dimensions = spec.dimensions
        self._others: tuple[int | None, int, float] = (None, 0, 0.0)
        """A length that is not the learned one, how many answers in a row had it, and the time of the first."""

    @property
    def fingerprint(self) -> Fingerprint:
        return fingerprint_of(self._spec)

    @property
    def dimensions(self) -> int | None:
        return self._dimensions

    @property
    def limits(self) -> InputLimits:
        return self._spec.limits

    def expect(self, dimensions: int | None) -> None:
        """Sets the length of the stored vectors of this host, before the first text: one odd answer must not discard
        them. A host that goes on sending another length has another model. None: no vectors are stored.
        """
        self._dimensions = self._spec.dimensions or dimensions

    async def embed_documents(self, texts: Sequence[str]) -> EmbeddedBatch:
        return await self._embed(texts, "document")

    async def embed_query(self, text: str) -> Vector:
        batch = await self._embed([text], "query")
        (item,) = batch.items
        if isinstance(item, ItemError):
            raise ProviderBadResponseError(f"{self._spec.place}: {item.message}")
        return item

    @property
    def is_prepared(self) -> bool:
        return True

    async def prepare(self) -> None:
        """Does nothing: the first request loads what it needs."""

    async def run(self) -> None:
        """Does nothing: no work runs beside the requests."""

    def report(self) -> None:
        """Returns None: there is nothing to report beyond what every provider reports."""

    async def aclose(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()

    async def _embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddedBatch:
        wire = await self._open()
        clean = [without_lone_surrogates(text) for text in texts]
        try:
            with expecting(len(clean)):
                reply = await wire.send(clean, purpose)
        except ProviderAuthError:
            self._refused = True
            raise
        if not reply.rows:
            raise ProviderBadResponseError(f"{self._spec.place} sent no embeddings at all.")
        items = await self._checked(reply, len(texts), self._dimensions)
        if self._spec.dimensions is None and _size(items) is None:
            others = await self._checked(reply, len(texts), None)
            size = _size(others)
            if self._has_changed(size):
                items = others
        else:
            self._others = (None, 0, 0.0)
        if self._dimensions is None:
            self._dimensions = _size(items)
        return EmbeddedBatch(items, reply.tokens)

    async def _checked(
        self, reply: Reply, expected: int, dimensions: int | None
    ) -> tuple[Vector | ItemError, ...]:
        return await run_sync(collect, reply.rows, expected, dimensions)

    def _has_changed(self, size: int | None) -> bool:
        """Returns whether the host's vectors have had this length so often that it replaces the learned one."""
        now = time.monotonic()
        before, times, since = self._others
        self._others = (size, times + 1, since) if size == before else (size, 1, now)
        _, times, since = self._others
        if size is None or times < _TIMES_TO_BELIEVE or now < since + _TIME_TO_BELIEVE_S:
            return False
        self._dimensions, self._others = size, (None, 0, 0.0)
        return True

    async def _open(self) -> Wire:
        async with self._opening:
            if self._refused:
                self._spec = await run_sync(self._renew)
                self._refused = False
                await self.aclose()
            if self._wire is None:
                # The import takes longer than the deadline of a request may leave.
                try:
                    self._wire = await run_sync(_open_wire, self._spec, abandon_on_cancel=True)
                except ImportError as error:
                    raise library_missing(self._spec.vendor, error.name or "") from None
            return self._wire


def _open_wire(spec: RemoteSpec) -> Wire:
    from providers.remote.wires import Wire  # noqa: PLC0415 - the HTTP client

    return Wire(spec)


def _size(items: Sequence[Vector | ItemError]) -> int | None:
    """Returns the length of the vectors among these; None: there are none."""
    return next((len(item) for item in items if not isinstance(item, ItemError)), None)
