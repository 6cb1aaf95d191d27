"""The lanes of the worker: one for documents and one for queries, beside each other.

A query never waits for documents. Documents are computed by as many threads as the engine allows, and by one while
queries come.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from providers.local.worker import Computed, Embed, Failed, Lane, Reply

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HARMLESS: Final = "where did we put the key of the garden shed in the autumn"
_QUIET_S: Final = 2.0
"""The time after a query in which documents leave the other processors to searches."""
_NICENESS: Final = 10
_INTERNAL_FAULT: Final = 70
_OUT_OF_MEMORY: Final = 71


class EngineError(Exception):
    """The engine refused something; the process can go on."""


class Text(NamedTuple):
    """The tokens that the model reads of one text."""

    tokens: Sequence[int]
    is_cut: bool


class LoadedEngine(Protocol):
    """A loaded model. It raises EngineError, or MemoryError, after which the worker ends."""

    width: int
    document_threads: int
    """The most computations of documents at once, beside one of a query."""

    def read(self, text: str) -> Text:
        """Returns the tokens of a text, as far as the model can read."""

    def batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yields the positions of texts that are computed together, by their lengths in tokens."""

    def embed(self, lane: Lane, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Returns one row for each text, of length (L2 norm) 1, or all zeros if it has no direction."""

    def settle(self, tokens: Sequence[int]) -> None:
        """Tunes the engine to this machine by measurements with a harmless text."""


def processors() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    sound = np.isfinite(lengths) & (lengths > 0)
    return np.where(sound, wide / np.where(sound, lengths, 1), 0).astype(np.float32)


class _Request:
    """A request under way, and the number of its batches that are not computed yet."""

    def __init__(self, message: Embed, texts: dict[int, Text], batches: int) -> None:
        self.message = message
        self.texts = texts
        self.left = batches


class _Batch(NamedTuple):
    request: _Request
    positions: list[int]


class WorkerLanes:
    def __init__(self, engine: LoadedEngine, send: Callable[[Reply], None]) -> None:
        self._engine = engine
        self._send = send
        self._changing = threading.Lock()
        self._wanted: set[int] = set()
        self._last_query = -_QUIET_S
        self._requests: dict[Lane, queue.SimpleQueue[Embed]] = {
            "document": queue.SimpleQueue(),
            "query": queue.SimpleQueue(),
        }
        self._batches: queue.Queue[_Batch] = queue.Queue(2 * engine.document_threads)

    def warm_up(self) -> None:
        """Computes a harmless text in each lane, so that a model that crashes does so at once. Raises EngineError."""
        tokens = self._engine.read(_HARMLESS).tokens
        for lane in self._requests:
            if not self._engine.embed(lane, [tokens]).any():
                raise EngineError("the model's vectors are not finite, or zero")
        self._engine.settle(tokens)

    def start(self) -> None:
        self._spawn(self._answer_queries, "query")
        self._spawn(self._divide_documents, "documents")
        for number in range(self._engine.document_threads):
            self._spawn(partial(self._compute_documents, number), f"document {number}")

    def put(self, request: Embed) -> None:
        if request.lane == "query":
            self._last_query = time.monotonic()
        with self._changing:
            self._wanted.add(request.number)
        self._requests[request.lane].put(request)

    def cancel(self, number: int) -> None:
        with self._changing:
            self._wanted.discard(number)

    def _answer_queries(self) -> None:
        while True:
            for batch in self._divided(self._requests["query"].get()):
                self._compute(batch)

    def _divide_documents(self) -> None:
        """Tokenizes ahead of the threads that compute, by a few batches."""
        while True:
            for batch in self._divided(self._requests["document"].get()):
                self._batches.put(batch)

    def _compute_documents(self, number: int) -> None:
        with suppress(OSError):  # where threads have no priority of their own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while True:
            while number and (left := self._last_query + _QUIET_S - time.monotonic()) > 0:
                time.sleep(left)
            self._compute(self._batches.get())

    def _divided(self, message: Embed) -> Iterator[_Batch]:
        """Divides a request into batches. Texts that have no tokens are refused here and left out."""
        texts = self._read(message)
        readable = list(texts)
        batches = list(self._engine.batches([len(texts[at].tokens) for at in readable]))
        request = _Request(message, texts, len(batches))
        for batch in batches:
            yield _Batch(request, [readable[at] for at in batch])

    def _read(self, message: Embed) -> dict[int, Text]:
        found = {}
        for position, text in enumerate(message.texts):
            if not self._is_wanted(message):
                break
            try:
                found[position] = self._engine.read(text)
            except EngineError as error:
                self._send(Failed(message.number, [position], str(error)))
        return found

    def _compute(self, batch: _Batch) -> None:
        request, positions = batch
        message = request.message
        if self._is_wanted(message):
            self._send(self._computed(message, positions, [request.texts[at] for at in positions]))
        with self._changing:
            request.left -= 1
            if not request.left:
                self._wanted.discard(message.number)

    def _is_wanted(self, message: Embed) -> bool:
        with self._changing:
            return message.number in self._wanted

    def _computed(self, message: Embed, positions: list[int], texts: list[Text]) -> Reply:
        try:
            rows = self._engine.embed(message.lane, [text.tokens for text in texts])
        except EngineError as error:
            return Failed(message.number, positions, str(error))
        return Computed(
            number=message.number,
            positions=positions,
            vectors=rows.astype("<f4").tobytes(),
            tokens=sum(len(text.tokens) for text in texts),
            cut=sum(text.is_cut for text in texts),
        )

    def _spawn(self, work: Callable[[], None], name: str) -> None:
        threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True).start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except MemoryError:
            # The memory that this process frees may be enough for the next one.
            os.write(2, b"out of memory\n")
            os._exit(_OUT_OF_MEMORY)
        except BaseException:  # noqa: BLE001 - a worker with one lane would never answer the other
            traceback.print_exc(file=sys.stderr)
            os._exit(_INTERNAL_FAULT)
