"""Serves embedding models over loopback as OpenAI would: POST /v1/embeddings.

It is strict where the real host is strict, except that it does not refuse long texts: the models here cut them as
sentence-transformers does.

    async with embedding_server(MiniLM(), HashEmbedder()) as server:
        ...  # server.base_url, server.key; afterwards server.requests, server.items

By hand: PYTHONPATH=scripts python -m benchmarks.embedding_server --help
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import secrets
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
import msgspec

from benchmarks.hash_embedder import Embedder, HashEmbedder, Vectors

_PATH = "/v1/embeddings"
_MAX_BODY = 16 << 20


@asynccontextmanager
async def embedding_server(
    *embedders: Embedder, key: str | None = None, port: int = 0
) -> AsyncIterator[EmbeddingServer]:
    """Runs a server in threads of its own. Without a key it makes one up; port 0 takes a free one."""
    server = EmbeddingServer(embedders, key or secrets.token_urlsafe(24), port)
    accepting = threading.Thread(target=server.serve_forever, args=(0.02,), name="embeddings")
    accepting.start()
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(server.stop)
            await anyio.to_thread.run_sync(accepting.join)


class EmbeddingServer(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, embedders: Sequence[Embedder], key: str, port: int) -> None:
        self.embedders = embedders
        self.key = key
        self.requests = 0
        """Requests that were answered with vectors."""
        self.items = 0
        """Texts of these requests."""
        self._connections: set[socket.socket] = set()
        self._counting = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def base_url(self) -> str:
        """The value for `remote.baseUrl`."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def count(self, items: int) -> None:
        with self._counting:
            self.requests += 1
            self.items += items

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Reports faults of the models; a client that stopped waiting is no fault."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Waits for answers under way; connections that are kept alive do not delay it."""
        self.shutdown()
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"
    # Without it the end of a longer answer may wait 40 ms for the client's acknowledgement.
    disable_nagle_algorithm = True
    timeout = 60

    def log_message(self, *_: object) -> None:
        """Logs nothing: standard error is for the benchmark's output."""

    def do_POST(self) -> None:
        try:
            status, body = HTTPStatus.OK, self._embed(self._read_body())
        except RefusedError as error:
            status, body = HTTPStatus(error.status), error.body()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def _read_body(self) -> bytes:
        length = self.headers.get("content-length", "0" if self.command == "GET" else "")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            # What follows on this connection would be taken for the next request.
            self.close_connection = True
            if length.isdecimal():
                raise RefusedError(413, f"A request may have {_MAX_BODY} bytes, not {length}.")
            raise RefusedError(411, "A request must have a content length.")
        return self.rfile.read(int(length))

    def _embed(self, body: bytes) -> bytes:
        check_key(self.headers.get("authorization"), self.server.key)
        if self.path != _PATH:
            raise RefusedError(404, f"There is only {_PATH}, not {self.path}.")
        if self.command != "POST":
            raise RefusedError(405, f"{_PATH} wants POST, not {self.command}.")
        content_type = self.headers.get("content-type")
        question, embedder = read_question(body, self.server.embedders, content_type)
        vectors = embedder.embed(question.texts)
        self.server.count(len(question.texts))
        return write_answer(question, vectors, sum(map(embedder.tokens, question.texts)))


_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Texts = Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=2048)]
_Encoding = Literal["float", "base64"]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request. Arrays of token numbers are not accepted: each model has its own."""

    model: str
    input: _Text | _Texts
    encoding_format: _Encoding = "float"
    dimensions: int | None = None
    user: str | None = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class RefusedError(Exception):
    """The reason why a request gets no vectors, as HTTP status and error body."""

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
    """Returns the request and the model that it names. Raises RefusedError."""
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


async def _serve(embedders: Sequence[Embedder], key: str | None, port: int) -> None:
    async with embedding_server(*embedders, key=key, port=port) as server:
        print(f"base URL: {server.base_url}\nkey: {server.key}", flush=True)
        print("models:", ", ".join(embedder.name for embedder in embedders), flush=True)
        await anyio.sleep_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--key", help="default: made up and printed")
    parser.add_argument("--max-tokens", type=int, default=256, help="of MiniLM, up to 512")
    options = parser.parse_args()
    from benchmarks.minilm import MiniLM  # noqa: PLC0415 - loads llama.cpp

    embedders = (MiniLM(options.max_tokens), HashEmbedder())
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_serve, embedders, options.key, options.port)


if __name__ == "__main__":
    main()
