"""The lines that a bridge keeps: every line without an answer, in order, and no other."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.ownership.bridge import OpenLines, read_reply
from gateway.rpc.wire import decode_line


def request(request_id, method="memory_search", **params):
    frame = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(frame).encode()


def notification(method, **params):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def result(request_id):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}).encode()


def refusal(request_id, kind="shutting_down"):
    error = {"code": 1003, "message": "", "data": {"kind": kind}}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()


def add(lines, line):
    return lines.add(line, decode_line(line, batch_members=8))


def settle(lines, frame):
    answered = lines.find(read_reply(frame))
    if answered is not None:
        lines.drop(answered)
    return answered


def test_a_line_is_open_until_it_is_answered():
    lines = OpenLines()
    for number in (1, "1", 2.5):
        add(lines, request(number))
    assert settle(lines, result("1")).line == request("1")
    assert list(lines.replay()) == [request(1), request(2.5)]
    assert settle(lines, result("1")) is None


def test_a_notification_has_no_answer_and_is_not_repeated():
    lines = OpenLines()
    assert add(lines, notification("sync")).ids == ()
    assert list(lines.replay()) == []


def test_a_batch_is_one_line_and_its_array_one_answer():
    lines = OpenLines()
    batch = b"[" + request("a") + b"," + request("b") + b"]"
    add(lines, batch)
    assert list(lines.replay()) == [batch]
    assert settle(lines, b"[" + result("b") + b"," + result("a") + b"]").is_batch
    assert len(lines) == 0


def test_of_two_lines_with_one_id_the_answer_that_refuses_the_second_leaves_the_first_open():
    lines = OpenLines()
    first, second = request(1), request(1, "status")
    add(lines, first)
    add(lines, second)
    assert settle(lines, refusal(1, "invalid_request")).line == second
    assert list(lines.replay()) == [first]


def test_a_next_owner_hears_first_who_the_client_is():
    lines = OpenLines()
    add(lines, request(1, "initialize", sessionKey="agent:main:main"))
    settle(lines, result(1))
    add(lines, notification("notifications/initialized"))
    add(lines, request(2))
    handshake, initialized, search = map(json.loads, lines.replay())
    assert handshake["params"] == {"sessionKey": "agent:main:main"}
    assert initialized["method"] == "notifications/initialized"
    assert search["id"] == 2
    assert read_reply(result(handshake["id"])).is_ours
    assert not read_reply(result(1)).is_ours


def test_an_introduction_that_is_still_open_is_not_made_twice():
    lines = OpenLines()
    line = request(1, "initialize")
    add(lines, line)
    assert list(lines.replay()) == [line]


def test_only_the_cancellation_that_ends_all_answers_makes_a_line_forgotten():
    lines = OpenLines()
    add(lines, request(1))
    add(lines, request(2))
    add(lines, notification("$/cancelRequest", id=1))
    add(lines, notification("notifications/cancelled", requestId=2))
    add(lines, notification("notifications/cancelled"))
    assert list(lines.replay()) == [request(1)]


def test_the_wish_to_end_is_noticed_also_inside_of_a_batch():
    lines = OpenLines()
    assert add(lines, notification("shutdown")).ends_process
    assert add(lines, b"[" + request(1) + b"," + request(2, "shutdown") + b"]").ends_process
    assert not add(lines, request(3)).ends_process


def test_a_refusal_is_told_from_every_other_answer():
    assert read_reply(refusal(1)).is_refusal
    assert read_reply(b"[" + result(1) + b"," + refusal(2) + b"]").is_refusal
    assert not read_reply(refusal(1, "cancelled")).is_refusal
    assert not read_reply(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}').is_refusal
    assert not read_reply(b'{"jsonrpc":"2.0","id":1,"error":{"data":"text"}}').is_refusal
    assert not read_reply(notification("notifications/progress", done=1)).keys


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
def test_what_is_open_is_what_was_asked_and_not_answered_in_the_order_of_asking(steps):
    lines = OpenLines()
    expected: list[int] = []
    for asks, number in steps:
        if asks and number not in expected:
            add(lines, request(number))
            expected.append(number)
        elif not asks:
            answered = settle(lines, result(number))
            assert (answered is not None) == (number in expected)
            expected = [one for one in expected if one != number]
    assert list(lines.replay()) == [request(number) for number in expected]


def test_what_must_not_be_done_twice_is_known_as_a_tool_too():
    lines = OpenLines()
    assert add(lines, request(1, "tools/call", name="memory_get")).is_repeatable
    appending = add(lines, request(2, "tools/call", name="memory_append", arguments={"text": "x"}))
    assert not appending.is_repeatable
    assert not add(lines, request(3, "tools/call", name="shutdown")).ends_process
    assert add(lines, b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": [1]}').ids
