"""all-MiniLM-L6-v2, a real embedding model of 384 dimensions, computed in float32 by ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchmarks.hash_embedder import Vectors
from benchmarks.minilm_onnx import minilm_onnx
from providers.local.model import Wishes, read_model

if TYPE_CHECKING:
    from providers.local.worker.onnx import OnnxModel

_POSITIONS = 512
_USUAL = 256


class MiniLM:
    """The model, which cuts texts after `max_tokens` (special tokens included, at most 512).

    sentence-transformers cuts them after 256 with this model, which has 512 positions. The first use in a
    checkout downloads the weights: see `minilm_onnx`.
    """

    dimensions = 384

    def __init__(self, max_tokens: int = _USUAL) -> None:
        if not 2 < max_tokens <= _POSITIONS:
            raise ValueError(f"max_tokens must be 3 to {_POSITIONS}, not {max_tokens}")
        self.name = "all-minilm-l6-v2" if max_tokens == _USUAL else f"all-minilm-l6-v2-{max_tokens}"
        self.identity = f"all-minilm-l6-v2, float32 by ONNX Runtime, {max_tokens} tokens"
        self._engine = _engine(max_tokens)

    def tokens(self, text: str) -> int:
        return len(self._engine.read(text).tokens)

    def embed(self, texts: Sequence[str]) -> Vectors:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            rows = list(pool.map(self._embed, texts))
        return np.array(rows, np.float32).reshape(-1, self.dimensions)

    def _embed(self, text: str) -> Vectors:
        return self._engine.embed("document", [self._engine.read(text).tokens])[0]


def _engine(max_tokens: int) -> OnnxModel:
    from providers.local.worker.onnx import OnnxModel

    order = read_model(minilm_onnx(), Wishes()).order
    return OnnxModel(msgspec.structs.replace(order, max_tokens=max_tokens))
