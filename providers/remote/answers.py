"""From a host's answer to validated vectors: how much it may hold, decoded, checked, normalised, ordered."""

from __future__ import annotations

import base64
import binascii
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import msgspec

from config.errors import ErrorKind
from providers.provider_interface import (
    ItemError,
    Vector,
)

MOST_DIMENSIONS: Final = 16_384
"""Several times what any model gives."""
OTHER_VALUES: Final = 100_000
"""What an answer may hold beside its vectors, such as a list of jobs."""

_texts: ContextVar[int] = ContextVar("texts in the request", default=0)

Row = tuple[int | None, object]
"""One embedding as it came: its index, if the host sent one, and floats or a base64 string."""


class Reply(msgspec.Struct, frozen=True):
    """A host's answer, not yet validated."""

    rows: Sequence[Row]
    tokens: int = 0


@contextmanager
def embedding(texts: int) -> Iterator[None]:
    """Within it, answers may hold the vectors of so many texts."""
    token = _texts.set(texts)
    try:
        yield
    finally:
        _texts.reset(token)


def most_values() -> int:
    """How many values the answer to a request of this task may hold."""
    return _texts.get() * MOST_DIMENSIONS + OTHER_VALUES


def values_in(data: bytes) -> int:
    """No fewer than the values that JSON with these bytes has: each begins an array or an object, or follows a comma.

    They are counted before parsing: a megabyte of `{},` takes fifty in memory afterwards.
    """
    return data.count(b",") + data.count(b"[") + data.count(b"{")


_NUMBERS: Final = frozenset({float, int})


def decode(raw: object) -> Vector | None:
    """Floats, or base64 of float32 in the order of x86 and ARM, as they are; None if it is neither."""
    try:
        if isinstance(raw, str):
            return array("f", base64.b64decode(raw, validate=True))
        if isinstance(raw, list) and _NUMBERS.issuperset(map(type, raw)):
            return array("f", raw)
    except (binascii.Error, ValueError, OverflowError):
        return None
    return None


def normalise(vector: Vector) -> Vector | None:
    """The vector scaled to length 1, or None if it has no direction (zero, not finite, empty)."""
    length = math.hypot(*vector)
    if not 0.0 < length < math.inf:
        return None
    return array("f", [number / length for number in vector])


def _normalise_by_numpy() -> Callable[[Vector], Vector | None]:
    """`normalise` in a fifth of the time, for who has so many that loading numpy pays."""
    import numpy as np  # noqa: PLC0415 - never for the one vector of a query

    def normalise_one(vector: Vector) -> Vector | None:
        wide = np.frombuffer(vector, np.float32).astype(np.float64)
        length = float(np.linalg.norm(wide))
        if not 0.0 < length < math.inf:
            return None
        return array("f", (wide / length).astype(np.float32).tobytes())

    return normalise_one


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
        sizes = Counter(len(vector) for vector in decoded if vector)
        dimensions = max(sizes, key=lambda size: sizes[size], default=0)
    scale = normalise if expected == 1 else _normalise_by_numpy()
    return tuple(_checked(vector, dimensions, scale) for vector in decoded)


def _checked(
    vector: Vector | None, dimensions: int, scale: Callable[[Vector], Vector | None]
) -> Vector | ItemError:
    if vector is None:
        return _fault("The host returned no vector for this text.")
    if len(vector) != dimensions:
        return _fault(
            f"The host returned a vector of {len(vector)} dimensions instead of {dimensions}."
        )
    unit = scale(vector)
    if unit is None:
        return _fault("The host returned a vector that is zero or not finite.")
    return unit


def _fault(message: str) -> ItemError:
    return ItemError(kind=ErrorKind.PROVIDER_BAD_RESPONSE, message=message)
