"""Gemini's format of files and batch jobs for embeddings: strict about every request.

Files are sent by resumable uploads; lists come in pages, the oldest entries first. A job that did not succeed
has no results, and vectors and errors share one file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fakes.batches import WAY, FakeBatches, FakeJob, Line, Lines, Reply
from fakes.checks import Request

_GRAIN = 256 << 10
"""Every part of an upload except the last is a multiple of it."""
_UPLOAD = "/upload/v1beta/files"
_FILE_FIELDS = {"display_name", "mime_type", "size_bytes"}
_LINE_FIELDS = {"content", "task_type", "output_dimensionality"}
_STATES = {
    **dict(zip(WAY, ("PENDING", "RUNNING", "RUNNING"), strict=True)),
    "completed": "SUCCEEDED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelled": "CANCELLED",
}


@dataclass
class _Upload:
    display_name: str
    size: int
    content: bytes = b""


@dataclass(eq=False)
class GeminiBatches(FakeBatches):
    dimensions: int | None = None
    """The dimensions that every line must ask for."""
    page: int = 2
    """The most entries of a page, whatever the client asks for."""
    _open: dict[str, _Upload] = field(default_factory=dict, init=False)

    def concerns(self, path: str) -> bool:
        found = re.match(r"/upload/|/v1beta/(files|batches|models/[^/]+:asyncBatch)", path)
        return found is not None

    def route(self, request: Request) -> Reply | None:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if request.method == "POST" and url.path == _UPLOAD:
            return self._receive(request, query) if query else self._start(request)
        if url.path.startswith("/v1beta/files"):
            return self._about_files(request.method, url.path.removeprefix("/v1beta/"), query)
        if url.path.startswith("/v1beta/batches"):
            return self._about_jobs(request, url.path.removeprefix("/v1beta/"), query)
        found = re.fullmatch(r"/v1beta/models/([\w.-]+):asyncBatchEmbedContent", url.path)
        if found and request.method == "POST":
            return self._create(found[1], json.loads(request.raw))
        return None

    def error(self, code: int, message: str) -> Any:
        states = {403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
        status = states.get(code, "INVALID_ARGUMENT")
        return {"error": {"code": code, "message": message, "status": status}}

    def _refused(self, asked: str, code: int, message: str) -> Reply:
        return Reply(asked, code, self.error(code, message))

    # Files.

    def _start(self, request: Request) -> Reply:
        given = {name[14:].lower(): value for name, value in request.headers.items()
                 if name.lower().startswith("x-goog-upload-")}  # fmt: skip
        file = json.loads(request.raw).get("file", {})
        fit = (
            (given.get("protocol"), given.get("command")) == ("resumable", "start")
            and given.get("header-content-type") == file.get("mime_type") == "application/jsonl"
            and set(file) == _FILE_FIELDS
            and str(given.get("header-content-length")) == str(file["size_bytes"])
        )
        if not fit:
            return self._refused("start", 400, f"Wrong start of an upload: {given} {file}")
        number = str(next(self._numbers))
        self._open[number] = _Upload(file["display_name"], int(file["size_bytes"]))
        target = f"{self.origin}{_UPLOAD}?upload_id={number}&upload_protocol=resumable"
        headers = {"x-goog-upload-url": target, "x-goog-upload-status": "active"}
        return Reply("start", 200, {}, headers)

    def _receive(self, request: Request, query: dict[str, str]) -> Reply:
        upload = self._open.get(query.get("upload_id", ""))
        command = request.headers.get("x-goog-upload-command")
        offset = request.headers.get("x-goog-upload-offset")
        if upload is None or offset != str(len(upload.content)):
            return self._refused("upload", 400, f"No upload goes on at {offset}")
        upload.content += request.raw
        if command == "upload" and request.raw and len(request.raw) % _GRAIN == 0:
            return Reply("part", 200, {}, {"x-goog-upload-status": "active"})
        if command != "upload, finalize" or len(upload.content) != upload.size:
            return self._refused("upload", 400, f"Not a whole file: {command}")
        del self._open[query["upload_id"]]
        self.uploads += 1
        name = self.store(upload.display_name, upload.content)
        return Reply("upload", 200, {"file": self._file(name)}, {"x-goog-upload-status": "final"})

    def _file(self, name: str) -> dict[str, Any]:
        display_name, content = self.files[name]
        source = "GENERATED" if display_name.startswith("batch-") else "UPLOADED"
        about = {"name": f"files/{name}", "displayName": display_name, "state": "ACTIVE"}
        return {**about, "sizeBytes": str(len(content)), "source": source}

    def _about_files(self, method: str, path: str, query: dict[str, str]) -> Reply | None:
        if (method, path) == ("GET", "files"):
            files = [self._file(name) for name in self.files]
            return Reply("files", 200, self._page("files", files, query))
        name, _, verb = path.removeprefix("files/").partition(":")
        if name not in self.files:
            return self._refused("files", 403, f"No permission for {name}, or it does not exist")
        if (method, verb) == ("DELETE", ""):
            del self.files[name]
            return Reply("delete", 200, {})
        is_result = self._file(name)["source"] == "GENERATED"
        if (method, verb, query) == ("GET", "download", {"alt": "media"}) and is_result:
            return Reply("read", 200, self.files[name][1])
        return None

    def _page(self, name: str, entries: list[Any], query: dict[str, str]) -> dict[str, Any]:
        begin = int(query.get("pageToken", "0"))
        end = begin + min(self.page, int(query["pageSize"]))
        more = {"nextPageToken": str(end)} if end < len(entries) else {}
        return {name: entries[begin:end], **more} if entries else {}

    # Jobs.

    def _create(self, model: str, body: dict[str, Any]) -> Reply:
        batch = body.get("batch", {})
        source = batch.get("inputConfig", {})
        file = str(source.get("file_name", "")).removeprefix("files/")
        fit = (
            set(body) == {"batch"}
            and set(batch) == {"displayName", "inputConfig"}
            and set(source) == {"file_name"}
        )
        if not self.knows(model):
            return self._refused("create", 404, f"models/{model} is not found")
        if not fit or file not in self.files:
            return self._refused("create", 400, f"Wrong job: {body}")
        if self.is_full_with(file):
            message = "You exceeded your current quota, please check your plan and billing details."
            return self._refused("create", 429, message)
        return Reply("create", 200, self._described(self.begin(file, batch["displayName"])))

    def _about_jobs(self, request: Request, path: str, query: dict[str, str]) -> Reply | None:
        if (request.method, path) == ("GET", "batches"):
            jobs = [self._described(job) for job in self.jobs.values()]
            return Reply("jobs", 200, self._page("operations", jobs, query))
        name, _, verb = path.removeprefix("batches/").partition(":")
        if name not in self.jobs:
            return None
        if (request.method, verb) == ("GET", ""):
            self.move_on(self.jobs[name])
            return Reply("look", 200, self._described(self.jobs[name]))
        if (request.method, verb) == ("POST", "cancel"):
            self.end(self.jobs[name], "cancelled")
            return Reply("cancel", 200, {})
        return None

    def _described(self, job: FakeJob) -> dict[str, Any]:
        output = {"output": {"responsesFile": f"files/{job.output_file}"}}
        about = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.EmbedContentBatch",
            "displayName": job.marks,
            "state": f"BATCH_STATE_{_STATES[job.status]}",
            **(output if job.output_file else {}),
        }
        return {"name": f"batches/{job.id}", "metadata": about, "done": not job.is_open}

    # Lines.

    def is_fit(self, line: Line) -> bool:
        request = line["request"]
        return (
            set(line) == {"key", "request"}
            and set(request) <= _LINE_FIELDS
            and request.get("task_type") == "RETRIEVAL_DOCUMENT"
            and request.get("output_dimensionality") == self.dimensions
            and [set(part) for part in request["content"]["parts"]] == [{"text"}]
        )

    def key_of(self, line: Line) -> str:
        return str(line["key"])

    def text_of(self, line: Line) -> str:
        return str(line["request"]["content"]["parts"][0]["text"])

    def result(self, key: str, vector: Any) -> Line:
        embedding = {} if vector is None else {"embedding": {"values": vector}}
        return {"key": key, "response": {**embedding, "tokenCount": 7}}

    def item_refusal(self, line: Line) -> Line:
        error = {"code": 400, "status": "invalid_input", "message": f"Not {self.text_of(line)}"}
        return {"key": self.key_of(line), "error": error}

    def write_results(self, job: FakeJob, vectors: Lines, errors: Lines) -> None:
        if job.status == "completed":
            job.output_file = self.written(job, [*errors, *vectors])
