"""OpenAI's format of files and batch jobs, which Voyage uses as well: strict about every request."""

from __future__ import annotations

import json
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import urlsplit

from fakes.batches import FakeBatches, FakeJob, Line, Reply
from fakes.checks import Request

_CREATED = {"input_file_id", "endpoint", "completion_window", "metadata"}
_BODY = {"model", "input", "encoding_format", "dimensions", "input_type"}


class OpenAIBatches(FakeBatches):
    def concerns(self, path: str) -> bool:
        return urlsplit(path).path.startswith(("/v1/files", "/v1/batches"))

    def route(self, request: Request) -> Reply | None:
        _, _, what, *rest = urlsplit(request.path).path.split("/")
        match request.method, what, rest:
            case "POST", "files", []:
                return self._upload(request)
            case "GET", "files", []:
                return Reply("files", 200, _listed([self._file(name) for name in self.files]))
            case "GET", "files", [name, "content"] if name in self.files:
                return Reply("read", 200, self.files[name][1])
            case "DELETE", "files", [name] if name in self.files:
                del self.files[name]
                return Reply("delete", 200, {"id": name, "object": "file", "deleted": True})
            case "POST", "batches", []:
                return self._create(json.loads(request.raw))
            case "GET", "batches", []:
                return Reply("jobs", 200, _listed([_described(job) for job in self.jobs.values()]))
            case "GET", "batches", [name] if name in self.jobs:
                self.move_on(self.jobs[name])
                return Reply("look", 200, _described(self.jobs[name]))
            case "POST", "batches", [name, "cancel"] if name in self.jobs:
                self.end(self.jobs[name], "cancelled")
                return Reply("cancel", 200, {**_described(self.jobs[name]), "status": "cancelling"})
        return None

    def error(self, code: int, message: str) -> Any:
        return {"error": {"message": message, "type": "invalid_request_error"}}

    def _file(self, name: str) -> dict[str, Any]:
        filename, content = self.files[name]
        about = {"id": name, "object": "file", "bytes": len(content), "created_at": 1}
        return {**about, "filename": filename, "purpose": "batch", "status": "processed"}

    def _upload(self, request: Request) -> Reply:
        frame = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = {
            part.get_param("name", header="content-disposition"): part
            for part in message_from_bytes(frame + request.raw, policy=HTTP).iter_parts()
        }
        file = parts.get("file")
        purpose = parts["purpose"].get_content().strip() if "purpose" in parts else None
        if purpose != "batch" or file is None or file.get_content_type() != "application/jsonl":
            return Reply("upload", 400, self.error(400, f"Wrong upload: {request.raw[:100]!r}"))
        self.uploads += 1
        content = file.get_payload(decode=True)
        return Reply("upload", 200, self._file(self.store(file.get_filename() or "", content)))

    def _create(self, body: dict[str, Any]) -> Reply:
        if not self._is_fit_job(body) or body.get("input_file_id") not in self.files:
            return Reply("create", 400, self.error(400, f"Wrong job: {body}"))
        is_full = self.is_full_with(body["input_file_id"])
        if is_full and self.vendor == "voyage":
            message = f"Too many enqueued tokens. Limit: {self.most_enqueued}"
            return Reply("create", 400, self.error(400, message))
        job = self.begin(body["input_file_id"], body["metadata"])
        if is_full:  # OpenAI accepts the job and lets it fail
            job.status, job.code = "failed", "token_limit_exceeded"
            job.message = f"Enqueued token limit reached for org-1. Limit: {self.most_enqueued:,}"
        return Reply("create", 200, _described(job))

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

    def is_fit(self, line: Line) -> bool:
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

    def key_of(self, line: Line) -> str:
        return str(line["custom_id"])

    def text_of(self, line: Line) -> str:
        text: Any = line["body"]["input"]
        return str(text if isinstance(text, str) else text[0])

    def result(self, key: str, vector: Any) -> Line:
        rows = [] if vector is None else [{"object": "embedding", "index": 0, "embedding": vector}]
        return _line(key, 200, {"object": "list", "data": rows, "model": "of the job"})

    def item_refusal(self, line: Line) -> Line:
        error = {"message": f"Not {self.text_of(line)}", "code": "invalid_input"}
        return _line(self.key_of(line), 400, {"error": error})


def _line(key: str, status: int, body: Any) -> Line:
    response = {"status_code": status, "request_id": "r", "body": body}
    return {"id": "x", "custom_id": key, "response": response, "error": None}


def _listed(entries: list[Any]) -> dict[str, Any]:
    return {"object": "list", "data": entries[::-1], "has_more": False}


def _described(job: FakeJob) -> dict[str, Any]:
    message = job.message or f"Line 1 is wrong: {job.input_file}"
    faults = [{"code": job.code, "message": message}]
    counts = {"total": job.total, "completed": job.done, "failed": 0}
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
        "created_at": 1,
        "input_file_id": job.input_file,
        "status": job.status,
        "output_file_id": job.output_file,
        "error_file_id": job.error_file,
        "errors": {"object": "list", "data": faults} if job.code else None,
        "metadata": job.marks,
        "request_counts": counts,
    }
