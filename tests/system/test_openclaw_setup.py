"""The basis of the tests beside the real OpenClaw: its installation, its processes, a model as strict as the vendor."""

from __future__ import annotations

import http.client
import json
import subprocess
import time

import pytest

from endurance.processes import has_ended
from fakes.openclaw import SETUP, HostError, OpenClaw
from fakes.openclaw_model import INTERNAL, FakeModel, ToolCall

PATIENCE_S = 120
USER = {"role": "user", "content": "Where does the heron nest?"}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ],
}
GIVEN = {"role": "tool", "tool_call_id": "call_1", "content": "by the pond"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def post(model: FakeModel, body: object, key: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {key or model.key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def asked(model: FakeModel, *messages: object, **more: object) -> dict[str, object]:
    return {"model": model.model, "messages": messages, **more}


@pytest.fixture
def model():
    with FakeModel(most=3) as model:
        yield model


def test_without_npm_the_set_up_says_in_one_sentence_what_is_missing(tmp_path):
    for tool in ("bash", "dirname", "uname"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    done = subprocess.run(
        [str(SETUP)], env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == "npm was not found; install Node.js with npm first.\n"


def test_an_installation_that_is_there_is_only_named(tmp_path):
    program = tmp_path / "memory-gateway/openclaw/2026.9.6/node_modules/.bin/openclaw"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    for tool in ("bash", "dirname", "uname", "npm"):
        (tmp_path / tool).symlink_to("/usr/bin/false" if tool == "npm" else f"/usr/bin/{tool}")
    environment = {"PATH": str(tmp_path), "HOME": "/", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [str(SETUP)],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"{program}\n", "")


@pytest.mark.parametrize(
    ("messages", "more"),
    [
        ((), {}),
        (({"role": "robot", "content": "x"},), {}),
        (({"role": "user", "content": None},), {}),
        (({"role": "user", "content": [{"type": "text", "words": "x"}]},), {}),
        ((USER, GIVEN), {}),
        ((USER, CALLS, USER), {}),
        ((USER, CALLS), {}),
        ((USER,), {"session": "main"}),
        ((USER,), {"stream_options": {"include_usage": True}}),
        ((USER,), {"tool_choice": "auto"}),
        ((USER,), {"tools": []}),
        ((USER,), {"tools": [LOOK | {"function": {"name": "not a name"}}]}),
    ],
)
def test_the_model_refuses_what_the_vendor_refuses_and_remembers_it(model, messages, more):
    status, body = post(model, asked(model, *messages, **more))
    assert status == 400
    assert model.refused == [json.loads(body)["error"]["message"]]
    assert model.asked == []


def test_the_model_knows_its_key_and_its_name(model):
    assert post(model, asked(model, USER), key="another")[0] == 401
    assert post(model, asked(model, USER) | {"model": "other"})[0] == 404


def test_the_model_answers_what_the_user_said_not_what_the_host_added(model):
    added = {"role": "user", "content": f"{INTERNAL} none"}
    stamped = {
        "role": "user",
        "content": "[Sun 2026-02-01 09:00 UTC] Hello\n\nRuntime: agent=main | x",
    }
    status, body = post(model, asked(model, stamped, added))
    assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "Noted: Hello")


def test_the_model_streams_its_script_in_pieces_and_calls_tools(model):
    model.script(ToolCall("look", {"at": "pond"}), "By the pond.")
    _, first = post(model, asked(model, USER, stream=True, tools=[LOOK]))
    _, second = post(model, asked(model, USER, CALLS, GIVEN, stream=True, tools=[LOOK]))
    assert first.endswith(b"data: [DONE]\n\n")
    (call,) = chunks(first)[0]["choices"][0]["delta"]["tool_calls"]
    assert (call["function"]["name"], call["function"]["arguments"]) == ("look", '{"at": "pond"}')
    said = [one["choices"][0]["delta"].get("content", "") for one in chunks(second)]
    assert len(said) == 3
    assert "".join(said) == "By the pond."


def test_the_model_does_not_answer_without_end(model):
    statuses = [post(model, asked(model, USER))[0] for _ in range(4)]
    assert statuses == [200, 200, 200, 400]


def chunks(stream: bytes) -> list[dict]:
    events = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line]
    return [json.loads(one) for one in events if one != "[DONE]"]


def test_a_host_that_hangs_is_ended_with_all_of_its_children(tmp_path, model):
    program = tmp_path / "openclaw"
    program.write_text(
        "#!/bin/sh\ntrap '' TERM\nsleep 600 &\necho $! > child\necho on my way\nwait\n"
    )
    program.chmod(0o755)
    host = OpenClaw(str(program), tmp_path / "root", model)
    with pytest.raises(HostError, match="did not end"):
        host.run("doctor", patience_s=1)
    child = int((host.root / "child").read_text())
    deadline = time.monotonic() + PATIENCE_S
    while not has_ended(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_host_that_ends_instead_of_becoming_ready_says_why(tmp_path, model):
    program = tmp_path / "openclaw"
    program.write_text("#!/bin/sh\necho the migration did not complete\nexit 78\n")
    program.chmod(0o755)
    host = OpenClaw(str(program), tmp_path / "root", model)
    with pytest.raises(HostError, match="ended with 78:\nthe migration did not"), host.gateway():
        pass
