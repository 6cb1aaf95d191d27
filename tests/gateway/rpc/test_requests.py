"""One request, one answer: results, errors, notifications, batches."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from config.runtime.logs import merge_bound

pytestmark = pytest.mark.anyio


async def test_a_request_is_answered_with_its_result(connect):
    async with connect() as client:
        assert await client.call(1, "echo", {"text": "hello"}) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"text": "hello", "maxResults": 6},
        }


@pytest.mark.parametrize("params", [None, {}, []])
async def test_params_may_be_absent_or_empty(connect, params):
    async with connect() as client:
        assert (await client.call(1, "echo", params))["result"]["text"] == ""


async def test_null_params_count_as_absent(connect):
    async with connect() as client:
        client.send({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": None})
        assert (await client.receive())["result"]["text"] == ""


async def test_params_may_be_given_by_position(connect):
    async with connect() as client:
        reply = await client.call(1, "echo", ["hello", 3])
        assert reply["result"] == {"text": "hello", "maxResults": 3}


@pytest.mark.parametrize(
    "raw_id",
    [
        "1",
        "1.0",
        "1e3",
        "-0",
        '"a"',
        '"\\u0061"',
        '""',
        "123456789012345678901234567890",
        "1" * 5000,
    ],
)
async def test_an_id_is_echoed_byte_for_byte(connect, raw_id):
    async with connect() as client:
        client.send_bytes(f'{{"jsonrpc":"2.0","id": {raw_id} ,"method":"echo"}}\n'.encode())
        assert f'"id":{raw_id},"result"'.encode() in await client.receive_line()


@pytest.mark.parametrize("raw_id", ["null", "true", "false", "{}", "[1]"])
async def test_an_id_of_another_type_is_refused(connect, raw_id):
    async with connect() as client:
        client.send_bytes(f'{{"jsonrpc":"2.0","id":{raw_id},"method":"echo"}}\n'.encode())
        reply = await client.receive()
        assert reply["id"] is None
        assert reply["error"]["code"] == -32600
        assert reply["error"]["data"]["kind"] == "invalid_request"


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        ("1", None),
        ('"text"', None),
        ("null", None),
        ("{}", None),
        ('{"id":7}', 7),
        ('{"jsonrpc":"1.0","id":7,"method":"echo"}', 7),
        ('{"id":7,"method":"echo"}', 7),
        ('{"jsonrpc":"2.0","id":7,"method":5}', 7),
        ('{"jsonrpc":"2.0","id":7,"method":""}', 7),
        ('{"jsonrpc":"2.0","id":7,"method":"echo","params":"text"}', 7),
        ('{"jsonrpc":"2.0","method":1,"params":"bar"}', None),
    ],
)
async def test_what_is_no_request_is_an_invalid_request(connect, line, request_id):
    async with connect() as client:
        client.send_bytes(line.encode() + b"\n")
        reply = await client.receive()
        assert reply["id"] == request_id
        assert reply["error"]["data"]["kind"] == "invalid_request"
        assert "result" in await client.call(2, "echo")


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"hello",
        b'{"jsonrpc":"2.0","id":1,"method":"echo"',
        b'{"jsonrpc":"2.0","id":1,"method":"echo"} x',
        b'{"jsonrpc":"2.0","id":NaN,"method":"echo"}',
        b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"maxResults":Infinity}}',
        b'{"jsonrpc":"2.0","id":01,"method":"echo"}',
        b"\x00",
        b'{"id":1}\x00',
        b'{"id":"\xff"}',
        b"[" * 1_000_000 + b"]" * 1_000_000,  # Python 3.14 reads what the stack holds
        b'{"jsonrpc":"2.0","id":1,"method":"echo","params":'
        + b"[" * 1_000_000
        + b"]" * 1_000_000
        + b"}",
        b'[{"jsonrpc":"2.0","id":1,"method":"echo"},',
    ],
)
async def test_broken_json_is_one_parse_error_and_the_pipe_stays_usable(connect, line):
    async with connect() as client:
        client.send_bytes(line + b"\n")
        reply = await client.receive()
        assert reply["id"] is None
        assert reply["error"]["code"] == -32700
        assert reply["error"]["data"]["kind"] == "parse_error"
        assert "result" in await client.call(2, "echo")


async def test_a_line_over_the_limit_is_one_error_and_the_pipe_stays_usable(connect):
    async with connect(line_bytes=1000) as client:
        for _ in range(10):
            client.send_bytes(b"x" * 500)
        client.send_bytes(b"\n")
        reply = await client.receive()
        assert reply["id"] is None
        assert reply["error"]["data"]["kind"] == "line_too_long"
        assert reply["error"]["data"]["limitBytes"] == 1000
        assert "result" in await client.call(2, "echo")


async def test_a_lone_surrogate_in_a_request_becomes_a_replacement_character(connect):
    async with connect() as client:
        client.send_bytes(
            rb'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"cut \ud83d"}}'
        )
        client.send_bytes(b"\n")
        assert (await client.receive())["result"]["text"] == "cut \ufffd"


async def test_an_unknown_method_names_the_nearest_one(connect):
    async with connect() as client:
        error = (await client.call(1, "ecko"))["error"]
        assert error["code"] == -32601
        assert "'echo'" in error["data"]["remedy"]
        assert "wait" in error["data"]["methods"]


async def test_an_unknown_parameter_is_named_with_the_nearest_one(connect):
    async with connect() as client:
        error = (await client.call(1, "echo", {"maxResult": 3}))["error"]
        assert error["code"] == -32602
        assert "`maxResult`" in error["message"]
        assert "`maxResults`" in error["data"]["remedy"]


async def test_an_unexpected_exception_tells_only_a_reference_that_the_log_has_too(connect):
    with capture_logs() as records:
        async with connect() as client:
            reply = await client.call(1, "crash", {"text": "hunter2"})
    error = reply["error"]
    assert error["code"] == -32603
    assert error["data"]["kind"] == "internal"
    assert "hunter2" not in json.dumps(reply)
    assert "Traceback" not in json.dumps(reply)
    (record,) = [record for record in records if record["event"] == "internal error"]
    assert record["reference"] == error["data"]["reference"]
    assert isinstance(record["exc_info"], RuntimeError)


async def test_a_result_that_has_no_json_form_is_an_internal_error(connect):
    async with connect() as client:
        assert (await client.call(1, "unencodable"))["error"]["data"]["kind"] == "internal"
        assert "result" in await client.call(2, "echo")


async def test_a_handler_that_awaits_a_cancelled_future_still_gets_an_answer(connect):
    async with connect() as client:
        assert (await client.call(1, "orphan"))["error"]["data"]["kind"] == "internal"


async def test_a_notification_is_run_and_never_answered(connect):
    async with connect() as client:
        client.notify("note", {"text": "heard"})
        client.notify("note", {"unknown": 1})
        client.notify("no_such_method")
        assert (await client.call(1, "echo"))["id"] == 1
        assert client.workshop.noted == ["heard"]


async def test_a_notification_of_a_request_method_does_no_work(connect):
    async with connect() as client:
        client.notify("echo", {"text": "for nobody"})
        await client.call(1, "echo", {"text": "for me"})
        assert len(client.workshop.contexts) == 1


async def test_a_method_that_accepts_notifications_also_answers_requests(connect):
    async with connect() as client:
        assert await client.call(1, "note", {"text": "x"}) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": None,
        }


async def test_a_reply_of_the_client_is_ignored(connect):
    async with connect() as client:
        client.send({"jsonrpc": "2.0", "id": 1, "result": {}})
        client.send({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}})
        assert (await client.call(2, "echo"))["id"] == 2


async def test_a_slow_request_does_not_delay_the_next_line(connect):
    async with connect() as client:
        client.request("slow", "wait")
        assert (await client.call("fast", "echo"))["id"] == "fast"
        client.workshop.release.set()
        assert await client.receive() == {"jsonrpc": "2.0", "id": "slow", "result": "released"}


async def test_a_second_request_with_an_open_id_is_refused_and_the_first_goes_on(connect):
    async with connect() as client:
        client.request("x", "wait")
        error = (await client.call("x", "echo"))["error"]
        assert error["data"]["kind"] == "invalid_request"
        client.workshop.release.set()
        assert (await client.receive())["result"] == "released"


async def test_an_id_may_be_used_again_once_it_was_answered(connect):
    async with connect() as client:
        assert "result" in await client.call(1, "echo")
        assert "result" in await client.call(1, "echo")


async def test_a_request_past_its_deadline_is_answered_so(connect):
    async with connect() as client:
        error = (await client.call(1, "hurried"))["error"]
        assert error["data"]["kind"] == "deadline_exceeded"
        assert "0.05 s" in error["message"]
        assert client.workshop.cancelled == 1


async def test_a_handler_learns_request_id_and_session(connect):
    async with connect() as client:
        for request_id in ("abc", 7, 1.5, 10**30):
            await client.call(request_id, "echo")
            context = client.workshop.contexts[-1]
            assert context.request_id == request_id
            assert type(context.request_id) is type(request_id)
        client.send_bytes(b'{"jsonrpc": "2.0", "id": 1e400, "method": "echo"}\n')
        await client.receive_line()
        assert client.workshop.contexts[-1].request_id == "1e400"
        assert context.session is client.session


async def test_progress_comes_before_the_result_and_never_after(connect):
    async with connect() as client:
        client.request(1, "steps", {"steps": 3})
        frames = [await client.receive() for _ in range(4)]
        assert [frame["params"]["step"] for frame in frames[:3]] == [1, 2, 3]
        assert frames[3]["result"] == 3
        client.request(2, "count")
        assert "params" in await client.receive()
        assert (await client.receive())["id"] == 2
        client.workshop.contexts[0].notify("progress", {"step": "late"})
        assert (await client.call(3, "echo"))["id"] == 3


async def test_no_more_requests_run_than_allowed_and_all_are_answered(connect):
    async with connect(running=3, waiting=100) as client:
        for n in range(20):
            client.request(n, "wait")
        await client.until(lambda: client.workshop.active == 3)
        client.workshop.release.set()
        assert sorted([(await client.receive())["id"] for _ in range(20)]) == list(range(20))
        assert client.workshop.most_active == 3


async def test_every_request_leaves_one_log_record_with_its_id_method_and_outcome(connect):
    with capture_logs(processors=[merge_bound]) as records:
        async with connect() as client:
            await client.call("find-me", "echo", {"text": "private"})
            await client.call(2, "hurried")
    first, second = [record for record in records if record["event"] == "request"]
    assert (first["request"], first["method"], first["outcome"]) == ('"find-me"', "echo", "ok")
    assert (second["request"], second["outcome"]) == ("2", "deadline_exceeded")
    assert first["connection"] == "test"
    assert (first["log_level"], second["log_level"]) == ("debug", "info")
    assert "private" not in str(first)
