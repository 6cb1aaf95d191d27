"""The worker's two lanes: documents and queries, each with its own context and thread.

A query never waits for documents: it is computed beside them, from the same weights. Documents take
one processor; a query takes as many of the others as make it faster.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable

from providers.local.protocol import Computed, Embed, Failed, Lane, Reply
from providers.local.worker.engine import BATCH_TEXTS, Context, Engine, EngineError, Text, batches

_MOST_THREADS = 4
"""With more, the threads mostly wait for each other when a text is short."""
_HARMLESS = "where did we put the key of the garden shed in the autumn"
_MEASUREMENTS = 3
_INTERNAL_FAULT = 70


class Lanes:
    def __init__(self, engine: Engine, send: Callable[[Reply], None]) -> None:
        """Makes both contexts. Raises EngineError."""
        self._engine = engine
        self._send = send
        self._wanted: set[int] = set()
        self._processors = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        self._query_threads = self._processors
        self._computing_documents = False
        self._contexts: dict[Lane, Context] = {
            "document": engine.context(BATCH_TEXTS, 1),
            "query": engine.context(1, self._processors),
        }
        self._queues: dict[Lane, queue.SimpleQueue[Embed]] = {
            lane: queue.SimpleQueue() for lane in self._contexts
        }

    def warm_up(self) -> None:
        """Computes a harmless text in each lane, so that a model that crashes does so at once.

        This also measures how many threads answer a query fastest: with a small model, waking a second
        thread takes longer than it saves.
        """
        tokens = self._engine.read(_HARMLESS).tokens
        for context in self._contexts.values():
            if not context.embed([tokens]).any():
                raise EngineError("the model's vectors are not finite, or zero")
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
                found[position] = self._engine.read(text)
            except EngineError as error:
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
        except EngineError as error:
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
