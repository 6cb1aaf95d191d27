"""all-MiniLM-L6-v2, a real embedding model of 384 dimensions, computed by llama.cpp.

The tokens are those of the model's own tokenizer: llama.cpp does not take Hangul apart as it does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from benchmarks.embedder import Vectors
from benchmarks.minilm_gguf import minilm_files, minilm_gguf

if TYPE_CHECKING:
    from benchmarks.bare_llama import BareLlama

_POSITIONS = 512
_USUAL = 256


class MiniLM:
    """Texts beyond `max_tokens` (special tokens included, at most 512) are cut.

    256 is what sentence-transformers does with this model, and 512 what llama.cpp does. The first one
    in a checkout downloads the weights: see `minilm_gguf`.
    """

    dimensions = 384

    def __init__(self, max_tokens: int = _USUAL) -> None:
        if not 2 < max_tokens <= _POSITIONS:
            raise ValueError(f"max_tokens must be 3 to {_POSITIONS}, not {max_tokens}")
        from benchmarks.bare_llama import BareLlama

        self.name = "all-minilm-l6-v2" if max_tokens == _USUAL else f"all-minilm-l6-v2-{max_tokens}"
        self.identity = f"all-minilm-l6-v2, float16 by llama.cpp, {max_tokens} tokens"
        self._tokenizer = Tokenizer.from_file(str(minilm_files() / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        # One thread each: threads of llama.cpp wait by spinning, which other processes pay for.
        self._workers = os.cpu_count() or 1
        self._idle: SimpleQueue[BareLlama] = SimpleQueue()
        for _ in range(self._workers):
            self._idle.put(BareLlama(str(minilm_gguf())))

    def tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def embed(self, texts: Sequence[str]) -> Vectors:
        encodings = self._tokenizer.encode_batch(list(texts))
        with ThreadPoolExecutor(self._workers) as pool:
            rows = list(pool.map(self._embed, [one.ids for one in encodings]))
        return np.array(rows, np.float32).reshape(-1, self.dimensions)

    def _embed(self, tokens: Sequence[int]) -> Vectors:
        model = self._idle.get()
        try:
            return model.embed(tokens)
        finally:
            self._idle.put(model)
