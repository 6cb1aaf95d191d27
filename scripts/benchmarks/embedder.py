"""What the benchmarks want of an embedding model, in types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Shape (texts, dimensions); each row has length (L2 norm) 1."""


class Embedder(Protocol):
    """A model that runs in this process. May be called by several threads at once."""

    @property
    def name(self) -> str:
        """What clients ask for."""
        ...

    @property
    def identity(self) -> str:
        """Changes whenever the vectors may change: the name and every setting that matters."""
        ...

    @property
    def dimensions(self) -> int: ...

    def tokens(self, text: str) -> int:
        """How much of the text is read; at least 1."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...
