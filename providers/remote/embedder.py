"""An embedder over one vendor's wire: opened late; what comes back is decoded, checked, normalised and ordered."""

from __future__ import annotations

import base64
import binascii
import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread
import msgspec
import numpy as np

from config.errors import ErrorKind
from providers.errors import ProviderAuthError, ProviderBadResponseError, ProviderUnavailableError
from providers.installing import install_remedy
from providers.interface import (
    EmbeddedBatch,
    Fingerprint,
    InputLimits,
    ItemError,
    Purpose,
    Vector,
    digest_headers,
    without_lone_surrogates,
)
from providers.remote import keys
from providers.remote.spec import RemoteSpec
from providers.remote.vendors import Vendor


class Reply(msgspec.Struct, frozen=True):
    """A host's answer, not yet validated."""

    rows: list[tuple[int | None, object]]
    """One embedding as it came: its index, if the host sent one, and floats or a base64 string."""
    tokens: int = 0


class Wire(Protocol):
    """One vendor's wire format, spoken through its own library."""

    async def send(self, texts: Sequence[str], purpose: Purpose) -> Reply: ...

    async def aclose(self) -> None: ...


def fingerprint_of(spec: RemoteSpec) -> Fingerprint:
    """What decides which vectors a provider gives: the same for requests and for batch jobs."""
    prompt = spec.prompt("document")
    return Fingerprint(
        provider=spec.vendor.name,
        model=spec.model,
        endpoint=spec.endpoint.base_url,
        headers=digest_headers(keys.without_secrets(spec.headers)),
        dimensions=spec.dimensions,
        input_type=spec.input_type("document"),
        variant=(prompt,) if prompt else (),
    )


class RemoteEmbedder:
    """Implements `providers.interface.Embedder`.

    `renew` builds the spec afresh; it is asked after the host refused the key, so that a key that was
    replaced in the auth profiles is taken up without a restart.
    """

    def __init__(self, spec: RemoteSpec, renew: Callable[[], RemoteSpec]) -> None:
        self._spec = spec
        self._renew = renew
        self._refused = False
        self._wire: Wire | None = None
        self._opening = anyio.Lock()
        self._dimensions = spec.dimensions

    @property
    def fingerprint(self) -> Fingerprint:
        return fingerprint_of(self._spec)

    @property
    def dimensions(self) -> int | None:
        return self._dimensions

    @property
    def limits(self) -> InputLimits:
        return self._spec.limits

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
        """The first request brings all that it needs."""

    async def run(self) -> None:
        """Nothing goes on beside the requests."""

    def report(self) -> None:
        """Nothing but what every provider tells."""

    async def aclose(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()

    async def _embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddedBatch:
        wire = await self._open()
        clean = [without_lone_surrogates(text) for text in texts]
        try:
            reply = await wire.send(clean, purpose)
        except ProviderAuthError:
            self._refused = True
            raise
        if not reply.rows:
            raise ProviderBadResponseError(f"{self._spec.place} sent no embeddings at all.")
        items = await anyio.to_thread.run_sync(
            partial(_validate, reply, len(texts), self._dimensions)
        )
        self._learn_dimensions(items)
        return EmbeddedBatch(items, reply.tokens)

    def _learn_dimensions(self, items: Sequence[Vector | ItemError]) -> None:
        if self._dimensions is None:
            sizes = (item.size for item in items if not isinstance(item, ItemError))
            self._dimensions = next(sizes, None)

    async def _open(self) -> Wire:
        async with self._opening:
            if self._refused:
                await self.aclose()
                self._spec = await anyio.to_thread.run_sync(self._renew)
                self._refused = False
            if self._wire is None:
                # Importing a library takes up to a second, which a query may not have.
                self._wire = await anyio.to_thread.run_sync(
                    open_wire, self._spec, abandon_on_cancel=True
                )
            return self._wire


def open_wire(spec: RemoteSpec) -> Wire:
    """Imports the module of the wire and its library. Raises `ProviderUnavailableError` without them."""
    module = f"providers.remote.{spec.vendor.wire}"
    try:
        opened: Wire = importlib.import_module(module).open_wire(spec)
    except ImportError as error:
        raise library_missing(spec.vendor, error.name or "") from None
    return opened


def library_missing(vendor: Vendor, module: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"{vendor.label} embeddings are not installed ({module} is missing).",
        remedy=install_remedy(vendor.wire),
    )


def _validate(
    reply: Reply, expected: int, dimensions: int | None
) -> tuple[Vector | ItemError, ...]:

    return collect(reply.rows, expected, dimensions)


Row = tuple[int | None, object]
"""One embedding as it came: its index, if the host sent one, and floats or a base64 string."""


def decode(raw: object) -> Vector | None:
    """Floats, or base64 of little-endian float32, as a float32 array; None if it is neither."""
    try:
        if isinstance(raw, str):
            return np.frombuffer(base64.b64decode(raw, validate=True), dtype="<f4")
        if isinstance(raw, list) and all(type(value) in (float, int) for value in raw):
            return np.array(raw, dtype=np.float64).astype(np.float32)
    except (binascii.Error, ValueError, OverflowError):
        return None
    return None


def normalise(vector: Vector) -> Vector | None:
    """The vector scaled to length 1, or None if it has no direction (zero, not finite, empty)."""
    wide = vector.astype(np.float64)
    length = float(np.linalg.norm(wide))
    if not np.isfinite(length) or length <= 0.0:
        return None
    scaled: Vector = (wide / length).astype(np.float32)
    return scaled


def in_order(rows: Sequence[Row], expected: int) -> list[object]:
    """The raw embeddings in the order of the request; None stands for what did not come.

    Indices decide when every row has its own. Without them (some hosts send none, or 0 for all) the
    order of the rows decides, if their number is right; otherwise nothing can be attributed.
    """
    indices = [index for index, _ in rows]
    own = all(index is not None and 0 <= index < expected for index in indices)
    if own and len(set(indices)) == len(rows):
        slots: list[object] = [None] * expected
        for index, raw in rows:
            slots[index or 0] = raw
        return slots
    return [raw for _, raw in rows] if len(rows) == expected else [None] * expected


def collect(
    rows: Sequence[Row], expected: int, dimensions: int | None
) -> tuple[Vector | ItemError, ...]:
    """One validated vector or error for each of the `expected` texts.

    `dimensions` is what every vector must have; None takes what most vectors of this answer have.
    """
    decoded = [decode(raw) for raw in in_order(rows, expected)]
    if dimensions is None:
        sizes = Counter(vector.size for vector in decoded if vector is not None and vector.size)
        dimensions = max(sizes, key=lambda size: sizes[size], default=0)
    return tuple(_checked(vector, dimensions) for vector in decoded)


def _checked(vector: Vector | None, dimensions: int) -> Vector | ItemError:
    if vector is None:
        return _fault("The host returned no vector for this text.")
    if vector.size != dimensions:
        return _fault(
            f"The host returned a vector of {vector.size} dimensions instead of {dimensions}."
        )
    unit = normalise(vector)
    if unit is None:
        return _fault("The host returned a vector that is zero or not finite.")
    return unit


def _fault(message: str) -> ItemError:
    return ItemError(kind=ErrorKind.PROVIDER_BAD_RESPONSE, message=message)
