"""all-MiniLM-L6-v2, a real embedding model of 384 dimensions, without torch.

Owns tokens and batches; `bert` computes, `minilm_files` brings the weights. Gives the vectors that
sentence-transformers gives (largest difference of a component: 3e-7).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from benchmarks.bert import Bert
from benchmarks.blas import use_one_thread
from benchmarks.embedder import Vectors
from benchmarks.minilm_files import minilm_files

_BATCH_TOKENS = 2048
_POSITIONS = 512
_USUAL = 256


class MiniLM:
    """Texts beyond `max_tokens` (special tokens included, at most 512) are cut.

    256 is what sentence-transformers does with this model, and llama.cpp 512. The first one in a checkout downloads the
    weights: see `minilm_files`.
    """

    dimensions = 384

    def __init__(self, max_tokens: int = _USUAL, directory: Path | None = None) -> None:
        if not 2 < max_tokens <= _POSITIONS:
            raise ValueError(f"max_tokens must be 3 to {_POSITIONS}, not {max_tokens}")
        directory = directory or minilm_files()
        use_one_thread()
        self.name = "all-minilm-l6-v2" if max_tokens == _USUAL else f"all-minilm-l6-v2-{max_tokens}"
        self.identity = f"all-minilm-l6-v2, {max_tokens} tokens"
        self._workers = os.cpu_count() or 1
        self._bert = Bert(directory / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)

    def tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def embed(self, texts: Sequence[str]) -> Vectors:
        sequences = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(sequences), self.dimensions), np.float32)
        batches = list(_batches(sequences))
        with ThreadPoolExecutor(self._workers) as pool:
            encoded = pool.map(lambda at: self._bert.encode([sequences[i] for i in at]), batches)
            for at, rows in zip(batches, encoded, strict=True):
                vectors[at] = rows
        return vectors


def _batches(sequences: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions of the sequences, long ones first so that the cores finish together."""
    batch: list[int] = []
    room = _BATCH_TOKENS
    for at in sorted(range(len(sequences)), key=lambda at: -len(sequences[at])):
        if batch and len(sequences[at]) > room:
            yield batch
            batch, room = [], _BATCH_TOKENS
        batch.append(at)
        room -= len(sequences[at])
    if batch:
        yield batch
