"""The model servers of the clients refuse what the vendors refuse, record it, and do not answer endlessly."""

from __future__ import annotations

import http.client
import json

from fakes.client_models import FakeAnthropic, FakeGemini, FakeResponses
from fakes.each import each
from fakes.openclaw_model import ToolCall

LOOK = {"type": "object", "properties": {}}
ANTHROPIC = {
    "model": "m",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "Where?"}],
    "tools": [{"name": "mcp__a__look", "input_schema": LOOK}],
}
RESPONSES = {
    "model": "m",
    "input": [{"type": "message", "role": "user", "content": []}],
    "tools": [
        {"type": "namespace", "name": "mcp__a", "tools": [{"name": "look", "parameters": LOOK}]}
    ],
}
GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": "Where?"}]}],
    "tools": [{"functionDeclarations": [{"name": "mcp_a_look", "parametersJsonSchema": LOOK}]}],
}
GENERATE = "/v1beta/models/m:generateContent"
KINDS = [
    (FakeAnthropic, "/v1/messages", ANTHROPIC),
    (FakeResponses, "/v1/responses", RESPONSES),
    (FakeGemini, GENERATE, GEMINI),
]


def post(model, path, body, key=None):
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
    headers = {model.key_header: model.key_prefix + (key or model.key)}
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@each(("kind", "path", "body"), KINDS)
def test_a_script_is_said_to_who_offers_tools_first_a_call_then_words(kind, path, body):
    with kind() as model:
        model.script(ToolCall("look", {"at": "pond"}), "By the pond.")
        assert '"at' in post(model, path, body)[1]
        assert "By the pond." in post(model, path, body)[1]
        assert "Noted." in post(model, path, {**body, "tools": []})[1]
        assert (len(model.turns), model.refused) == (2, [])


@each(("kind", "path", "body"), KINDS)
def test_a_wrong_key_a_wrong_place_a_tool_that_is_not_offered_and_too_many_requests_are_refused(
    kind, path, body
):
    with kind(most=3) as model:
        model.script(ToolCall("listen", {}))
        statuses = [
            post(model, path, body, key="another")[0],
            post(model, "/elsewhere", body)[0],
            post(model, path, body)[0],
            post(model, path, body)[0],
            post(model, path, body)[0],
        ]
        assert statuses == [401, 400, 400, 200, 429]
        assert len(model.refused) == 4
        assert "listen is not offered" in model.refused[2]


CALL = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
GIVEN = {"type": "tool_result", "tool_use_id": "t", "content": "by the pond"}


@each(
    ("kind", "path", "body", "why"),
    [
        (FakeAnthropic, "/v1/messages", ANTHROPIC | {"max_tokens": None}, "max_tokens"),
        (FakeAnthropic, "/v1/messages", ANTHROPIC | {"messages": []}, "at least one message"),
        (FakeAnthropic, "/v1/messages", ANTHROPIC | {"tools": [{"name": "x"}]}, "input_schema"),
        (FakeAnthropic, "/v1/messages", ANTHROPIC | {"messages": [
            {"role": "assistant", "content": [CALL]}, {"role": "user", "content": "Well?"},
        ]}, "needs a tool_result"),
        (FakeAnthropic, "/v1/messages", ANTHROPIC | {"messages": [
            {"role": "user", "content": [GIVEN]},
        ]}, "needs a tool_result"),
        (FakeResponses, "/v1/responses", RESPONSES | {"input": []}, "at least one item"),
        (FakeResponses, "/v1/responses", RESPONSES | {"input": [
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ]}, "No tool call found"),
        (FakeResponses, "/v1/responses", RESPONSES | {"input": [
            {"type": "function_call", "call_id": "c"},
        ]}, "No tool output found"),
        (FakeGemini, GENERATE, GEMINI | {"contents": []}, "contents is not specified"),
        (FakeGemini, GENERATE, GEMINI | {"contents": [
            {"parts": [{"functionCall": {"name": "look"}}]}, {"parts": [{"text": "x"}]},
        ]}, "as many as"),
    ],
)  # fmt: skip
def test_what_the_vendor_refuses_is_refused_and_remembered(kind, path, body, why):
    with kind() as model:
        status, _ = post(model, path, body)
        assert status == 400
        assert why in model.refused[0]
        assert model.turns == []


@each(("kind", "path", "body"), KINDS)
def test_what_tools_answered_is_seen_as_the_model_reads_it(kind, path, body):
    bodies = {
        FakeAnthropic: {"messages": [
            {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [GIVEN]},
        ]},
        FakeResponses: {"input": [
            {"type": "function_call", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "by the pond"},
        ]},
        FakeGemini: {"contents": [
            {"parts": [{"functionCall": {"name": "look"}}]},
            {"parts": [{"functionResponse": {"name": "look", "response": {"o": "by the pond"}}}]},
        ]},
    }  # fmt: skip
    with kind() as model:
        post(model, path, body | bodies[kind])
        ((_, (result,)),) = model.turns
        assert "by the pond" in result
