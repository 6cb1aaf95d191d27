"""The requests that a fake vendor refuses, and its words: as strict as the real hosts.

Error texts repeat the credential and the texts on purpose: nothing of them may appear anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fakes.vendors import FakeVendor

Refusal = tuple[int, str, Mapping[str, Any]]
"""Status, message, and further fields of the error."""

_EMBEDDINGS = r"/v1/embeddings"
_OTHER_PATHS: dict[str, str] = {
    "deepinfra": r"/v1/openai/embeddings",
    "gemini": r"/v1beta/models/[\w.-]+:batchEmbedContents",
}
_LIKE_OPENAI = frozenset({"model", "input", "encoding_format", "dimensions"})
"""The fields that a vendor accepts which is not among `_FIELDS`."""
_FIELDS: dict[str, frozenset[str]] = {
    "openai": _LIKE_OPENAI | {"user", "input_type"},
    "gemini": frozenset({"model", "content", "taskType", "outputDimensionality", "title"}),
    "voyage": frozenset(
        {"model", "input", "input_type", "encoding_format", "output_dimension", "truncation"}
    ),
    "mistral": frozenset(
        {"model", "input", "encoding_format", "output_dimension", "output_dtype", "metadata"}
    ),
    "deepinfra": _LIKE_OPENAI | {"service_tier"},
    "lmstudio": _LIKE_OPENAI - {"dimensions"},
}
_KEYLESS = frozenset({"ollama", "lmstudio"})
"""Servers of the user's own, which accept any key or none."""
_INVALID = {"status": "INVALID_ARGUMENT"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Message
    raw: bytes
    body: Any
    """None if it is not what the vendor expects."""
    texts: tuple[str, ...]


def parse(vendor: str, raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """Returns the decoded body and its texts; None and no texts if it is malformed."""
    try:
        body = json.loads(raw)
        if vendor == "gemini":
            parts = [request["content"]["parts"][0]["text"] for request in body["requests"]]
            return body, tuple(parts)
        texts = body["input"]
        return body, (texts,) if isinstance(texts, str) else tuple(texts)
    except (ValueError, KeyError, TypeError, IndexError):
        return None, ()


def refusal(host: FakeVendor, request: Request) -> Refusal | None:
    for check in (_frame, wrong_key, _fields, _texts, _sizes):
        found = check(host, request)
        if found is not None:
            return found
    return None


def _frame(host: FakeVendor, request: Request) -> Refusal | None:
    if request.method != "POST":
        return 405, "Method not allowed", {}
    if not re.fullmatch(_OTHER_PATHS.get(host.vendor, _EMBEDDINGS), request.path):
        return 404, f"{request.path} is not found", {"status": "NOT_FOUND"}
    if not request.headers.get("content-type", "").startswith("application/json"):
        return 415, "Unsupported media type", {}
    if request.body is None:
        return 400, f"Could not parse {request.raw[:200]!r}", _INVALID
    return None


def wrong_key(host: FakeVendor, request: Request) -> Refusal | None:
    if host.vendor in _KEYLESS:
        return None
    if host.vendor == "gemini":
        given = request.headers.get_all("x-goog-api-key")
        message = f"API key not valid. Please pass a valid API key. Got {given}"
        return None if given == [host.key] else (400, message, _INVALID)
    given = request.headers.get_all("authorization")
    message = f"Incorrect API key provided: {given}"
    key = f"Bearer {host.key}"
    if host.keys_may_be_longer and given and given[0].startswith(key):
        return None
    return None if given == [key] else (401, message, {"code": "invalid_api_key"})


def _fields(host: FakeVendor, request: Request) -> Refusal | None:
    parts = request.body["requests"] if host.vendor == "gemini" else [request.body]
    unknown = {name for part in parts for name in part} - _FIELDS.get(host.vendor, _LIKE_OPENAI)
    if unknown:
        return 400, f"Unrecognized request argument supplied: {sorted(unknown)}", {}
    models = {part.get("model", "").removeprefix("models/") for part in parts}
    if not models <= set(host.models):
        code = {"code": "model_not_found", "status": "NOT_FOUND"}
        return 404, f"The model {sorted(models)} does not exist", code
    return None


def _texts(host: FakeVendor, request: Request) -> Refusal | None:
    texts = request.texts
    if not texts or not all(isinstance(text, str) and text for text in texts):
        return 400, "'$.input' is invalid: it must be a non-empty array of strings", _INVALID
    if any(host.rejects(text) for text in texts):
        return 400, f"Invalid input: {texts!r}", _INVALID
    if any(host.breaks_at(text) for text in texts):
        return 500, "failed to encode response: json: unsupported value: NaN", {}
    return None


def _sizes(host: FakeVendor, request: Request) -> Refusal | None:
    tokens = [len(text) // 4 + 1 for text in request.texts]
    if host.max_bytes is not None and len(request.raw) > host.max_bytes:
        return 413, "Request Entity Too Large", {}
    if host.max_items is not None and len(tokens) > host.max_items:
        return 400, _too_many(host, len(tokens), host.max_items), _INVALID
    if host.max_input_tokens is not None and max(tokens) > host.max_input_tokens:
        message = f"This model's maximum context length is {host.max_input_tokens} tokens"
        return 400, message, _INVALID
    if host.max_tokens is not None and sum(tokens) > host.max_tokens:
        limit = host.max_tokens if host.names_limit else "(see the documentation)"
        message = f"Requested {sum(tokens)} tokens, max {limit} tokens per request"
        return 400, message, {"code": "max_tokens_per_request"}
    return None


def _too_many(host: FakeVendor, sent: int, limit: int) -> str:
    if not host.names_limit:
        return "Too many inputs in this request."
    words: dict[str, str] = {
        "gemini": f"* BatchEmbedContentsRequest.requests: at most {limit} requests can be in one "
        "batch",
        "voyage": f"The batch size limit is {limit}. Your batch size is {sent}.",
    }
    openai = f"input batch size {sent} > maximum allowed batch size {limit}"
    return words.get(host.vendor, openai)
