"""The provider `local`: whether it can be used, making it, and embedding through the worker process.

`Supervisor` keeps the one worker at work: starts it on demand, restarts it after a crash, ends it when idle. It
remembers which texts of each call the worker has. When that dies, those texts are computed again, one by one, so that a
text that crashes it deprives no other of its vector.
"""

from __future__ import annotations

import os
import re
import signal
from array import array
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec
from anyio.abc import Process
from anyio.to_thread import run_sync

from config.errors import ErrorKind
from config.runtime.children import end_child, kill_group, resident_bytes, start_child
from config.runtime.logs import Log
from config.runtime.start import command_of
from config.runtime.tasks import Backoff, Wakeup, background_tasks
from config.runtime.worker import FrameReader, ProtocolError, frame
from providers.installing import install_remedy
from providers.local.model import Model, Wishes, read_model, shown
from providers.local.models import configured_models, locate, obtain, take
from providers.local.models.references import (
    LLAMA,
    FileReference,
    LocalEngine,
    engine_of,
    parse_reference,
)
from providers.local.worker import (
    Cancel,
    Computed,
    Embed,
    Failed,
    Lane,
    Open,
    Opened,
    Ping,
    Refused,
    Reply,
    Request,
)
from providers.provider_interface import (
    Download,
    EmbeddedBatch,
    Embedder,
    Fingerprint,
    InputLimits,
    ItemError,
    LocalModelState,
    LocalState,
    ProviderBadResponseError,
    ProviderCandidate,
    ProviderError,
    ProviderNotReadyError,
    ProviderRejectedError,
    ProviderRequest,
    ProviderTransientError,
    ProviderUnavailableError,
    Purpose,
    Vector,
    WorkerState,
    unusable,
    without_lone_surrogates,
)

_log = Log()

_LIMITS = InputLimits(
    # A longer text is cut by the worker, so none has to go alone.
    max_input_tokens=1 << 30,
    max_items=64,
    # Some seconds of work for a model of medium size, so that requests end within their time.
    max_request_tokens=4096,
    max_request_bytes=1 << 20,
)


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """The configuration of the local provider."""

    reference: str = field(repr=False)
    """A path, or the address of the model (`hf:` or http(s)), which may hold a secret."""
    name: str
    """The reference as it may be shown."""
    cache_dir: Path
    wishes: Wishes
    environment: Mapping[str, str] = field(repr=False)


class LocalEmbedder:
    """Implements `providers.provider_interface.Embedder`. Belongs to one event loop, except for `report`."""

    def __init__(self, spec: LocalSpec, *, patience: Patience | None = None) -> None:
        """Blocking: reads the header of the model file, if there is one, so that the fingerprint is known."""
        self._spec = spec
        self._supervisor = Supervisor(spec.environment, patience=patience)
        self._looking = anyio.Lock()
        self._fetching = False
        """True while a download is under way, or is being tried."""
        self._progress: tuple[int, int | None] | None = None
        self._model: Model | None = None
        self._doubtful = False
        """True if the file has to be read again, because the worker could not use it."""
        try:
            self._find()
        except ProviderError:
            self._model = None  # it is raised again when the model is needed

    @property
    def fingerprint(self) -> Fingerprint:
        """The model's fingerprint; without a model file, a placeholder that fits no vectors."""
        if self._model is not None:
            return self._model.fingerprint
        return Fingerprint(
            provider="local",
            model=self._spec.name,
            endpoint=engine_of(self._spec.reference).name,
            variant=("not there yet",),
        )

    @property
    def dimensions(self) -> int | None:
        """The length of the vectors, not taken from the model's files: a network may end in another width."""
        return self._spec.wishes.dimensions or self._supervisor.dimensions

    @property
    def limits(self) -> InputLimits:
        return _LIMITS

    @property
    def is_prepared(self) -> bool:
        model = self._model
        return model is not None and not self._doubtful and model.is_as_read

    async def prepare(self) -> None:
        """Gets the model file, by a download if need be. Raises `ProviderError`."""
        async with self._looking:
            if self.is_prepared:
                return
            spec = self._spec
            self._fetching = True
            try:
                path = await obtain(
                    spec.reference,
                    spec.cache_dir,
                    environment=spec.environment,
                    on_progress=self._note_progress,
                )
            finally:
                self._fetching, self._progress = False, None
            await run_sync(self._read, path)

    async def run(self) -> None:
        await self._supervisor.run()

    async def embed_documents(self, texts: Sequence[str]) -> EmbeddedBatch:
        return await self._embed("document", texts)

    async def embed_query(self, text: str) -> Vector:
        (item,) = (await self._embed("query", [text])).items
        if not isinstance(item, ItemError):
            return item
        if item.kind == ProviderBadResponseError.kind:
            raise ProviderBadResponseError(item.message)
        raise ProviderRejectedError(item.message)

    async def aclose(self) -> None:
        """Does nothing: the worker ends with `run`."""

    def report(self) -> LocalState:
        model, progress = self._model, self._progress
        return LocalState(
            reference=self._spec.name,
            worker=self._supervisor.state(),
            model=None if model is None else _describe(model, self.dimensions),
            download=progress and Download(bytes=progress[0], total_bytes=progress[1]),
        )

    async def _embed(self, purpose: Purpose, texts: Sequence[str]) -> EmbeddedBatch:
        while True:
            model = await self._usable()
            clean = [model.prompts.apply(purpose, without_lone_surrogates(text)) for text in texts]
            try:
                return await self._supervisor.embed(model.order, purpose, clean)
            except ModelReplacedError:
                continue
            except ProviderUnavailableError:
                self._doubtful = True
                raise

    async def _usable(self) -> Model:
        """Returns the model. Raises `ProviderError`, also if it would have to be downloaded first."""
        if not self.is_prepared and not self._fetching:
            async with self._looking:
                if not self.is_prepared:
                    await run_sync(self._find)
        if self._model is None:
            remedy = "A running gateway downloads it; so does `memory-gateway models pull`."
            raise ProviderNotReadyError(f"{self._missing()}.", remedy=remedy)
        return self._model

    def _missing(self) -> str:
        if self._progress is None:
            return f"The model {self._spec.name} is not there yet"
        done, total = self._progress
        share = f", {done / total:.0%} are there" if total else f", {done >> 20} MiB are there"
        return f"The model {self._spec.name} is being downloaded{share}"

    def _find(self) -> None:
        """Reads the file if it is on the disk. Raises `ProviderUnavailableError`."""
        path = take(self._spec.reference, self._spec.cache_dir)
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        self._model = read_model(path, self._spec.wishes, self._spec.reference)
        self._doubtful = False

    def _note_progress(self, done: int, total: int | None) -> None:
        self._progress = (done, total)


def _describe(model: Model, dimensions: int | None) -> LocalModelState:
    return LocalModelState(
        file=str(model.path),
        sha256=model.sha256,
        quantisation=model.quantisation,
        engine=model.engine,
        dimensions=dimensions or model.width,
        context_tokens=model.context_tokens,
        max_tokens=model.max_tokens,
        query_prompt=model.prompts.query,
        document_prompt=model.prompts.document,
    )


def assess(request: ProviderRequest) -> ProviderCandidate:
    models = configured_models(request.settings, os.environ)
    engine = engine_of(models.reference)
    if engine.missing is not None:
        return unusable("local", _not_installed(engine, engine.missing, models.reference))
    try:
        path = locate(models.reference, models.cache_dir)
    except ProviderError as error:
        return unusable("local", error)
    name = shown(models.reference)
    lacks = None
    if path is None:
        is_file = isinstance(parse_reference(models.reference), FileReference)
        lacks = f"The model {name} {'is not there' if is_file else 'is yet to be fetched'}."
    return ProviderCandidate(
        provider="local",
        usable=True,
        reason=lacks or f"The model is {path}.",
        model=name,
        lacks=lacks,
    )


def create(request: ProviderRequest) -> Embedder:
    search, primary = request.settings.search, request.role == "primary"
    wishes = Wishes(
        dimensions=search.output_dimensionality if primary else None,
        query_prompt=search.query_input_type if primary else None,
        document_prompt=search.document_input_type if primary else None,
        chunk_tokens=search.chunking.tokens,
    )
    models = configured_models(request.settings, os.environ)
    name = shown(models.reference)
    spec = LocalSpec(models.reference, name, models.cache_dir, wishes, models.environment)
    return LocalEmbedder(spec)


def _not_installed(engine: LocalEngine, module: str, reference: str) -> ProviderUnavailableError:
    if engine is not LLAMA:
        return ProviderUnavailableError(
            f"Local embeddings are not installed ({module} is missing).",
            remedy=install_remedy("local"),
        )
    return ProviderUnavailableError(
        f"The model {shown(reference)} is a GGUF file, which takes llama-cpp-python ({module} is missing).",
        remedy=f"{install_remedy('llama')}. Or take the model of `memory-gateway models suggest`, which needs no "
        "compiler: remove local.modelPath.",
    )


# --- The worker process ---------------------------------------------------------------------------

_NO_DIRECTION = ItemError(
    kind=ErrorKind.PROVIDER_BAD_RESPONSE,
    message="The model gave a vector that is zero or not finite.",
)


class ModelReplacedError(ProviderTransientError):
    """Another model replaced the one that these texts are for."""


class Job:
    """The texts of one call, with their prompts, and their results so far. Belongs to one event loop."""

    def __init__(self, lane: Lane, texts: Sequence[str]) -> None:
        self.lane = lane
        self.texts = tuple(texts)
        self.ended = anyio.Event()
        self.error: ProviderError | None = None
        self.cut = 0
        """The number of texts that were cut, because they were too long for the model."""
        self._tokens = 0
        self._items: dict[int, Vector | ItemError] = {}
        if not texts:
            self.ended.set()

    def accept(self, positions: Sequence[int], reply: Computed) -> None:
        """Takes the vectors of these texts."""
        self._tokens += reply.tokens
        self.cut += reply.cut
        size = len(reply.vectors) // max(1, len(positions))
        for place, position in enumerate(positions):
            vector = array("f", reply.vectors[place * size : (place + 1) * size])
            self._answer(position, vector if any(vector) else _NO_DIRECTION)

    def refuse(self, positions: Iterable[int], message: str) -> None:
        """Gives these texts an error instead of a vector."""
        fault = ItemError(kind=ErrorKind.PROVIDER_UNAVAILABLE, message=message)
        for position in positions:
            self._answer(position, fault)

    def _answer(self, position: int, item: Vector | ItemError) -> None:
        self._items[position] = item
        if len(self._items) == len(self.texts):
            self.ended.set()

    def fail(self, error: ProviderError) -> None:
        """Ends the job as a whole."""
        self.error = error
        self.ended.set()

    def missing(self, positions: Iterable[int]) -> list[int]:
        """Returns the positions among these that have no answer yet."""
        return [position for position in positions if position not in self._items]

    def result(self) -> EmbeddedBatch:
        """Returns the result of a job that has ended. Raises the `ProviderError` that it ended with."""
        if self.error is not None:
            raise self.error
        items = tuple(self._items[position] for position in range(len(self.texts)))
        return EmbeddedBatch(items, self._tokens)


_AHEAD: Final[dict[Lane, int]] = {"query": 4, "document": 2}
"""The most requests that the worker has at a time, so that it never waits for the next one."""


@dataclass(eq=False, slots=True)
class _Part:
    """Some texts of one job, as they go to the worker."""

    job: Job
    positions: Sequence[int]
    is_retry: bool = False
    """One text, which a worker had when it died: it is computed with nothing beside it."""


class WorkQueue:
    """The texts that wait for the worker, and those that it has. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Lane, deque[_Part]] = {"query": deque(), "document": deque()}
        self._sent: dict[int, _Part] = {}
        self._numbers = 0

    @property
    def is_empty(self) -> bool:
        return not self._sent and not any(self._waiting.values())

    def put(self, job: Job) -> None:
        if job.texts:
            self._waiting[job.lane].append(_Part(job, range(len(job.texts))))

    def next(self) -> Embed | None:
        """Returns the request to send now, if any. Queries come first."""
        if self._sent and any(part.is_retry for part in self._parts()):
            return None
        for lane, waiting in self._waiting.items():
            sent = sum(part.job.lane == lane for part in self._sent.values())
            if waiting and sent < _AHEAD[lane]:
                return self._send(waiting.popleft())
        return None

    def withdraw(self, job: Job) -> list[int]:
        """Forgets a job; returns the numbers under which the worker has parts of it."""
        waiting = self._waiting[job.lane]
        self._waiting[job.lane] = deque(part for part in waiting if part.job is not job)
        numbers = [number for number, part in self._sent.items() if part.job is job]
        for number in numbers:
            del self._sent[number]
        return numbers

    def accept(self, reply: Computed | Failed) -> None:
        """Takes an answer of the worker; one to a forgotten job is dropped."""
        part = self._sent.get(reply.number)
        if part is None:
            return
        positions = [part.positions[at] for at in reply.positions]
        if isinstance(reply, Computed):
            part.job.accept(positions, reply)
        else:
            part.job.refuse(positions, f"{reply.message}.")
        if not part.job.missing(part.positions):
            del self._sent[reply.number]

    def worker_died(self, cause: str) -> None:
        """Has each text without an answer computed once more, alone; one that was already alone is refused."""
        for part in self._take_back():
            missing = part.job.missing(part.positions)
            if part.is_retry:
                part.job.refuse(missing, f"The worker ended while it computed this text ({cause}).")
            else:
                retries = [_Part(part.job, [position], is_retry=True) for position in missing]
                self._waiting[part.job.lane].extendleft(reversed(retries))

    def worker_ended(self) -> None:
        """Puts the worker's texts back to wait, since we ended it ourselves."""
        for part in self._take_back():
            part.positions = part.job.missing(part.positions)
            self._waiting[part.job.lane].appendleft(part)

    def fail_all(self, error: ProviderError) -> None:
        """Ends every job."""
        for part in tuple(self._parts()):
            part.job.fail(error)
            self.withdraw(part.job)

    def _take_back(self) -> list[_Part]:
        """Returns the parts that the worker had, the newest first."""
        sent = list(self._sent.values())
        self._sent.clear()
        return sent[::-1]

    def _send(self, part: _Part) -> Embed:
        self._numbers += 1
        self._sent[self._numbers] = part
        texts = [part.job.texts[position] for position in part.positions]
        return Embed(self._numbers, part.job.lane, texts)

    def _parts(self) -> Iterator[_Part]:
        yield from self._sent.values()
        for waiting in self._waiting.values():
            yield from waiting


_PASSED = frozenset(
    "PATH HOME LANG TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH LLAMA_CPP_LIB_PATH "
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "
    "PYTHONPATH PYTHONHOME VIRTUAL_ENV".split()
)
_PASSED_PREFIXES = ("LC_", "GGML_", "OMP_", "KMP_", "GOMP_")
_OWN = {
    # Threads that spin while they wait make everything ten times slower beside other work.
    "OMP_WAIT_POLICY": "passive",
    # An abort would start a debugger on the dying process.
    "GGML_NO_BACKTRACE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def worker_variables(environment: Mapping[str, str]) -> dict[str, str]:
    passed = {
        name: value
        for name, value in environment.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }
    return {**passed, **_OWN}


COMMAND: Final = command_of("providers.local.worker")
_LAST_WORDS: Final = 4096
_REVEALING_WORDS: Final = re.compile(r"GGML_ASSERT\(.{1,160}\) failed|out of memory")
_REAP_S: Final = 5.0


class Worker:
    """Make it with `started`. Only one task sends at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reader = FrameReader(Reply)
        self._said = bytearray()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def open(self, order: Open, *, within_s: float) -> Opened:
        """Loads the model. Raises ProviderUnavailableError, also when the worker dies of it."""
        name = Path(order.path).name
        reply: Reply | None = None
        with anyio.move_on_after(within_s) as scope:
            await self.send(order)
            reply = next(iter(await self.receive()), None)
        match reply:
            case Opened():
                return reply
            case Refused(message):
                cause = message
            case _ if scope.cancelled_caught:
                cause = f"it was not loaded within {within_s:g} s"
            case _:
                cause = f"the worker ended while loading it ({await self.cause_of_death()})"
        raise ProviderUnavailableError(
            f"The model {name} cannot be used: {cause}.",
            remedy="Name another one in local.modelPath, or check that it is complete "
            "and that there is enough memory.",
        )

    async def send(self, message: Request) -> None:
        """Sends a message. Never fails: `receive` notices that the worker has ended."""
        assert self._process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.send(frame(message))

    async def receive(self) -> list[Reply]:
        """Returns the next replies; none when the worker has ended or sent something malformed."""
        assert self._process.stdout is not None
        try:
            while True:
                piece = await self._process.stdout.receive()
                if replies := list(self._reader.feed(piece)):
                    return replies
        except (ProtocolError, anyio.EndOfStream, anyio.BrokenResourceError):
            return []

    async def listen_to_errors(self) -> None:
        """Keeps the last part of what the engine writes to standard error."""
        assert self._process.stderr is not None
        async for piece in self._process.stderr:
            self._said += piece
            del self._said[:-_LAST_WORDS]

    def kill(self) -> None:
        kill_group(self._process)

    async def cause_of_death(self) -> str:
        """Returns `SIGABRT, GGML_ASSERT(...) failed`, or the exit status."""
        self.kill()  # changes nothing if it has ended already
        with anyio.move_on_after(_REAP_S):
            await self._process.wait()
        code = self._process.returncode
        how = f"exit {code}" if code is None or code >= 0 else _signal_name(-code)
        words = _REVEALING_WORDS.search(self._said.decode("utf-8", "replace"))
        return f"{how}, {words[0]}" if words else how


@asynccontextmanager
async def started(
    environment: Mapping[str, str], command: Sequence[str] = COMMAND
) -> AsyncIterator[Worker]:
    """Starts a worker that waits for its model, and is ended with the block. Raises ProviderTransientError."""
    try:
        # Elsewhere a module of the same name could be taken for ours.
        process = await start_child(command, worker_variables(environment), directory="/")
    except OSError as error:
        raise ProviderTransientError(
            f"The worker for local embeddings cannot be started: {error.strerror}."
        ) from None
    try:
        yield Worker(process)
    finally:
        await end_child(process)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """The time limits of the supervisor, in seconds."""

    idle_s: float = 300.0
    """The time for which a worker without work is kept."""
    open_s: float = 300.0
    """The time that a model may take to load, perhaps from a slow disk."""
    beat_s: float = 2.0
    """The time between two pings of a busy worker."""
    silence_s: float = 10.0
    """The time after which a worker that answers nothing is ended."""
    first_pause_s: float = 0.1
    """The pause before a restart; it doubles with each death until something is computed."""
    longest_pause_s: float = 30.0


class Supervisor:
    """Belongs to one event loop."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        patience: Patience | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._environment = environment
        self._command = command
        self._patience = patience = patience or Patience()
        self._queue = WorkQueue()
        self._order: Open | None = None
        self.dimensions: int | None = None
        """The length of the vectors of this order's model; None until it is loaded."""
        self._changed = Wakeup()
        self._cancelled: list[int] = []
        self._ping_due = False
        self._worker: Worker | None = None
        self._status: Literal["off", "loading", "running"] = "off"
        self._ending: str | None = None
        """The reason why we ended the worker, if we did."""
        self._silent_beats = 0
        first_s = patience.first_pause_s
        self._backoff = Backoff(first_s, 2 * first_s, patience.longest_pause_s)
        self._deaths = 0
        self._last_death: str | None = None
        self._cut = 0

    async def embed(self, order: Open, lane: Lane, texts: Sequence[str]) -> EmbeddedBatch:
        """Returns one item for each text; waits as long as that takes. Raises `ProviderError`.

        Vectors of two models are never in one answer: with another order, texts under way end with ModelReplacedError.
        """
        if self._order != order:
            self._order, self.dimensions = order, None
            self._queue.fail_all(ModelReplacedError("The model was replaced meanwhile."))
            self._end("its model was replaced")
        job = Job(lane, texts)
        self._queue.put(job)
        self._changed.fire()
        try:
            await job.ended.wait()
        finally:
            if not job.ended.is_set():
                self._cancelled += self._queue.withdraw(job)
                self._changed.fire()
        self._cut += job.cut
        return job.result()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            while self._queue.is_empty:
                await self._changed.wait()
            try:
                await self._run_worker()
            except ProviderError as error:
                # An error of a model that was replaced while it was loaded does not concern the next one.
                if self._ending is None:
                    self._queue.fail_all(error)
            await anyio.sleep(self.pause_s())

    def state(self) -> WorkerState:
        """May be called from any thread."""
        worker = self._worker
        return WorkerState(
            status=self._status,
            pid=worker.pid if worker else None,
            resident_bytes=resident_bytes(worker.pid) if worker else None,
            deaths=self._deaths,
            last_death=self._last_death,
            cut_texts=self._cut,
        )

    async def _run_worker(self) -> None:
        """Runs one worker from its start to its end. Raises `ProviderError` if it cannot be used."""
        assert self._order is not None
        self._ending, self._status = None, "loading"
        try:
            async with started(self._environment, self._command) as worker:
                self._worker = worker
                async with background_tasks() as tasks:
                    tasks.start_soon(worker.listen_to_errors)
                    opened = await worker.open(self._order, within_s=self._patience.open_s)
                    self.dimensions = opened.dimensions
                    self._status, self._silent_beats = "running", 0
                    tasks.start_soon(self._feed, worker)
                    tasks.start_soon(self._watch)
                    await self._listen(worker)
                await self._take_back(worker)
        finally:
            self._worker, self._status = None, "off"

    async def _take_back(self, worker: Worker) -> None:
        """Decides what happens to the texts that an ended worker had."""
        cause = await worker.cause_of_death()
        if self._ending is not None:
            self._queue.worker_ended()
            return
        self._deaths += 1
        self._backoff.failed()
        self._last_death = cause
        _log.warning("local embeddings: the worker died", cause=cause)
        self._queue.worker_died(cause)

    async def _feed(self, worker: Worker) -> None:
        """Sends the waiting requests to the worker, as fast as it takes them."""
        while True:
            if self._cancelled:
                await worker.send(Cancel(self._cancelled.pop()))
            elif (request := self._queue.next()) is not None:
                await worker.send(request)
            elif self._ping_due:
                self._ping_due = False
                await worker.send(Ping())
            else:
                await self._changed.wait()

    async def _listen(self, worker: Worker) -> None:
        while replies := await worker.receive():
            self._silent_beats = 0
            for reply in replies:
                if isinstance(reply, Computed | Failed):
                    self._queue.accept(reply)
                    self._backoff.succeeded()
            self._changed.fire()

    async def _watch(self) -> None:
        """Ends a worker that has stopped, or that has had nothing to do for a while.

        Counts pings instead of seconds, so that a pause of the whole machine does not matter.
        """
        patience = self._patience
        while True:
            await anyio.sleep(patience.beat_s)
            self._silent_beats += 1
            silence_s = self._silent_beats * patience.beat_s
            if self._queue.is_empty:
                if silence_s >= patience.idle_s:
                    self._end("it had nothing to do")
            elif silence_s >= patience.silence_s:
                self._deaths += 1
                self._last_death = f"it did not answer for {silence_s:g} s and was ended"
                self._end(self._last_death)
            else:
                self._ping_due = True
                self._changed.fire()

    def _end(self, reason: str) -> None:
        if self._worker is not None:
            _log.info("local embeddings: the worker is ended", reason=reason)
            self._ending = reason
            self._worker.kill()

    def pause_s(self) -> float:
        """Returns the time until the next worker may start."""
        return self._backoff.left_s
