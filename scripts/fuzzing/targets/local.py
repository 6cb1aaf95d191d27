"""What the local provider reads: the header of a model file, and the frames of its worker."""

from __future__ import annotations

from typing import Any

from fuzzing.places import place
from providers.errors import ProviderUnavailableError
from providers.local.model import Wishes, read_model
from providers.local.protocol import FrameReader, ProtocolError, Reply, Request


def gguf(data: bytes) -> None:
    """Any bytes behind the four that make it a model file."""
    path = place("gguf") / "model.gguf"
    path.write_bytes(b"GGUF" + data)
    try:
        model = read_model(path, Wishes())
    except ProviderUnavailableError as error:
        assert error.remedy
        return
    assert model.max_tokens > 0
    assert model.fingerprint


def frames(data: bytes) -> None:
    """Any bytes on the pipe, in either direction."""
    for kind in (Reply, Request):
        whole = _messages(kind, data, len(data) or 1)
        assert _messages(kind, data, 1 + len(data) % 7) == whole


def _messages(kind: Any, data: bytes, piece: int) -> list[Any]:
    reader, found = FrameReader(kind), []
    try:
        for start in range(0, len(data), piece):
            found += reader.feed(data[start : start + piece])
    except ProtocolError:
        return found
    return found
