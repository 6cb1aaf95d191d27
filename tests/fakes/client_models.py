"""Loopback model hosts on the wires of Claude Code, Codex and Gemini CLI, as strict as the vendors where it matters.

A host answers requests that offer tools by its script, and a client's other requests (titles, routes) with one
word. Requests that the vendor would refuse are refused and kept in `refused`.

    with FakeAnthropic() as model:
        model.script(ToolCall("memory_search", {"query": "heron"}), "At the mill pond.")
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from fakes.loopback import LoopbackHandler, LoopbackHost, LoopbackServer
from fakes.openclaw_model import ToolCall

Json = dict[str, Any]
Reply = str | ToolCall


class Turn(NamedTuple):
    """One request that offered tools."""

    tools: dict[str, Json]
    """The tools by the client's names, as the model sees them."""
    results: list[str]
    """The answers of tools so far, as the model reads them."""


class _RefusedError(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(eq=False)
class ClientModel(LoopbackHost[None]):
    """The common part of the three hosts. Use as a context manager."""

    key: str = "test-key-0123456789abcdef"
    most: int = 20
    """The most requests that are answered, so that a client which asks without end is stopped."""

    turns: list[Turn] = field(default_factory=list, init=False)
    bodies: list[str] = field(default_factory=list, init=False)
    """The whole request of each turn, as JSON."""
    refused: list[str] = field(default_factory=list, init=False)
    count: int = field(default=0, init=False)
    _script: deque[Reply] = field(default_factory=deque, init=False)

    key_header: ClassVar[str]
    key_prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.serve(_Server(self))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, *replies: Reply) -> None:
        self._script.extend(replies)

    def reply(self, path: str, body: Json) -> Reply:
        """Returns the host's reply. A tool is found by the end of its name: each client has its own prefix."""
        with self._changed:
            self.count += 1
            if self.count > self.most:
                raise _RefusedError(f"this model answers {self.most} requests", 429)
            turn = self.read(path, body)
            if not turn.tools:
                return "Noted."
            self.turns.append(turn)
            self.bodies.append(json.dumps(body, ensure_ascii=False))
            said = self._script.popleft() if self._script else "Noted."
            if isinstance(said, str):
                return said
            name = next((one for one in turn.tools if one.endswith(said.name)), None)
            if name is None:
                raise _RefusedError(f"{said.name} is not offered, only {sorted(turn.tools)}")
            return ToolCall(name, said.arguments)

    def read(self, path: str, body: Json) -> Turn:
        """Reads a request. Raises the refusal where the vendor would refuse it."""
        raise NotImplementedError

    def events(self, path: str, body: Json, said: Reply) -> Iterable[tuple[str | None, Json]]:
        """Yields the answer as events, each with its name where the wire has names."""
        raise NotImplementedError

    def whole(self, path: str, body: Json, said: Reply) -> Json:
        """Returns the answer to a request that wants no stream."""
        raise NotImplementedError

    def streams(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))


class _Server(LoopbackServer):
    def __init__(self, model: ClientModel) -> None:
        self.model = model
        super().__init__(_Handler)


class _Handler(LoopbackHandler):
    server: _Server

    def do_GET(self) -> None:
        self._send(404, {"error": {"message": f"GET {self.path}: not found"}})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        model, content = self.server.model, self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        try:
            if self.headers.get(model.key_header) != model.key_prefix + model.key:
                raise _RefusedError("the key is not right", 401)
            body = json.loads(content)
            said = model.reply(path, body)
            if model.streams(path, body):
                self._stream(model.events(path, body, said))
            else:
                self._send(200, model.whole(path, body, said))
        except _RefusedError as refused:
            model.refused.append(str(refused))
            error = {"type": "invalid_request_error", "message": str(refused)}
            self._send(refused.status, {"type": "error", "error": error})

    def _send(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, events: Iterable[tuple[str | None, Json]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events:
            named = f"event: {name}\n" if name else ""
            content = f"{named}data: {json.dumps(data)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self.wfile.write(b"0\r\n\r\n")


def _need(condition: object, message: str) -> None:
    if not condition:
        raise _RefusedError(message)


def _texts(content: Any) -> str:
    """Returns the text of a content that is a text or a list of blocks with texts."""
    if isinstance(content, str):
        return content
    return "".join(one.get("text", "") for one in content or ())


class FakeAnthropic(ClientModel):
    """Messages: `POST /v1/messages`."""

    key_header = "x-api-key"

    def read(self, path: str, body: Json) -> Turn:
        if path == "/v1/messages/count_tokens":
            return Turn({}, [])
        _need(path == "/v1/messages", f"POST {path}: not found")
        _need(isinstance(body.get("max_tokens"), int), "max_tokens: field required")
        messages = body.get("messages")
        _need(isinstance(messages, list) and messages, "messages: at least one message is required")
        tools = {tool["name"]: tool for tool in body.get("tools", ())}
        for tool in tools.values():
            has_schema = tool.get("input_schema", {}).get("type") == "object"
            _need(has_schema or "type" in tool, f"tools.{tool['name']}.input_schema: required")
        return Turn(tools, list(self._results(messages)))

    def _results(self, messages: list[Json]) -> Iterator[str]:
        waiting: set[str] = set()
        for message in messages:
            blocks = message["content"] if isinstance(message["content"], list) else []
            answered = {one["tool_use_id"] for one in blocks if one["type"] == "tool_result"}
            _need(answered == waiting, "every tool_use needs a tool_result in the next message")
            for one in blocks:
                if one["type"] == "tool_result":
                    yield _texts(one.get("content"))
            waiting = {one["id"] for one in blocks if one["type"] == "tool_use"}

    def whole(self, path: str, body: Json, said: Reply) -> Json:
        if path.endswith("count_tokens"):
            return {"input_tokens": 100}
        return self._message(body) | {"content": [self._block(said)]} | self._end(said)

    def events(self, path: str, body: Json, said: Reply) -> Iterator[tuple[str, Json]]:
        block = self._block(said)
        if isinstance(said, str):
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": said}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
        end = self._end(said)
        usage = end.pop("usage")
        for kind, data in (
            ("message_start", {"message": self._message(body)}),
            ("content_block_start", {"index": 0, "content_block": empty}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": end, "usage": usage}),
            ("message_stop", {}),
        ):
            yield kind, {"type": kind, **data}

    def _message(self, body: Json) -> Json:
        usage = {"input_tokens": 100, "output_tokens": 1}
        known = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
        return {**known, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}

    def _block(self, said: Reply) -> Json:
        if isinstance(said, str):
            return {"type": "text", "text": said}
        name = f"toolu_{self.count}"
        return {"type": "tool_use", "id": name, "name": said.name, "input": said.arguments}

    def _end(self, said: Reply) -> Json:
        reason = "end_turn" if isinstance(said, str) else "tool_use"
        usage = {"input_tokens": 100, "output_tokens": 10}
        return {"stop_reason": reason, "stop_sequence": None, "usage": usage}


class FakeResponses(ClientModel):
    """OpenAI's Responses: `POST /v1/responses`."""

    key_header, key_prefix = "Authorization", "Bearer "

    def read(self, path: str, body: Json) -> Turn:
        _need(path == "/v1/responses", f"POST {path}: not found")
        items = body.get("input")
        _need(isinstance(items, list) and items, "input: at least one item is required")
        tools: dict[str, Json] = {}
        for tool in body.get("tools", ()):
            if tool["type"] == "namespace":
                tools |= {f"{tool['name']}/{one['name']}": one for one in tool["tools"]}
            elif tool["type"] == "function":
                _need(tool["parameters"]["type"] == "object", f"{tool['name']}: not an object")
                tools[tool["name"]] = tool
        return Turn(tools, list(self._results(items)))

    def _results(self, items: list[Json]) -> Iterator[str]:
        called: set[str] = set()
        for item in items:
            if item.get("type") == "function_call":
                called.add(item["call_id"])
            elif item.get("type") == "function_call_output":
                _need(item["call_id"] in called, "No tool call found for function call output")
                called.discard(item["call_id"])
                yield _texts(item["output"])
        _need(not called, f"No tool output found for function call {sorted(called)}")

    def whole(self, path: str, body: Json, said: Reply) -> Json:
        return self._response([self._item(said)])

    def events(self, path: str, body: Json, said: Reply) -> Iterator[tuple[str, Json]]:
        item = self._item(said)
        for kind, data in (
            ("response.created", {"response": self._response([]) | {"status": "in_progress"}}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": self._response([item])}),
        ):
            yield kind, {"type": kind, **data}

    def _item(self, said: Reply) -> Json:
        if isinstance(said, str):
            content = [{"type": "output_text", "text": said, "annotations": []}]
            return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        namespace, _, name = said.name.rpartition("/")
        call = {
            "type": "function_call",
            "id": f"fc_{self.count}",
            "call_id": f"call_{self.count}",
            "name": name,
            "arguments": json.dumps(said.arguments),
        }
        return call | ({"namespace": namespace} if namespace else {})

    def _response(self, output: list[Json]) -> Json:
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 110,
        }
        known = {"id": f"resp_{self.count}", "object": "response", "status": "completed"}
        return {**known, "output": output, "usage": usage}


class FakeGemini(ClientModel):
    """Gemini: `POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent`."""

    key_header = "x-goog-api-key"

    def read(self, path: str, body: Json) -> Turn:
        _need(path.startswith("/v1beta/models/"), f"POST {path}: not found")
        if path.endswith(":countTokens"):
            return Turn({}, [])
        _need(path.endswith("enerateContent"), f"POST {path}: not found")
        contents = body.get("contents")
        _need(isinstance(contents, list) and contents, "contents is not specified")
        tools = {
            one["name"]: one
            for tool in body.get("tools", ())
            for one in tool.get("functionDeclarations", ())
        }
        return Turn(tools, list(self._results(contents)))

    def _results(self, contents: list[Json]) -> Iterator[str]:
        waiting: list[str] = []
        for content in contents:
            parts = content["parts"]
            answered = [one["functionResponse"] for one in parts if "functionResponse" in one]
            _need(
                [one["name"] for one in answered] == waiting,
                "function response parts must be as many as the function call parts before them",
            )
            for one in answered:
                yield json.dumps(one["response"], ensure_ascii=False)
            waiting = [one["functionCall"]["name"] for one in parts if "functionCall" in one]

    def streams(self, path: str, body: Json) -> bool:
        return path.endswith(":streamGenerateContent")

    def whole(self, path: str, body: Json, said: Reply) -> Json:
        if path.endswith(":countTokens"):
            return {"totalTokens": 100}
        if isinstance(said, str):
            schema = body.get("generationConfig", {}).get("responseMimeType")
            part: Json = {"text": "{}" if schema == "application/json" else said}
        else:
            part = {"functionCall": {"name": said.name, "args": said.arguments}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
        answer = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [answer], "usageMetadata": usage, "modelVersion": "test"}

    def events(self, path: str, body: Json, said: Reply) -> Iterator[tuple[None, Json]]:
        yield None, self.whole(path, body, said)
