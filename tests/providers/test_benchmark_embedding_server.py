"""The loopback host of the benchmarks' embeddings, asked by real clients."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import struct
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.streams.buffered
import anyio.to_thread
import httpx2
import numpy as np
import pytest

from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.hash_embedder import HashEmbedder
from fakes.each import each

pytestmark = pytest.mark.anyio

HASH = HashEmbedder()
ASK = {"model": "hash-384", "input": "a note"}


@pytest.fixture
async def server():
    async with embedding_server(HASH) as server:
        yield server


async def post(server: EmbeddingServer, body: object, path: str = "/embeddings", **headers: str):
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent_headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    sent_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient() as client:
        return await client.post(server.base_url + path, content=sent, headers=sent_headers)


@each("encoding", [None, "float", "base64"])
async def test_the_openai_library_gets_the_vectors_in_every_encoding(server, encoding):
    import openai  # takes a second

    texts = ["one note", "another note", "日本"]
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=server.key) as client:
        answer = await client.embeddings.create(
            model="hash-384", input=texts, encoding_format=encoding or openai.omit
        )
    assert answer.model == "hash-384"
    assert [row.index for row in answer.data] == [0, 1, 2]
    if encoding == "base64":
        received = [np.frombuffer(base64.b64decode(row.embedding), "<f4") for row in answer.data]
    else:
        received = [row.embedding for row in answer.data]
    np.testing.assert_array_equal(np.array(received, np.float32), HASH.embed(texts))
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 6


async def test_a_single_text_may_come_without_a_list(server):
    answer = (await post(server, {**ASK, "dimensions": 384, "user": "me"})).json()
    [row] = answer["data"]
    np.testing.assert_array_equal(np.array(row["embedding"], np.float32), HASH.embed(["a note"])[0])


async def test_the_gateways_own_provider_understands_the_server(server, embedder_for):
    host = SimpleNamespace(vendor="openai", base_url=server.base_url, key=server.key)
    embedder = embedder_for(host, model="hash-384")
    batch = await embedder.embed_documents(["one note", "another note"])
    np.testing.assert_allclose(np.array(batch.items), HASH.embed(["one note", "another note"]))
    assert batch.tokens == 4
    await embedder.aclose()


async def test_requests_and_texts_are_counted_and_refusals_are_not(server):
    assert (server.requests, server.items) == (0, 0)
    await post(server, ASK)
    await post(server, {**ASK, "input": ["a", "b"]})
    await post(server, {**ASK, "input": []})
    assert (server.requests, server.items) == (2, 3)


async def test_requests_at_once_are_all_counted(server):
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(post, server, {**ASK, "input": ["a", "b"]})
    assert (server.requests, server.items) == (8, 16)


@each(
    ("body", "message"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"model": "hash-384", "input": "\xff"}', "utf-8"),
        ({**ASK, "input": "half \ud800 of a pair"}, "surrogate"),
        ({"model": "hash-384"}, "missing required field `input`"),
        ({"input": "a note"}, "missing required field `model`"),
        ({**ASK, "input": ""}, "length >= 1"),
        ({**ASK, "input": []}, "length >= 1"),
        ({**ASK, "input": ["a", ""]}, "length >= 1 - at `$.input[1]`"),
        ({**ASK, "input": [1, 2]}, "Expected `str`, got `int`"),
        ({**ASK, "input": ["a"] * 2049}, "length <= 2048"),
        ({**ASK, "encoding_format": "hex"}, "`$.encoding_format`"),
        ({**ASK, "dimensions": "384"}, "`$.dimensions`"),
        ({**ASK, "dimensions": 128}, "384 dimensions and no others"),
        ({**ASK, "input_type": "query"}, "unknown field `input_type`"),
    ],
)
async def test_a_wrong_body_is_refused_with_what_is_wrong(server, body, message):
    answer = await post(server, body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]


@each("authorization", ["", "Bearer", "Bearer wrong", "Basic Zm9v"])
async def test_a_wrong_key_is_refused(server, authorization):
    answer = await post(server, ASK, authorization=authorization)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert server.requests == 0


async def test_an_unknown_model_is_not_found(server):
    answer = await post(server, {**ASK, "model": "text-embedding-3-small"})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "model_not_found"
    assert "there are: hash-384" in error["message"]


async def test_another_path_method_or_content_type_is_refused(server):
    assert (await post(server, ASK, path="/completions")).status_code == 404
    assert (await post(server, ASK, content_type="text/plain")).status_code == 415
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {server.key}"}) as client:
        assert (await client.get(f"{server.base_url}/embeddings")).status_code == 405


@each(
    ("headers", "status"),
    [
        ("", b"411"),
        ("transfer-encoding: chunked\r\n", b"411"),
        ("content-length: -1\r\n", b"411"),
        ("content-length: 99999999\r\n", b"413"),
    ],
)
async def test_a_body_that_is_not_read_ends_the_connection(server, headers, status):
    def talk() -> bytes:
        with socket.create_connection(server.server_address, timeout=60) as connection:
            connection.sendall(f"POST /v1/embeddings HTTP/1.1\r\n{headers}\r\n".encode())
            return b"".join(iter(lambda: connection.recv(4096), b""))

    answer = await anyio.to_thread.run_sync(talk)
    assert answer.startswith(b"HTTP/1.1 " + status)


async def test_a_client_that_stays_connected_does_not_hold_up_the_end():
    with anyio.fail_after(60):
        async with httpx2.AsyncClient() as client, embedding_server(HASH) as server:
            headers = {"authorization": f"Bearer {server.key}"}
            answer = await client.post(f"{server.base_url}/embeddings", json=ASK, headers=headers)
            assert answer.status_code == 200


async def test_a_client_that_hangs_up_is_no_event(capfd):
    asked, gone = threading.Event(), threading.Event()

    class Patient(HashEmbedder):
        def embed(self, texts):
            asked.set()
            assert gone.wait(60)
            return super().embed(texts)

    def hang_up(server: EmbeddingServer) -> None:
        body = json.dumps(ASK)
        head = f"POST /v1/embeddings HTTP/1.1\r\nauthorization: Bearer {server.key}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection(server.server_address, timeout=60) as connection:
            connection.sendall((head + body).encode())
            assert asked.wait(60)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.set()

    async with embedding_server(Patient()) as server:
        await anyio.to_thread.run_sync(hang_up, server)
        assert (await post(server, ASK)).status_code == 200
    assert server.requests == 2
    assert capfd.readouterr().err == ""


async def test_a_fault_of_the_model_is_seen(capfd):
    class Broken(HashEmbedder):
        def embed(self, texts):
            raise ArithmeticError("out of numbers")

    async with embedding_server(Broken()) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(server, ASK)
    assert "out of numbers" in capfd.readouterr().err


async def test_the_server_runs_by_hand_with_the_real_model():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.embedding_server", "--key", "a-key"]
    environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
    with anyio.fail_after(300):
        async with await anyio.open_process(command, env=environment, stderr=None) as process:
            output = anyio.streams.buffered.BufferedByteReceiveStream(process.stdout)
            lines = [(await output.receive_until(b"\n", 1000)).decode() for _ in range(3)]
            address = SimpleNamespace(base_url=lines[0].removeprefix("base URL: "), key="a-key")
            answer = await post(address, {"model": "all-minilm-l6-v2", "input": ["one", "two"]})
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    assert lines[1:] == ["key: a-key", "models: all-minilm-l6-v2, hash-384"]
    assert [len(row["embedding"]) for row in answer.json()["data"]] == [384, 384]
    assert answer.json()["usage"]["total_tokens"] == 6
