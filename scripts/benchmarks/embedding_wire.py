"""OpenAI's embeddings format, seen from the host: what is asked, what is refused, what is answered.

Pure. Strict where the real host is strict; the one thing it does not do is to refuse long texts,
because the models here cut them as sentence-transformers does.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from benchmarks.embedder import Embedder, Vectors

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Texts = Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=2048)]
_Encoding = Literal["float", "base64"]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request. Arrays of token numbers are not accepted: they are the model's own."""

    model: str
    input: _Text | _Texts
    encoding_format: _Encoding = "float"
    dimensions: int | None = None
    user: str | None = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class RefusedError(Exception):
    """Why a request gets no vectors, as HTTP status and error body."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def body(self) -> bytes:
        fields = {"message": str(self), "type": "invalid_request_error", "param": None}
        return msgspec.json.encode({"error": {**fields, "code": self.code}})


def check_key(authorization: str | None, key: str) -> None:
    sent = (authorization or "").encode()
    if not secrets.compare_digest(sent, f"Bearer {key}".encode()):
        raise RefusedError(401, "The API key is missing or wrong.", "invalid_api_key")


def read_question(
    body: bytes, embedders: Sequence[Embedder], content_type: str | None = "application/json"
) -> tuple[Question, Embedder]:
    """The request and the model that it names. Raises RefusedError."""
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, f"The content type must be application/json, not {content_type}.")
    try:
        question = msgspec.json.decode(body, type=Question)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"{error}.") from error
    for embedder in embedders:
        if embedder.name == question.model:
            break
    else:
        known = ", ".join(embedder.name for embedder in embedders)
        message = f"The model `{question.model}` does not exist; there are: {known}."
        raise RefusedError(404, message, "model_not_found")
    if question.dimensions not in {None, embedder.dimensions}:
        message = f"`{embedder.name}` has {embedder.dimensions} dimensions and no others."
        raise RefusedError(400, message)
    return question, embedder


def write_answer(question: Question, vectors: Vectors, tokens: int) -> bytes:
    rows = vectors.astype("<f4")
    values: list[object] = (
        rows.tolist()
        if question.encoding_format == "float"
        else [base64.b64encode(row.tobytes()).decode() for row in rows]
    )
    data = [
        {"object": "embedding", "index": index, "embedding": value}
        for index, value in enumerate(values)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": question.model, "usage": usage}
    return msgspec.json.encode(answer)
