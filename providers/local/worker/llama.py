"""llama.cpp as this worker uses it: one model, a context for documents and one for queries, and batches of texts.

Documents take one processor; a query takes as many of the others as make it faster.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from providers.local.worker import Lane, Open
from providers.local.worker.lanes import EngineError, Text, normalised, processors

if TYPE_CHECKING:
    from numpy.typing import NDArray


BATCH_TOKENS: Final = 512
"""The tokens of a batch. Measured on BERT models: with 2,048 a 400-token text takes one and a half times as long."""
BATCH_TEXTS: Final = 32
"""The texts of a batch. llama.cpp reserves memory for each, up to a megabyte if the vocabulary is large."""


def cut(tokens: list[int], max_tokens: int, *, closing: bool) -> list[int]:
    """Returns the tokens up to the model's limit. A token that closes the text is kept at the end."""
    if len(tokens) <= max_tokens:
        return tokens
    return [*tokens[: max_tokens - 1], tokens[-1]] if closing else tokens[:max_tokens]


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields the positions of the texts of each batch, in order. A text above `BATCH_TOKENS` is a batch of its own."""
    batch: list[int] = []
    tokens = 0
    for position, length in enumerate(lengths):
        if batch and (tokens + length > BATCH_TOKENS or len(batch) == BATCH_TEXTS):
            yield batch
            batch, tokens = [], 0
        batch.append(position)
        tokens += length
    if batch:
        yield batch


_ERROR_LEVEL: Final = 4
"""GGML_LOG_LEVEL_ERROR of ggml.h; other numbers are in use elsewhere."""
_LAST_COMPLAINTS: Final = 4
_MOST_THREADS: Final = 4
"""With more, the threads mostly wait for each other when a text is short."""
_MEASUREMENTS: Final = 3
_SPECIAL_TOKENS: Final = 8
"""More than any tokenizer puts around a text."""


class LoadedModel:
    """The library and one loaded model. Several contexts may compute at once in different threads."""

    def __init__(self, order: Open) -> None:
        """Raises EngineError."""
        try:
            self.api: Any = importlib.import_module("llama_cpp.llama_cpp")
        except (ImportError, OSError, RuntimeError) as error:
            place = os.environ.get("LLAMA_CPP_LIB_PATH")
            where = f" from {place} (LLAMA_CPP_LIB_PATH)" if place else ""
            raise EngineError(f"llama.cpp cannot be loaded{where}: {error}") from None
        self.order = order
        self._complaints: list[str] = []
        # Referenced here, because llama.cpp may call it as long as the process lives.
        self._log = self.api.llama_log_callback(self._listen)
        self.api.llama_log_set(self._log, None)
        self.api.llama_backend_init()
        settings = self.api.llama_model_default_params()
        self._handle = self.api.llama_model_load_from_file(order.path.encode(), settings)
        if not self._handle:
            raise EngineError(self._complaint("the model cannot be loaded"))
        self._vocabulary = self.api.llama_model_get_vocab(self._handle)
        self.width: int = self.api.llama_model_n_embd_out(self._handle)

    def read(self, text: str) -> Text:
        """Returns the tokens of a text, as far as the model can read. Raises EngineError if it has none."""
        data = text.encode("utf-8", "replace")
        room = len(data) + _SPECIAL_TOKENS
        buffer = (ctypes.c_int32 * room)()
        count = self.api.llama_tokenize(
            self._vocabulary, data, len(data), buffer, room, True, False
        )
        if count <= 0:
            raise EngineError("the text has no tokens")
        found = buffer[:count]
        closing = self.api.llama_vocab_is_control(self._vocabulary, found[-1])
        kept = cut(found, self.order.max_tokens, closing=closing)
        return Text(kept, is_cut=len(kept) < count)

    def context(self, texts: int, threads: int) -> Context:
        """Makes a context for computations of at most `texts` texts. Raises EngineError."""
        settings = self.api.llama_context_default_params()
        size = max(self.order.max_tokens, BATCH_TOKENS)
        settings.n_ctx = settings.n_batch = settings.n_ubatch = size
        settings.n_seq_max = texts
        settings.kv_unified = True
        settings.embeddings = True
        settings.pooling_type = self.order.pooling
        settings.flash_attn_type = self.api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        settings.n_threads = settings.n_threads_batch = threads
        settings.no_perf = True
        handle = self.api.llama_init_from_model(self._handle, settings)
        if not handle:
            raise EngineError(
                self._complaint("there is not enough memory to compute with the model")
            )
        return Context(self, handle)

    def _listen(self, level: int, text: bytes, _data: object) -> None:
        if level == _ERROR_LEVEL:
            self._complaints.append(text.decode("utf-8", "replace").strip())

    def _complaint(self, otherwise: str) -> str:
        return "; ".join(self._complaints[-_LAST_COMPLAINTS:]) or otherwise


class Context:
    """Room for one computation at a time; belongs to one thread at a time."""

    def __init__(self, model: LoadedModel, handle: object) -> None:
        self._api = model.api
        self._handle = handle
        self._width = model.width
        self._kept = model.order.dimensions or model.width
        self._memory = self._api.llama_get_memory(handle)
        self._sequences = np.arange(BATCH_TEXTS, dtype=np.int32)

    def use_threads(self, count: int) -> None:
        self._api.llama_set_n_threads(self._handle, count, count)

    def embed(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Returns one row for each text, of length (L2 norm) 1, or all zeros if it has no direction.

        Raises EngineError.
        """
        # Kept in variables, because the batch only points to them.
        lengths = np.array([len(text) for text in texts])
        tokens = np.concatenate([np.array(text, np.int32) for text in texts])
        positions = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
        ones = np.ones(tokens.size, np.int32)
        wanted = np.ones(tokens.size, np.int8)
        owners = np.repeat(np.arange(len(texts)), lengths)
        sequences = (self._sequences.ctypes.data + 4 * owners).astype(np.uintp)
        self._compute(self._batch(tokens, positions, ones, sequences, wanted))
        return normalised(np.stack([self._row(at) for at in range(len(texts))]))

    def _batch(self, *columns: NDArray[Any]) -> object:
        kinds = dict(self._api.llama_batch._fields_)
        names = ("token", "pos", "n_seq_id", "seq_id", "logits")
        pointers = {
            name: ctypes.cast(column.ctypes.data, kinds[name])
            for name, column in zip(names, columns, strict=True)
        }
        return self._api.llama_batch(n_tokens=columns[0].size, **pointers)

    def _compute(self, batch: object) -> None:
        if self._memory:
            self._api.llama_memory_clear(self._memory, True)
            code = self._api.llama_decode(self._handle, batch)
        else:
            code = self._api.llama_encode(self._handle, batch)
        if code != 0:
            raise EngineError(f"llama.cpp refused the text (code {code})")

    def _row(self, sequence: int) -> NDArray[np.float32]:
        found = self._api.llama_get_embeddings_seq(self._handle, sequence)
        if not found:
            raise EngineError("llama.cpp gave no embedding for the text")
        whole = np.ctypeslib.as_array(found, (self._width,))
        return whole[: self._kept].astype(np.float32)


class LlamaEngine:
    """Implements `lanes.LoadedEngine`."""

    document_threads = 1

    def __init__(self, order: Open) -> None:
        """Raises EngineError."""
        self._model = model = LoadedModel(order)
        self.width = model.width
        self._processors = min(_MOST_THREADS, processors())
        self._query_threads = self._processors
        self._computing_documents = False
        self._documents = model.context(BATCH_TEXTS, 1)
        self._query = model.context(1, self._processors)

    def read(self, text: str) -> Text:
        return self._model.read(text)

    def batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        return batches(lengths)

    def embed(self, lane: Lane, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        if lane == "query":
            free = self._processors - self._computing_documents
            self._query.use_threads(max(1, min(self._query_threads, free)))
            return self._query.embed(texts)
        self._computing_documents = True
        try:
            return self._documents.embed(texts)
        finally:
            self._computing_documents = False

    def settle(self, tokens: Sequence[int]) -> None:
        """Finds the number of threads that answers a query fastest: with a small model a second one may cost more."""
        counts = {1, self._processors}
        self._query_threads = min(counts, key=lambda count: self._query_s(tokens, count))

    def _query_s(self, tokens: Sequence[int], threads: int) -> float:
        """Returns the shortest of some measurements, since other processes may be at work."""
        self._query.use_threads(threads)
        measured = []
        for _ in range(_MEASUREMENTS):
            started = time.perf_counter()
            self._query.embed([tokens])
            measured.append(time.perf_counter() - started)
        return min(measured)
