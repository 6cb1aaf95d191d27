"""The files and batch jobs of a fake vendor, in OpenAI's format, which Voyage speaks as well.

Strict about every request and every line, and able to end jobs in any way. A job moves on by one state
each time it is asked after, unless it is held.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from typing import Any, Literal
from urllib.parse import urlsplit

from fakes.checks import Refusal, Request

Answer = tuple[int, Any]
Lines = list[dict[str, Any]]

_WAY = ("validating", "in_progress", "finalizing")
_CREATED = {"input_file_id", "endpoint", "completion_window", "metadata"}
_BODY = {"model", "input", "encoding_format", "dimensions", "input_type"}


@dataclass
class FakeJob:
    id: str
    input_file: str
    metadata: dict[str, str]
    status: str = "validating"
    output_file: str | None = None
    error_file: str | None = None
    code: str | None = None
    done: int = 0
    total: int = 0

    def describe(self) -> dict[str, Any]:
        faults = [{"code": self.code, "message": f"Line 1 is wrong: {self.input_file}"}]
        counts = {"total": self.total, "completed": self.done, "failed": 0}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
            "created_at": 1,
            "input_file_id": self.input_file,
            "status": self.status,
            "output_file_id": self.output_file,
            "error_file_id": self.error_file,
            "errors": {"object": "list", "data": faults} if self.code else None,
            "metadata": self.metadata,
            "request_counts": counts,
        }


@dataclass(eq=False)
class FakeBatches:
    """`embed` gives the vector of a text; `knows` tells whether there is a model of a name."""

    vendor: Literal["openai", "voyage"]
    embed: Callable[[str], list[float]]
    knows: Callable[[str], bool]
    max_items: int = 50_000
    outcome: str = "completed"
    share: float = 1.0
    """How much of a job is done when it ends."""
    held: bool = False
    """Jobs stay in progress."""
    refuses: Callable[[str], bool] = lambda _text: False
    """Texts that end up in the error file."""
    spoil: Callable[[Lines], Lines] = lambda lines: lines
    """What is done to the lines of an output file."""
    loses: list[str] = field(default_factory=list)
    """What to do without an answer, each once: the client is hung up on when it was done."""
    refusal: Refusal | None = None
    """How every request is refused."""
    stalls: str | None = None
    """What to do without an answer for as long as the client waits."""
    stalled: int = 0
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict, init=False)
    jobs: dict[str, FakeJob] = field(default_factory=dict, init=False)
    submitted: dict[str, list[str]] = field(default_factory=dict, init=False)
    """The texts of each job."""
    uploads: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1_000_000))

    def texts(self) -> list[str]:
        """Every text of every job, in order."""
        return [text for job in self.jobs.values() for text in self.submitted[job.id]]

    def concerns(self, path: str) -> bool:
        return urlsplit(path).path.startswith(("/v1/files", "/v1/batches"))

    def answer(self, request: Request) -> tuple[str, int, Any]:
        """What was asked for, the status and the body."""
        _, _, what, *rest = urlsplit(request.path).path.split("/")
        with self._lock:
            match request.method, what, rest:
                case "POST", "files", []:
                    return "upload", *self._upload(request)
                case "GET", "files", []:
                    return "files", 200, self._listed([self._file(name) for name in self.files])
                case "GET", "files", [name, "content"] if name in self.files:
                    return "read", 200, self.files[name][1]
                case "DELETE", "files", [name] if name in self.files:
                    del self.files[name]
                    return "delete", 200, {"id": name, "object": "file", "deleted": True}
                case "POST", "batches", []:
                    return "create", *self._create(json.loads(request.raw))
                case "GET", "batches", []:
                    jobs = [job.describe() for job in self.jobs.values()]
                    return "jobs", 200, self._listed(jobs)
                case "GET", "batches", [name] if name in self.jobs:
                    self._move_on(self.jobs[name])
                    return "look", 200, self.jobs[name].describe()
                case "POST", "batches", [name, "cancel"] if name in self.jobs:
                    self._end(self.jobs[name], "cancelled")
                    return "cancel", 200, {**self.jobs[name].describe(), "status": "cancelling"}
        return "unknown", 404, _error(f"{request.method} {request.path} is not found")

    def _listed(self, entries: list[Any]) -> dict[str, Any]:
        return {"object": "list", "data": entries[::-1], "has_more": False}

    def _file(self, name: str) -> dict[str, Any]:
        filename, content = self.files[name]
        about = {"id": name, "object": "file", "bytes": len(content), "created_at": 1}
        return {**about, "filename": filename, "purpose": "batch", "status": "processed"}

    def _store(self, filename: str, content: bytes) -> str:
        name = f"file-{next(self._numbers)}"
        self.files[name] = (filename, content)
        return name

    def _upload(self, request: Request) -> Answer:
        frame = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = {
            part.get_param("name", header="content-disposition"): part
            for part in message_from_bytes(frame + request.raw, policy=HTTP).iter_parts()
        }
        file = parts.get("file")
        purpose = parts["purpose"].get_content().strip() if "purpose" in parts else None
        if purpose != "batch" or file is None or file.get_content_type() != "application/jsonl":
            return 400, _error(f"Wrong upload: {request.raw[:100]!r}")
        self.uploads += 1
        content = file.get_payload(decode=True)
        return 200, self._file(self._store(file.get_filename() or "", content))

    def _create(self, body: dict[str, Any]) -> Answer:
        if not self._is_fit_job(body) or body.get("input_file_id") not in self.files:
            return 400, _error(f"Wrong job: {body}")
        job = FakeJob(f"batch_{next(self._numbers)}", body["input_file_id"], body["metadata"])
        self.jobs[job.id] = job
        lines = self._lines(job)
        self.submitted[job.id] = [_text(line) for line in lines or []]
        job.total = len(lines or [])
        return 200, job.describe()

    def _lines(self, job: FakeJob) -> Lines | None:
        """The lines of a job, if all are as they must be."""
        lines = [json.loads(line) for line in self.files[job.input_file][1].splitlines()]
        own = len({line["custom_id"] for line in lines}) == len(lines)
        fit = own and 0 < len(lines) <= self.max_items and all(map(self._is_fit, lines))
        return lines if fit else None

    def _is_fit_job(self, body: dict[str, Any]) -> bool:
        if self.vendor == "openai":
            return set(body) == _CREATED and body["completion_window"] == "24h"
        options = body.get("request_params", {})
        return (
            set(body) == _CREATED | {"request_params"}
            and body["completion_window"] == "12h"
            and self.knows(options.get("model"))
            and options.get("input_type") == "document"
        )

    def _is_fit(self, line: dict[str, Any]) -> bool:
        body = line["body"]
        if self.vendor == "voyage":
            alone = set(line) == {"custom_id", "body"} and set(body) == {"input"}
            return alone and isinstance(body["input"], list) and len(body["input"]) == 1
        return (
            set(line) == {"custom_id", "method", "url", "body"}
            and (line["method"], line["url"]) == ("POST", "/v1/embeddings")
            and set(body) <= _BODY
            and self.knows(body["model"])
            and isinstance(body["input"], str)
        )

    def _move_on(self, job: FakeJob) -> None:
        if job.status not in _WAY:
            return
        if self._lines(job) is None:
            job.status, job.code = "failed", "invalid_json_line"
        elif job.status != "in_progress" or not self.held:
            following = _WAY.index(job.status) + 1
            if following == len(_WAY):
                self._end(job, self.outcome)
            else:
                job.status = _WAY[following]

    def _end(self, job: FakeJob, outcome: str) -> None:
        job.status = outcome
        if outcome == "failed":
            job.code = "token_limit_exceeded"
            return
        lines = self._lines(job) or []
        lines = lines[: round(len(lines) * self.share)]
        random.Random(1).shuffle(lines)
        refused = [line for line in lines if self.refuses(_text(line))]
        done = [line for line in lines if not self.refuses(_text(line))]
        job.done = len(done)
        job.output_file = self._written(job, self.spoil([self._result(line) for line in done]))
        job.error_file = self._written(job, [_refusal(line) for line in refused])

    def _result(self, line: dict[str, Any]) -> dict[str, Any]:
        row = {"object": "embedding", "index": 0, "embedding": self.embed(_text(line))}
        body = {"object": "list", "data": [row], "model": "of the job"}
        response = {"status_code": 200, "request_id": "r", "body": body}
        return {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}

    def _written(self, job: FakeJob, lines: Lines) -> str | None:
        if not lines:
            return None
        content = "".join(json.dumps(line) + "\n" for line in lines)
        return self._store(f"{job.id}.jsonl", content.encode())


def _text(line: dict[str, Any]) -> str:
    text = line["body"]["input"]
    return text if isinstance(text, str) else text[0]


def _refusal(line: dict[str, Any]) -> dict[str, Any]:
    error = {"message": f"Not {_text(line)}", "code": "invalid_input"}
    response = {"status_code": 400, "request_id": "r", "body": {"error": error}}
    return {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}
