"""llama.cpp as this worker uses it: one model, a lane for documents and one for queries, and which texts go together.

Each lane has its own context and thread. A query never waits for documents: it is computed beside them, from
the same weights. Documents take one processor; a query takes as many of the others as make it faster.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from providers.local.protocol import Computed, Embed, Failed, Lane, Open, Reply

if TYPE_CHECKING:
    from numpy.typing import NDArray


BATCH_TOKENS: Final = 512
"""Measured on BERT models: with 2,048 a 400-token text takes one and a half times as long."""
BATCH_TEXTS: Final = 32
"""llama.cpp sets memory aside for each, up to a megabyte where the vocabulary is large."""


def cut(tokens: list[int], max_tokens: int, *, closing: bool) -> list[int]:
    """The tokens up to the model's limit. A token that closes the text is kept at the end."""
    if len(tokens) <= max_tokens:
        return tokens
    return [*tokens[: max_tokens - 1], tokens[-1]] if closing else tokens[:max_tokens]


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of the texts of each batch, in order. A text above `BATCH_TOKENS` goes alone."""
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
_SPECIAL_TOKENS: Final = 8
"""More than any tokenizer puts around a text."""


class LlamaError(Exception):
    """llama.cpp refused something; the process can go on."""


class Text(NamedTuple):
    """What the model reads of one text."""

    tokens: list[int]
    is_cut: bool


class LoadedModel:
    """The library and one loaded model. Several contexts may compute at once in different threads."""

    def __init__(self, order: Open) -> None:
        """Raises LlamaError."""
        try:
            self.api: Any = importlib.import_module("llama_cpp.llama_cpp")
        except (ImportError, OSError, RuntimeError) as error:
            place = os.environ.get("LLAMA_CPP_LIB_PATH")
            where = f" from {place} (LLAMA_CPP_LIB_PATH)" if place else ""
            raise LlamaError(f"llama.cpp cannot be loaded{where}: {error}") from None
        self.order = order
        self._complaints: list[str] = []
        # Referenced here, because llama.cpp may call it as long as the process lives.
        self._log = self.api.llama_log_callback(self._listen)
        self.api.llama_log_set(self._log, None)
        self.api.llama_backend_init()
        settings = self.api.llama_model_default_params()
        self._handle = self.api.llama_model_load_from_file(order.path.encode(), settings)
        if not self._handle:
            raise LlamaError(self._complaint("the model cannot be loaded"))
        self._vocabulary = self.api.llama_model_get_vocab(self._handle)
        self.width: int = self.api.llama_model_n_embd_out(self._handle)

    def read(self, text: str) -> Text:
        """The tokens of a text, as far as the model can read. Raises LlamaError if it has none."""
        data = text.encode("utf-8", "replace")
        room = len(data) + _SPECIAL_TOKENS
        buffer = (ctypes.c_int32 * room)()
        count = self.api.llama_tokenize(
            self._vocabulary, data, len(data), buffer, room, True, False
        )
        if count <= 0:
            raise LlamaError("the text has no tokens")
        found = buffer[:count]
        closing = self.api.llama_vocab_is_control(self._vocabulary, found[-1])
        kept = cut(found, self.order.max_tokens, closing=closing)
        return Text(kept, is_cut=len(kept) < count)

    def context(self, texts: int, threads: int) -> Context:
        """Raises LlamaError. `texts` is the most that one computation will hold."""
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
            raise LlamaError(
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

    def __init__(self, model: LoadedModel, handle: Any) -> None:
        self._api = model.api
        self._handle = handle
        self._width = model.width
        self._kept = model.order.dimensions or model.width
        self._memory = self._api.llama_get_memory(handle)
        self._sequences = np.arange(BATCH_TEXTS, dtype=np.int32)

    def use_threads(self, count: int) -> None:
        self._api.llama_set_n_threads(self._handle, count, count)

    def embed(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """One row for each text, of length (L2 norm) 1, or all zeros where it has no direction.

        Raises LlamaError.
        """
        # Held in variables, because the batch only points to them.
        lengths = np.array([len(text) for text in texts])
        tokens = np.concatenate([np.array(text, np.int32) for text in texts])
        positions = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
        ones = np.ones(tokens.size, np.int32)
        wanted = np.ones(tokens.size, np.int8)
        owners = np.repeat(np.arange(len(texts)), lengths)
        sequences = (self._sequences.ctypes.data + 4 * owners).astype(np.uintp)
        self._compute(self._batch(tokens, positions, ones, sequences, wanted))
        return _normalised(np.stack([self._row(at) for at in range(len(texts))]))

    def _batch(self, *columns: NDArray[Any]) -> Any:
        kinds = dict(self._api.llama_batch._fields_)
        names = ("token", "pos", "n_seq_id", "seq_id", "logits")
        pointers = {
            name: ctypes.cast(column.ctypes.data, kinds[name])
            for name, column in zip(names, columns, strict=True)
        }
        return self._api.llama_batch(n_tokens=columns[0].size, **pointers)

    def _compute(self, batch: Any) -> None:
        if self._memory:
            self._api.llama_memory_clear(self._memory, True)
            code = self._api.llama_decode(self._handle, batch)
        else:
            code = self._api.llama_encode(self._handle, batch)
        if code != 0:
            raise LlamaError(f"llama.cpp refused the text (code {code})")

    def _row(self, sequence: int) -> NDArray[np.float32]:
        found = self._api.llama_get_embeddings_seq(self._handle, sequence)
        if not found:
            raise LlamaError("llama.cpp gave no embedding for the text")
        whole = np.ctypeslib.as_array(found, (self._width,))
        return whole[: self._kept].astype(np.float32)


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    sound = np.isfinite(lengths) & (lengths > 0)
    return np.where(sound, wide / np.where(sound, lengths, 1), 0).astype(np.float32)


_MOST_THREADS = 4
"""With more, the threads mostly wait for each other when a text is short."""
_HARMLESS = "where did we put the key of the garden shed in the autumn"
_MEASUREMENTS = 3
_INTERNAL_FAULT = 70


class Lanes:
    def __init__(self, model: LoadedModel, send: Callable[[Reply], None]) -> None:
        """Makes both contexts. Raises LlamaError."""
        self._model = model
        self._send = send
        self._wanted: set[int] = set()
        self._processors = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        self._query_threads = self._processors
        self._computing_documents = False
        self._contexts: dict[Lane, Context] = {
            "document": model.context(BATCH_TEXTS, 1),
            "query": model.context(1, self._processors),
        }
        self._queues: dict[Lane, queue.SimpleQueue[Embed]] = {
            lane: queue.SimpleQueue() for lane in self._contexts
        }

    def warm_up(self) -> None:
        """Computes a harmless text in each lane, so that a model that crashes does so at once.

        This also measures how many threads answer a query fastest: with a small model, waking a second
        thread takes longer than it saves.
        """
        tokens = self._model.read(_HARMLESS).tokens
        for context in self._contexts.values():
            if not context.embed([tokens]).any():
                raise LlamaError("the model's vectors are not finite, or zero")
        counts = {1, self._processors}
        self._query_threads = min(counts, key=lambda count: self._query_s(tokens, count))

    def _query_s(self, tokens: list[int], threads: int) -> float:
        """The shortest of some measurements, since other processes may be at work."""
        context = self._contexts["query"]
        context.use_threads(threads)
        measured = []
        for _ in range(_MEASUREMENTS):
            started = time.perf_counter()
            context.embed([tokens])
            measured.append(time.perf_counter() - started)
        return min(measured)

    def start(self) -> None:
        for lane in self._contexts:
            threading.Thread(target=self._work, args=(lane,), name=lane, daemon=True).start()

    def put(self, request: Embed) -> None:
        self._wanted.add(request.number)
        self._queues[request.lane].put(request)

    def cancel(self, number: int) -> None:
        self._wanted.discard(number)

    def _work(self, lane: Lane) -> None:
        try:
            while True:
                self._answer(self._queues[lane].get(), self._contexts[lane])
        except BaseException:  # noqa: BLE001 - a worker with one lane would never answer the other
            traceback.print_exc(file=sys.stderr)
            os._exit(_INTERNAL_FAULT)

    def _answer(self, request: Embed, context: Context) -> None:
        texts = self._read(request)
        readable = list(texts)
        for batch in batches([len(texts[at].tokens) for at in readable]):
            if request.number not in self._wanted:
                return
            positions = [readable[at] for at in batch]
            self._send(self._computed(request, positions, [texts[at] for at in positions], context))
        self._wanted.discard(request.number)

    def _read(self, request: Embed) -> dict[int, Text]:
        """The texts by position. Those that have no tokens are refused here and left out."""
        found = {}
        for position, text in enumerate(request.texts):
            try:
                found[position] = self._model.read(text)
            except LlamaError as error:
                self._send(Failed(request.number, [position], str(error)))
        return found

    def _computed(
        self, request: Embed, positions: list[int], texts: list[Text], context: Context
    ) -> Reply:
        documents = request.lane == "document"
        if documents:
            self._computing_documents = True
        else:
            free = self._processors - self._computing_documents
            context.use_threads(max(1, min(self._query_threads, free)))
        try:
            rows = context.embed([text.tokens for text in texts])
        except LlamaError as error:
            return Failed(request.number, positions, str(error))
        finally:
            if documents:
                self._computing_documents = False
        return Computed(
            number=request.number,
            positions=positions,
            vectors=rows.astype("<f4").tobytes(),
            tokens=sum(len(text.tokens) for text in texts),
            cut=sum(text.is_cut for text in texts),
        )
