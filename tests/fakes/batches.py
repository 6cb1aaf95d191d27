"""The files and batch jobs of a fake vendor: their life cycle, whatever the wire format.

Jobs can be made to end in any way. A job goes to its next state with each query of it, unless `held` is set.
The formats are in `fakes.openai_batches` and `fakes.gemini_batches`.
"""

from __future__ import annotations

import json
import random
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from fakes.checks import Refusal, Request

Line = dict[str, Any]
Lines = list[Line]

SMALL = {
    "backends.builtin.embedding.batch_jobs.THRESHOLD": 200,
    "backends.builtin.embedding.batch_jobs.KEPT_BACK": 20,
    "backends.builtin.embedding.batch_jobs.SMALLEST": 20,
    "backends.builtin.embedding.backfill.THRESHOLD": 200,
    "backends.builtin.embedding.backfill.KEPT_BACK": 20,
    "providers.batch.result_files._SLICE_LINES": 100,
}
"""A fifth of the real numbers: tests depend on what becomes of texts, not on how many there are."""


def make_small() -> None:
    """Sets the numbers of `SMALL`, in a process that a test starts."""
    for name, value in SMALL.items():
        module, _, constant = name.rpartition(".")
        setattr(import_module(module), constant, value)


WAY = ("validating", "in_progress", "finalizing")


class Reply(NamedTuple):
    """`asked` is the subject of a request (`upload`, `create` ...), for `loses` and `stalls`."""

    asked: str
    code: int
    body: Any
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


@dataclass
class FakeJob:
    id: str
    input_file: str
    marks: Any
    """The client's name of it: metadata, or a name."""
    status: str = WAY[0]
    output_file: str | None = None
    error_file: str | None = None
    code: str | None = None
    message: str = ""
    done: int = 0
    total: int = 0

    @property
    def is_open(self) -> bool:
        return self.status in WAY


@dataclass(eq=False)
class FakeBatches(ABC):
    """`embed` returns the vector of a text, `knows` whether there is a model of a name."""

    vendor: str
    embed: Callable[[str], list[float]]
    knows: Callable[[str], bool]
    origin: str
    max_items: int = 50_000
    most_enqueued: int = 10**9
    """The most texts of all open jobs together; a further job is refused in the vendor's words."""
    outcome: str = "completed"
    share: float = 1.0
    """The share of a job that is done when it ends."""
    held: bool = False
    """True if jobs stay in progress."""
    refuses: Callable[[str], bool] = lambda _text: False
    """Texts that are answered with an error each."""
    spoil: Callable[[FakeBatches, Lines], Lines] = lambda _batches, lines: lines
    """The change of the lines of vectors before they are written."""
    padding: int = 0
    """Blanks at the end of every line of results."""
    loses: list[str] = field(default_factory=list)
    """The kinds of requests, each once, that are carried out and get no answer: the connection is closed instead."""
    refusal: Refusal | None = None
    """The refusal of every request."""
    create_refusals: list[Refusal] = field(default_factory=list)
    """The refusals of the next creations of jobs, each once."""
    stalls: str | None = None
    """The kind of request that is carried out and gets no answer for as long as the client waits."""
    stalled: int = 0
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict, init=False)
    jobs: dict[str, FakeJob] = field(default_factory=dict, init=False)
    submitted: dict[str, list[str]] = field(default_factory=dict, init=False)
    """The texts of each job."""
    uploads: int = field(default=0, init=False)
    refused: set[str] = field(default_factory=set, init=False)
    """The files of jobs that were refused as too large."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1_000_000))

    def texts(self) -> list[str]:
        """Returns every text of every job that was accepted, in order."""
        return [
            text
            for job in self.jobs.values()
            if job.status != "failed"
            for text in self.submitted[job.id]
        ]

    def answer(self, request: Request) -> Reply:
        with self._lock:
            reply = self.route(request)
        if reply is None:
            message = f"{request.method} {request.path} is not found"
            return Reply("unknown", 404, self.error(404, message))
        return reply

    def refused_creation(self, request: Request) -> Refusal | None:
        """Returns the refusal of this request if it creates a job and is to be refused."""
        is_creation = re.search(r"/batches$|:asyncBatchEmbedContent$", request.path)
        if request.method != "POST" or not is_creation or not self.create_refusals:
            return None
        return self.create_refusals.pop(0)

    # The wire format.

    @abstractmethod
    def concerns(self, path: str) -> bool: ...

    @abstractmethod
    def route(self, request: Request) -> Reply | None: ...

    @abstractmethod
    def error(self, code: int, message: str) -> Any: ...

    @abstractmethod
    def is_fit(self, line: Line) -> bool: ...

    @abstractmethod
    def key_of(self, line: Line) -> str: ...

    @abstractmethod
    def text_of(self, line: Line) -> str: ...

    @abstractmethod
    def result(self, key: str, vector: Any) -> Line:
        """Returns a line of results; `vector` is None for one without a vector."""

    @abstractmethod
    def item_refusal(self, line: Line) -> Line: ...

    # Their life cycle.

    def store(self, filename: str, content: bytes) -> str:
        name = f"file-{next(self._numbers)}"
        self.files[name] = (filename, content)
        return name

    def begin(self, input_file: str, marks: Any) -> FakeJob:
        job = FakeJob(f"batch-{next(self._numbers)}", input_file, marks)
        lines = self._lines(job)
        self.jobs[job.id] = job
        self.submitted[job.id] = [self.text_of(line) for line in lines or []]
        job.total = len(lines or [])
        return job

    def is_full_with(self, input_file: str) -> bool:
        """Returns whether this file and all open jobs are more than may be enqueued."""
        lines = len(self.files[input_file][1].splitlines())
        enqueued = sum(job.total for job in self.jobs.values() if job.is_open)
        is_full = lines + enqueued > self.most_enqueued
        if is_full:
            self.refused.add(input_file)
        return is_full

    def move_on(self, job: FakeJob) -> None:
        if not job.is_open:
            return
        if self._lines(job) is None:
            job.status, job.code = "failed", "invalid_json_line"
        elif job.status != "in_progress" or not self.held:
            following = WAY.index(job.status) + 1
            if following == len(WAY):
                self.end(job, self.outcome)
            else:
                job.status = WAY[following]

    def end(self, job: FakeJob, outcome: str) -> None:
        job.status = outcome
        if outcome == "failed":
            job.code = "internal_error"
            return
        lines = self._lines(job) or []
        lines = lines[: round(len(lines) * self.share)]
        random.Random(1).shuffle(lines)
        refused = [line for line in lines if self.refuses(self.text_of(line))]
        vectors = [
            self.result(self.key_of(line), self.embed(self.text_of(line)))
            for line in lines
            if not self.refuses(self.text_of(line))
        ]
        job.done = len(vectors)
        errors = [self.item_refusal(line) for line in refused]
        self.write_results(job, self.spoil(self, vectors), errors)

    def write_results(self, job: FakeJob, vectors: Lines, errors: Lines) -> None:
        job.output_file = self.written(job, vectors)
        job.error_file = self.written(job, errors)

    def written(self, job: FakeJob, lines: Lines) -> str | None:
        if not lines:
            return None
        blanks = " " * self.padding
        content = "".join(f"{json.dumps(line)}{blanks}\n" for line in lines)
        return self.store(f"{job.id}.jsonl", content.encode())

    def _lines(self, job: FakeJob) -> Lines | None:
        """Returns the lines of a job if all of them are valid."""
        lines = [json.loads(line) for line in self.files[job.input_file][1].splitlines()]
        if not 0 < len(lines) <= self.max_items or not all(map(self.is_fit, lines)):
            return None
        return lines if len({self.key_of(line) for line in lines}) == len(lines) else None
