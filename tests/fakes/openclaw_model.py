"""A loopback host that speaks OpenAI's chat completions to a real OpenClaw, as strictly as the vendor.

Requests that the vendor would refuse are refused and kept in `refused`. Without a script it answers that it
has noted the user's words.

    with FakeModel() as model:
        model.script(ToolCall("memory_search", {"query": "heron"}), "It nests at the mill pond.")
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fakes.loopback import LoopbackHandler, LoopbackHost, LoopbackServer

INTERNAL: Final = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
"""The beginning of messages that the host itself wrote in the user's name."""
_ARGUMENTS: Final = frozenset(
    "model messages stream stream_options tools tool_choice parallel_tool_calls max_completion_tokens "
    "max_tokens temperature top_p stop seed store user reasoning_effort response_format metadata "
    "prompt_cache_key prompt_cache_retention".split()
)
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STAMP: Final = re.compile(r"^\[\w{3} [0-9: -]+ [A-Z]+\] ")
_PARTS: Final = {"text": "text", "image_url": "image_url", "refusal": "refusal"}


class ToolCall(NamedTuple):
    """A call that the model makes instead of an answer in words."""

    name: str
    arguments: dict[str, Any]


class Asked(NamedTuple):
    """One request that was accepted."""

    question: str
    """The user's last message, without the time and the facts that the host puts around it."""
    messages: list[dict[str, Any]]
    tools: list[str]


class _RefusedError(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(eq=False)
class FakeModel(LoopbackHost[None]):
    """The model host. Use as a context manager."""

    key: str = "test-key-0123456789abcdef"
    model: str = "listener"
    most: int = 100
    """The most requests that it answers, so that a host which asks without end is stopped."""

    asked: list[Asked] = field(default_factory=list, init=False)
    refused: list[str] = field(default_factory=list, init=False)
    _script: deque[str | ToolCall] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        self.serve(_Server(self))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *replies: str | ToolCall) -> None:
        """Adds the answers to the next requests."""
        self._script.extend(replies)

    def forget_script(self) -> None:
        """Drops the answers that it has not given yet."""
        self._script.clear()

    # For the handler.

    def reply(self, body: Any) -> str | ToolCall:
        _check(body, self.model)
        if len(self.asked) >= self.most:
            raise _RefusedError(f"this model answers {self.most} requests")
        messages = body["messages"]
        tools = [tool["function"]["name"] for tool in body.get("tools", ())]
        with self._changed:
            self.asked.append(Asked(_question(messages), messages, tools))
            self._changed.notify_all()
            return self._script.popleft() if self._script else f"Noted: {self.asked[-1].question}"


class _Server(LoopbackServer):
    def __init__(self, model: FakeModel) -> None:
        self.model = model
        super().__init__(_Handler)


class _Handler(LoopbackHandler):
    server: _Server

    def do_GET(self) -> None:
        self._refuse(_RefusedError(f"GET {self.path}: not found", 404))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            body = self._body(content)
            reply = self.server.model.reply(body)
        except _RefusedError as refused:
            self._refuse(refused)
            return
        described = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
        if body.get("stream"):
            self._stream(described, _chunks(reply, usage="stream_options" in body))
        else:
            self._send(200, described | _whole(reply))

    def _body(self, content: bytes) -> Any:
        if self.headers.get("Authorization") != f"Bearer {self.server.model.key}":
            raise _RefusedError("Incorrect API key provided", 401)
        if self.path != "/v1/chat/completions":
            raise _RefusedError(f"POST {self.path}: not found", 404)
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError("The body must be application/json", 415)
        try:
            return json.loads(content)
        except ValueError:
            raise _RefusedError("We could not parse the JSON body of your request") from None

    def _refuse(self, refused: _RefusedError) -> None:
        self.server.model.refused.append(str(refused))
        error = {
            "message": str(refused),
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
        self._send(refused.status, {"error": error})

    def _send(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, described: dict[str, Any], chunks: Iterable[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self._event(json.dumps({**described, "object": "chat.completion.chunk", **chunk}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        content = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))


_USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _whole(reply: str | ToolCall) -> dict[str, Any]:
    if isinstance(reply, str):
        message, finish = {"role": "assistant", "content": reply}, "stop"
    else:
        message = {"role": "assistant", "content": None, "tool_calls": [_call(reply)]}
        finish = "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"object": "chat.completion", "choices": [choice], "usage": _USAGE}


def _chunks(reply: str | ToolCall, *, usage: bool) -> Iterable[dict[str, Any]]:
    """Yields a reply as a stream, words in two pieces."""
    if isinstance(reply, str):
        half = len(reply) // 2
        deltas = [{"role": "assistant", "content": reply[:half]}, {"content": reply[half:]}]
        finish = "stop"
    else:
        deltas = [
            {"role": "assistant", "content": None, "tool_calls": [{"index": 0, **_call(reply)}]}
        ]
        finish = "tool_calls"
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    if usage:
        yield {"choices": [], "usage": _USAGE}


def _call(reply: ToolCall) -> dict[str, Any]:
    function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
    return {"id": "call_1", "type": "function", "function": function}


def _question(messages: list[dict[str, Any]]) -> str:
    said = (_text(one["content"]) for one in reversed(messages) if one["role"] == "user")
    latest = next((text for text in said if not text.startswith(INTERNAL)), "")
    return _STAMP.sub("", latest).split("\n\nRuntime: agent=")[0]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _check(body: Any, model: str) -> None:
    """Raises a refusal where the vendor would refuse the request."""
    if not isinstance(body, dict):
        raise _RefusedError("The body must be an object")
    if unknown := sorted(body.keys() - _ARGUMENTS):
        raise _RefusedError(f"Unrecognized request arguments supplied: {', '.join(unknown)}")
    if body.get("model") != model:
        raise _RefusedError(f"The model {body.get('model')!r} does not exist", 404)
    if "stream_options" in body and body.get("stream") is not True:
        raise _RefusedError("'stream_options' is only allowed when 'stream' is enabled")
    if "tool_choice" in body and "tools" not in body:
        raise _RefusedError("'tool_choice' is only allowed when 'tools' are specified")
    if "tools" in body:
        _check_tools(body["tools"])
    _check_messages(body.get("messages"))


def _check_tools(tools: Any) -> None:
    if not isinstance(tools, list) or not 1 <= len(tools) <= 128:
        raise _RefusedError("'tools' must have 1 to 128 items")
    for tool in tools:
        function = tool.get("function", {})
        if tool.get("type") != "function" or not _FUNCTION_NAME.fullmatch(function.get("name", "")):
            raise _RefusedError(f"Invalid tool: {tool}")
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            raise _RefusedError(f"Invalid schema for function {function['name']!r}")


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise _RefusedError("'messages' must have at least one item")
    open_calls: set[str] = set()
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise _RefusedError(
                    "A 'tool' message must answer a preceding message with 'tool_calls'"
                )
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            raise _RefusedError(f"These tool_call_ids had no answer: {sorted(open_calls)}")
        elif role == "assistant":
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
        elif role not in ("system", "developer", "user"):
            raise _RefusedError(f"Invalid role: {role!r}")
        if not (role == "assistant" and open_calls and message.get("content") is None):
            _check_content(message.get("content"))
    if open_calls:
        raise _RefusedError(f"These tool_call_ids had no answer: {sorted(open_calls)}")


def _check_content(content: Any) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise _RefusedError("'content' must be a string or a list of parts")
    for part in content:
        if not isinstance(part, dict) or _PARTS.get(part.get("type", "")) not in part:
            raise _RefusedError(f"Invalid content part: {part}")
