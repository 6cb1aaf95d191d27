"""The lines that are turns, and their text."""

from __future__ import annotations

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from backends.transcripts.turns import render_event, render_turn
from fakes.each import each

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def message(content, role="user", **entry):
    body = {"type": "message", "message": {"role": role, "content": content}, **entry}
    return json.dumps(body).encode()


@each(
    ("line", "text"),
    [
        (message("hello"), "User: hello"),
        (message("<recalled>\nold news\n</recalled>\nhello"), "User: hello"),
        (message([{"type": "text", "text": "a <recalled> b"}]), "User: a <recalled> b"),
        (message("hello", "assistant"), "Assistant: hello"),
        (message([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "User: a b"),
        (message("  two\n\n  lines\t and\u3000more \ufeff"), "User: two lines and more"),
        (message([{"type": "image", "data": "x"}, {"type": "text", "text": "seen"}]), "User: seen"),
        (message([{"type": "thinking", "thinking": "hm"}, {"type": "toolCall", "name": "x"},
                  {"type": "text", "text": "done"}], "assistant"), "Assistant: done"),
        (message(["odd", None, 3, {"type": "text", "text": 4}, {"type": "text", "text": "ok"}]), "User: ok"),
        (message("今天和供应商谈了茶叶"), "User: 今天和供应商谈了茶叶"),
        (message("nul \0 here"), "User: nul \ufffd here"),
        (message("password: hunter2\nnext line"), "User: password: *** next line"),
        (b' {"type":"message","message":{"role":"user","content":"spaced"}} \r', "User: spaced"),
        (b'{"type":"message","message":{"role":"user","content":"lone \\ud83d half"}}', "User: lone ? half"),
        (b'{"type":"message","message":{"role":"user","content":"caf\xe9"}}', "User: caf\ufffd"),
    ],
)  # fmt: skip
def test_turns_of_user_and_assistant_are_one_line_each(line, text):
    assert render_turn(line) == text


@each(
    "line",
    [
        b"", b"   ", b"null", b"[]", b"3", b'"text"', b"{", b'{"type":"message"', b"\xff\xfe",
        b"[" * 100_000,
        b'{"type":"message","message":{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        json.dumps({"type": "session", "id": "x"}).encode(),
        json.dumps({"type": "compaction", "summary": "x"}).encode(),
        json.dumps({"type": "message"}).encode(),
        json.dumps({"type": "message", "message": "text"}).encode(),
        json.dumps({"type": ["message"], "message": {"role": "user", "content": "x"}}).encode(),
        message("x", "toolResult"), message("x", "system"), message("x", ["user"]), message("x", {}),
        message(""), message("  \n "), message([]), message(None), message(7), message({"text": "x"}),
        message([{"type": "thinking", "text": "x"}], "assistant"),
        message("x", type="custom_message"),
    ],
)  # fmt: skip
def test_every_other_line_is_no_turn(line):
    assert render_turn(line) is None


@given(json_values | st.builds(lambda c, r: {"type": "message", "message": {"role": r, "content": c}},
                               json_values, st.sampled_from(["user", "assistant", "tool"])))  # fmt: skip
def test_no_json_breaks_the_reading_and_a_turn_never_has_two_lines(value):
    turn = render_turn(json.dumps(value).encode())
    assert turn is None or (turn.startswith(("User: ", "Assistant: ")) and "\n" not in turn)


INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecretive\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
INFO = 'Conversation info: \u27e6openclaw:ctx\u27e7\n```json\n{"a": "b"}\n```\n'
REPLIED = "Reply target of current user message: \u27e6openclaw:ctx\u27e7\nAnna: earlier\n\n"


@each(
    ("line", "text"),
    [
        (message("hello"), "User: hello"),
        (message([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "assistant"),
         "Assistant: a b"),
        (message(f"before\n{INTERNAL}\nafter"), "User: before after"),
        (message(f"{INTERNAL}"), None),
        (message("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> never ended"), None),
        (message(f"{INFO}{REPLIED}hello"), "User: hello"),
        (message(f"{REPLIED}{INFO}hello\n\nmore"), "User: hello more"),
        (message("I wrote \u27e6openclaw:ctx\u27e7 here"), "User: I wrote \u27e6openclaw:ctx\u27e7 here"),
        (message("NO_REPLY", "assistant"), None),
        (message("HEARTBEAT_OK", "assistant"), None),
        (message("NO_REPLY means silence", "assistant"), "Assistant: NO_REPLY means silence"),
        ((b'{"type":"message","message":{"role":"user","content":"ping",'
         b'"provenance":{"kind":"internal_system"}}}'), None),
        ((b'{"type":"message","message":{"role":"user","content":"ping",'
         b'"provenance":{"kind":"inter_session"}}}'), None),
        ((b'{"type":"message","message":{"role":"user","content":"ping",'
         b'"provenance":{"kind":"external_user"}}}'), "User: ping"),
        (b'{"type":"message","message":{"role":"user","content":"lone \\ud83d half"}}',
         "User: lone ? half"),
        (b'{"type":"leaf","targetId":"x"}', None),
    ],
)  # fmt: skip
def test_of_an_event_only_what_people_and_agents_said_is_a_turn(line, text):
    assert render_event(line) == text


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_an_event_holds_it_is_one_line_or_none(line):
    turn = render_event(line)
    assert turn is None or (turn.startswith(("User: ", "Assistant: ")) and "\n" not in turn)


@each("filler", ["\u27e6openclaw:ctx\u27e7\n", "a \u27e6openclaw:ctx\u27e7\n```json\n", "x\n"])
def test_blocks_of_the_host_are_taken_out_in_linear_time(filler):
    started = time.thread_time()
    render_event(message(f"a \u27e6openclaw:ctx\u27e7\n{filler * 100_000}"))
    assert time.thread_time() - started < 20
