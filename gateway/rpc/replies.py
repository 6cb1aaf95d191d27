"""Where the answer to one message goes: straight out, or into its place in a batch. Pure.

Owns the rule that a batch is answered by one array, once its last member is. A slot takes one frame, or
None for a member that needs no answer after all, and returns the frame to write, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.rpc.encoding import encode_batch

ReplySlot = Callable[[bytes | None], bytes | None]


def alone(frame: bytes | None) -> bytes | None:
    """Answer a message that is not part of a batch."""
    return frame


class BatchReply:
    """Collects the answers of one batch, in the order of its members."""

    def __init__(self) -> None:
        self._frames: list[bytes | None] = []
        self._missing = 0

    def slot(self) -> ReplySlot:
        """Reserve the place of one member that must be answered. Reserve all before filling any."""
        self._frames.append(None)
        self._missing += 1
        return partial(self._fill, len(self._frames) - 1)

    def _fill(self, index: int, frame: bytes | None) -> bytes | None:
        self._frames[index] = frame
        self._missing -= 1
        if self._missing:
            return None
        frames = [frame for frame in self._frames if frame is not None]
        return encode_batch(frames) if frames else None
