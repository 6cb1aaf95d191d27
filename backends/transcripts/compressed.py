"""Entries of a transcript that the host stores compressed.

Owns the choice of the library and the bound on what an entry may become. The library is what Python has
from 3.14 on, or its backport, and is loaded with the first such entry.
"""

from __future__ import annotations

import sys
from typing import Final

_LARGEST_WINDOW_LOG: Final = 23
"""8 MiB, what the format wants every decoder to allow; no entry is longer."""


def decompressed(data: bytes, size: int) -> bytes | None:
    """The `size` bytes that a zstd frame holds; None where it holds more, less, or is broken.

    Allocates no more than `size`, whatever the frame claims.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - few transcripts need it
    else:
        from backports import zstd  # noqa: PLC0415

    options = {int(zstd.DecompressionParameter.window_log_max): _LARGEST_WINDOW_LOG}
    decompressor = zstd.ZstdDecompressor(options=options)
    try:
        text = decompressor.decompress(data, max_length=size + 1)
    except zstd.ZstdError:
        return None
    complete = len(text) == size and decompressor.eof and not decompressor.unused_data
    return text if complete else None
