"""A loopback host that speaks Anthropic's Messages to a real Claude Code, as far as that asks it.

Without a script it says that it has noted what the user said.

    with FakeClaude() as model:
        model.script(ToolCall("Read", {"file_path": "note.md"}), "It nests at the mill pond.")
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from fakes.loopback import LoopbackHandler, LoopbackHost, LoopbackServer
from fakes.openclaw_model import Asked, ToolCall

REMINDER: Final = "<system-reminder>"
"""With it begins what the program adds to the user's message."""
_USAGE: Final = {"input_tokens": 100, "output_tokens": 10}


@dataclass(frozen=True)
class Refusal:
    """What the model answers instead of a message."""

    status: int
    message: str


Reply = str | ToolCall | Refusal


@dataclass(eq=False)
class FakeClaude(LoopbackHost[None]):
    """The model host. Use as a context manager."""

    key: str = "sk-ant-test-0123456789abcdef"
    most: int = 100
    """Messages that it answers: a program that asks without end is not answered without end."""

    asked: list[Asked] = field(default_factory=list, init=False)
    _script: deque[Reply] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        self.serve(_Server(self))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes Claude Code ask this host, and nobody else."""
        return {
            "ANTHROPIC_BASE_URL": self.base_url,
            "ANTHROPIC_API_KEY": self.key,
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def script(self, *replies: Reply) -> None:
        """What it says to the next requests."""
        self._script.extend(replies)

    # For the handler.

    def reply(self, body: Any) -> Reply:
        if len(self.asked) >= self.most:
            return Refusal(400, f"this model answers {self.most} requests")
        question = _question(body["messages"])
        tools = [tool["name"] for tool in body.get("tools", ())]
        with self._changed:
            self.asked.append(Asked(question, body["messages"], tools))
            self._changed.notify_all()
            return self._script.popleft() if self._script else f"Noted: {question}"


class _Server(LoopbackServer):
    def __init__(self, model: FakeClaude) -> None:
        self.model = model
        super().__init__(_Handler)


class _Handler(LoopbackHandler):
    server: _Server

    def do_GET(self) -> None:
        self._send(404, _error("not_found_error", f"GET {self.path}: not found"))

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if self.headers.get("x-api-key") != self.server.model.key:
            self._send(401, _error("authentication_error", "invalid x-api-key"))
        elif path == "/v1/messages/count_tokens":
            self._send(200, {"input_tokens": 100})
        elif path == "/v1/messages":
            self._answer(body, self.server.model.reply(body))
        else:
            self._send(404, _error("not_found_error", f"POST {path}: not found"))

    def _answer(self, body: Any, reply: Reply) -> None:
        if isinstance(reply, Refusal):
            self._send(reply.status, _error("invalid_request_error", reply.message))
            return
        number = len(self.server.model.asked)
        message = _message(body["model"], number, reply)
        if body.get("stream"):
            self._stream(message)
        else:
            self._send(200, message)

    def _send(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in _events(message):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _message(model: str, number: int, reply: str | ToolCall) -> dict[str, Any]:
    if isinstance(reply, str):
        block: dict[str, Any] = {"type": "text", "text": reply}
    else:
        name, arguments = reply
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "end_turn" if isinstance(reply, str) else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message in pieces, as a stream comes."""
    begun = message | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    (block,) = message["content"]
    if block["type"] == "text":
        empty = {"type": "text", "text": ""}
        half = len(block["text"]) // 2
        pieces = (block["text"][:half], block["text"][half:])
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    else:
        empty = block | {"input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": _USAGE}
    yield {"type": "message_stop"}


def _question(messages: list[dict[str, Any]]) -> str:
    """What the user said last."""
    for message in reversed(messages):
        texts = [text for text in _texts(message["content"]) if not text.startswith(REMINDER)]
        if message["role"] == "user" and texts:
            return texts[-1]
    return ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]
