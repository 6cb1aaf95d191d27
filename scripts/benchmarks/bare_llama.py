"""The yardstick for local embeddings: llama.cpp's own functions in a loop, and nothing around them.

    python -m benchmarks.bare_llama MODEL

Reads lists of texts from standard input, a JSON list a line; answers each line with the seconds taken.
One text a call, one thread, flash attention, as the worker does with texts of 400 tokens.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Sequence

import llama_cpp._utils as unused
import llama_cpp.llama_cpp as api
import numpy as np

_TOKENS = 512

for _file in (unused.outnull_file, unused.errnull_file):
    _file.close()  # opened with the library for a class that is not used here, and never closed by it


class BareLlama:
    """One model and one context, for one thread at a time."""

    def __init__(self, path: str) -> None:
        self._quiet = api.llama_log_callback(lambda *_: None)
        api.llama_log_set(self._quiet, None)
        api.llama_backend_init()
        self._model = api.llama_model_load_from_file(
            path.encode(), api.llama_model_default_params()
        )
        self._vocabulary = api.llama_model_get_vocab(self._model)
        self._width = api.llama_model_n_embd(self._model)
        settings = api.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = _TOKENS
        settings.n_threads = settings.n_threads_batch = 1
        settings.embeddings = settings.no_perf = True
        settings.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self._context = api.llama_init_from_model(self._model, settings)
        self._batch = api.llama_batch_init(_TOKENS, 0, 1)
        for at in range(_TOKENS):
            self._batch.pos[at] = at
            self._batch.n_seq_id[at] = 1
            self._batch.seq_id[at][0] = 0
            self._batch.logits[at] = 1

    def tokens(self, text: str) -> list[int]:
        data = text.encode()
        room = (ctypes.c_int32 * (len(data) + 2))()
        count = api.llama_tokenize(self._vocabulary, data, len(data), room, len(room), True, False)
        found: list[int] = room[: min(_TOKENS, count)]
        return found

    def embed(self, tokens: Sequence[int]) -> np.ndarray:
        """A vector of length 1. At most 512 tokens."""
        count = self._batch.n_tokens = len(tokens)
        ctypes.memmove(self._batch.token, (ctypes.c_int32 * count)(*tokens), 4 * count)
        if api.llama_encode(self._context, self._batch):
            raise RuntimeError("llama.cpp refused a text")
        found = np.ctypeslib.as_array(
            api.llama_get_embeddings_seq(self._context, 0), (self._width,)
        )
        return found / np.linalg.norm(found)


def measure(bare: BareLlama, texts: Sequence[str]) -> float:
    started = time.perf_counter()
    for text in texts:
        bare.embed(bare.tokens(text))
    return time.perf_counter() - started


def main() -> None:
    bare = BareLlama(sys.argv[1])
    for line in sys.stdin:
        print(measure(bare, json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
