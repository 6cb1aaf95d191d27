"""Types that several threads may decode into."""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")

_prepared: set[object] = set()
_lock = threading.Lock()


def prepared(kind: type[T]) -> type[T]:
    """Returns the type itself, once msgspec knows it.

    msgspec learns a type at its first use, and shows other threads what it has learnt before that is complete: a thread
    that decodes into the type at that moment ends the process by SIGSEGV (msgspec 0.22, `StructInfo_Convert`).
    """
    if kind not in _prepared:
        with _lock:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)
    return kind
