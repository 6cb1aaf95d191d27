"""The yardstick for local embeddings: ONNX Runtime's own functions in a loop of one thread, and nothing around them.

    python -m benchmarks.bare_onnx MODEL

Reads lists of texts from standard input, a JSON list a line; answers each line with the seconds taken.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

_TOKENS = 512


class BareOnnx:
    def __init__(self, path: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(path.parent / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])

    def embed(self, text: str) -> np.ndarray:
        """A vector of length 1."""
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        (rows,) = self._session.run(None, feed)
        whole = rows[0].mean(axis=0)
        return whole / np.linalg.norm(whole)


def measure(bare: BareOnnx, texts: Sequence[str]) -> float:
    started = time.perf_counter()
    for text in texts:
        bare.embed(text)
    return time.perf_counter() - started


def main() -> None:
    bare = BareOnnx(Path(sys.argv[1]))
    for line in sys.stdin:
        print(measure(bare, json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
