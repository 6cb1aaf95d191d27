"""One call after the other over a socket, without an event loop: the questions of a command to a running gateway."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gateway.client import BlockingClient, GatewayGoneError, RemoteError, SilentGatewayError
from gateway.rpc.wire import DeadlineExceededError

PATIENCE_S = 60


class Peer:
    """The gateway's end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lines = connection.makefile("rb")

    def receive(self) -> Any:
        return json.loads(self._lines.readline())

    def say(self, **frame: object) -> None:
        self.connection.sendall(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def close(self) -> None:
        self._lines.close()
        self.connection.close()


@pytest.fixture
def peer_and_client() -> Iterator[tuple[Peer, BlockingClient]]:
    here, there = socket.socketpair()
    there.settimeout(PATIENCE_S)
    peer = Peer(there)
    yield peer, BlockingClient(here)
    peer.close()
    here.close()


@pytest.fixture
def client(peer_and_client) -> BlockingClient:
    return peer_and_client[1]


@pytest.fixture
def peer(peer_and_client) -> Peer:
    return peer_and_client[0]


@pytest.fixture
def calling(client) -> Iterator[Callable[..., Future[Any]]]:
    """A call in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda *arguments, **options: thread.submit(client.call, *arguments, **options)


def test_a_call_has_its_result_and_others_are_told_meanwhile(peer, client, calling):
    notified = []
    client.notified = lambda method, params: notified.append((method, params))
    result = calling("status", {"probe": False})
    asked = peer.receive()
    assert (asked["method"], asked["params"]) == ("status", {"probe": False})
    peer.say(method="progress", params={"files": 3})
    peer.say(id=asked["id"] + 100, result="of nobody")
    peer.say(id=asked["id"], result={"ok": True})
    assert result.result(PATIENCE_S) == {"ok": True}
    assert notified == [("progress", {"files": 3})]


def test_what_the_gateway_refuses_is_raised_with_its_remedy(peer, calling):
    result = calling("memory_get", {"path": "../x"})
    data = {"kind": "invalid_params", "remedy": "Name a note."}
    peer.say(id=peer.receive()["id"], error={"code": -32602, "message": "No.", "data": data})
    with pytest.raises(RemoteError, match=r"No\.") as caught:
        result.result(PATIENCE_S)
    assert (caught.value.code, caught.value.remedy) == (-32602, "Name a note.")


def test_an_answer_in_many_pieces_is_one(peer, calling):
    result = calling("memory_search", {"query": "boiler"})
    line = json.dumps({"jsonrpc": "2.0", "id": peer.receive()["id"], "result": "Kessel ü" * 5000})
    raw = line.encode() + b"\n"
    for start in range(0, len(raw), 997):
        peer.connection.sendall(raw[start : start + 997])
    assert result.result(PATIENCE_S) == "Kessel ü" * 5000


def test_a_gateway_that_goes_away_is_told_from_one_that_is_late(peer, calling):
    late = calling("status", timeout_s=0.05)
    with pytest.raises(DeadlineExceededError, match=r"status did not answer in 0\.05 s"):
        late.result(PATIENCE_S)
    gone = calling("status")
    peer.receive()
    peer.receive()
    peer.close()
    with pytest.raises(GatewayGoneError, match="closed the connection"):
        gone.result(PATIENCE_S)


def test_what_is_no_json_rpc_is_told_as_such(peer, calling):
    result = calling("status")
    peer.receive()
    peer.connection.sendall(b"HTTP/1.1 400 Bad Request\n")
    with pytest.raises(GatewayGoneError, match="400 Bad Request"):
        result.result(PATIENCE_S)


def test_one_that_works_gives_signs_of_life_and_is_waited_for(peer, calling):
    result = calling("sync", timeout_s=math.inf, look_after_s=0.02, patience_s=PATIENCE_S)
    asked = peer.receive()
    for _ in range(3):
        sign = peer.receive()
        assert sign["method"] == "$/cancelRequest"
        peer.say(id=sign["id"], result=None)
    peer.say(id=asked["id"], result="done")
    assert result.result(PATIENCE_S) == "done"


def test_one_without_a_sign_of_life_is_not_waited_for(peer, calling):
    result = calling("sync", timeout_s=math.inf, look_after_s=0.02, patience_s=0.02)
    with pytest.raises(SilentGatewayError, match="no sign of life"):
        result.result(PATIENCE_S)
