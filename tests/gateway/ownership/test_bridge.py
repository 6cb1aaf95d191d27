"""A bridge between one client and owners that die, refuse, stay silent or are missing."""

from __future__ import annotations

import contextlib

import anyio
import pytest

from config.settings import ScopePolicy
from fakes.settings import make_settings

pytestmark = pytest.mark.anyio


def request(request_id, method="memory_search"):
    return {"jsonrpc": "2.0", "id": request_id, "method": method}


def result(request_id, value="found"):
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def refusal(request_id):
    error = {"code": 1003, "message": "ending", "data": {"kind": "shutting_down"}}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


async def test_lines_and_answers_cross_as_they_are(bridged):
    async with bridged() as every:
        owner = await every.accept()
        odd = b'{"id": 1.50, "method" : "x", "jsonrpc":"2.0", "more": "\\u00e4"}'
        await every.client.send(odd)
        with anyio.fail_after(60):
            assert await owner.stream.receive() == odd + b"\n"
        await owner.send(result(1.5, {"text": "茶"}), {"jsonrpc": "2.0", "method": "told"})
        assert await every.client.receive() == result(1.5, {"text": "茶"})
        assert (await every.client.receive())["method"] == "told"


async def test_what_a_dead_owner_did_not_answer_is_put_to_the_next_in_order(bridged):
    async with bridged() as every:
        owner = await every.accept()
        await every.client.send(request(1), request(2), request(3))
        for _ in range(3):
            await owner.receive()
        await owner.send(result(2))
        assert await every.client.receive() == result(2)
        await every.lose_owner()
        heir = await every.accept()
        assert [(await heir.receive())["id"] for _ in range(2)] == [1, 3]
        await heir.send(result(3), result(1))
        assert [await every.client.receive() for _ in range(2)] == [result(3), result(1)]


async def test_what_an_ending_owner_refuses_is_put_to_the_next(bridged):
    async with bridged() as every:
        owner = await every.accept()
        await every.client.send(request(1))
        await owner.receive()
        await owner.send(refusal(1))
        await every.lose_owner()
        heir = await every.accept()
        assert (await heir.receive())["id"] == 1
        await heir.send(result(1))
        assert await every.client.receive() == result(1)


async def test_what_must_not_happen_twice_is_answered_instead_of_being_repeated(bridged):
    async with bridged() as every:
        owner = await every.accept()
        await every.client.send(
            request(1, "memory_append"), request(2, "memory_append"), request(3)
        )
        for _ in range(3):
            await owner.receive()
        await owner.send(refusal(2))
        assert await every.client.receive() == refusal(2)
        await every.lose_owner()
        error = (await every.client.receive())["error"]
        assert (error["data"]["kind"], "append again" in error["data"]["remedy"]) == (
            "index_unavailable", True,
        )  # fmt: skip
        heir = await every.accept()
        assert (await heir.receive())["id"] == 3


async def test_lines_wait_for_an_owner(bridged):
    async with bridged() as every:
        await every.client.send(request(1), request(2))
        owner = await every.accept()
        assert [(await owner.receive())["id"] for _ in range(2)] == [1, 2]


async def test_without_any_owner_requests_are_answered_with_the_reason_until_one_is_there(bridged):
    async with bridged(patience_s=0.05) as every:
        await every.client.send([request(1), request(2)], request(3))
        batch, alone = await every.client.receive(), await every.client.receive()
        errors = [one["error"]["data"]["kind"] for one in (*batch, alone)]
        assert errors == ["index_unavailable"] * 3
        owner = await every.accept()
        await every.client.send(request(4))
        while (asked := await owner.receive())["id"] != 4:
            pass
        await owner.send(result(4))
        assert asked["id"] == 4
        while "error" in (answer := await every.client.receive()):
            await every.client.send(request(4))
        assert answer == result(4)


async def test_an_owner_that_talks_nonsense_counts_as_gone(bridged):
    async with bridged() as every:
        owner = await every.accept()
        await every.client.send(request(1))
        await owner.receive()
        await owner.send(b"no JSON")
        heir = await every.accept()
        assert (await heir.receive())["id"] == 1


async def test_a_shutdown_answers_what_an_owner_is_silent_about(bridged):
    async with bridged(grace_s=0.05) as every:
        owner = await every.accept()
        await every.client.send(request(1), [request(2)])
        await owner.receive()
        every.shutdown.set()
        alone, batch = await every.client.receive(), await every.client.receive()
        assert alone["error"]["data"]["kind"] == "shutting_down"
        assert batch[0]["error"]["data"]["kind"] == "shutting_down"
        await every.ended.wait()


async def test_a_client_that_stops_sending_gets_its_answers_first(bridged):
    async with bridged() as every:
        owner = await every.accept()
        await every.client.send(request(1))
        await every.client.stream.send_eof()
        await owner.receive()
        await owner.send(result(1))
        assert await every.client.receive() == result(1)
        await every.ended.wait()


@pytest.mark.parametrize("with_answer", [True, False])
async def test_the_wish_to_end_is_the_bridge_s_own_affair_once_it_is_delivered(
    bridged, with_answer
):
    async with bridged() as every:
        owner = await every.accept()
        frame = request(1, "shutdown")
        if not with_answer:
            del frame["id"]
        await every.client.send(frame)
        assert (await owner.receive())["method"] == "shutdown"
        if with_answer:
            assert not every.asked_to_end.is_set()
            await owner.send(result(1))
        await every.asked_to_end.wait()


async def test_a_client_that_never_reads_stops_the_owner_instead_of_filling_memory(bridged):
    async with bridged(outbox_bytes=1000) as every:
        owner = await every.accept()
        await every.client.send(request(1))
        frame, sent = result(0, "x" * 100_000), 0
        with anyio.move_on_after(0.5):
            while sent < 1000:
                await owner.send(frame)
                sent += 1
        assert sent < 100, "the sockets between hold some; the bridge holds one"


async def test_a_silent_owner_is_named_within_the_patience_and_what_it_answers_later_is_not_told(
    bridged,
):
    async with bridged(patience_s=0.3) as every:
        owner = await every.accept()
        await every.client.send(request(1), request(2, "memory_append"), [request(3)])
        answers = [await every.client.receive() for _ in range(3)]
        errors = [(one[0] if isinstance(one, list) else one)["error"] for one in answers]
        assert {error["data"]["kind"] for error in errors} == {"index_unavailable"}
        assert all("Process 7" in error["message"] for error in errors)
        assert any("written, or not" in error["message"] for error in errors)
        with contextlib.suppress(anyio.BrokenResourceError):
            await owner.send(result(1))
        await every.client.send(request(4))
        assert (await every.client.receive())["error"]["data"]["kind"] == "index_unavailable"
        awake = await every.accept(answers=False)
        await every.greet(awake)
        await every.client.send(request(5))
        while (await awake.receive())["id"] != 5:
            pass
        await awake.send(result(5))
        while "error" in (answer := await every.client.receive()):
            pass
        assert answer == result(5)


async def test_an_owner_that_is_silent_from_the_beginning_is_named_too(bridged):
    async with bridged(patience_s=0.2) as every:
        await every.client.send(request(1))
        await every.accept(answers=False)
        error = (await every.client.receive())["error"]
        assert (error["data"]["kind"], "Process 7" in error["message"]) == (
            "index_unavailable",
            True,
        )


async def test_an_owner_that_works_for_long_is_not_silent_as_long_as_it_answers_to_its_name(
    bridged,
):
    async with bridged(patience_s=0.3) as every:
        owner = await every.accept()
        await every.client.send(request(1))
        assert (await owner.receive())["id"] == 1
        for _ in range(20):
            ping = await owner.receive()
            assert ping["method"] == "$/cancelRequest"
            await owner.send({"jsonrpc": "2.0", "id": ping["id"], "result": {"cancelled": False}})
        await owner.send(result(1))
        assert await every.client.receive() == result(1)


async def test_an_older_owner_answers_unless_the_guest_s_own_scope_may_deny(bridged, tmp_path):
    unknown = {"error": {"code": -32601, "message": "?", "data": {"kind": "method_not_found"}}}
    async with bridged() as every:
        owner = await every.accept(answers=False)
        await every.greet(owner, **unknown)
        await every.client.send(request(1))
        assert (await owner.receive())["id"] == 1
    strict = make_settings(tmp_path, scope=ScopePolicy(default="deny"))
    async with bridged(settings=strict) as every:
        owner = await every.accept(answers=False)
        await every.greet(owner, **unknown)
        await every.client.send(request(1))
        error = (await every.client.receive())["error"]
        assert (error["data"]["kind"], "older release" in error["message"]) == (
            "index_unavailable", True,
        )  # fmt: skip
