"""Frames: one line each, valid UTF-8, whatever their content."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fakes.each import each
from gateway.rpc.wire import (
    ParseError,
    RequestId,
    encode_batch,
    encode_error,
    encode_notification,
    encode_result,
    to_wire,
)

ID = RequestId(raw=b'"a"', key="a")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


class Hit(msgspec.Struct, rename="camel"):
    start_line: int
    snippet: str


@given(JSON)
def test_any_result_is_one_line_that_decodes_to_itself(result):
    frame = encode_result(ID, result)
    assert len(frame.decode().splitlines()) == 1
    assert json.loads(frame) == {"jsonrpc": "2.0", "id": "a", "result": result}


@each("character", ["\n", "\r", "\u2028", "\u2029", "\u0085", "\x0b", "\x1c"])
def test_no_reader_can_split_a_frame_at_a_line_break_in_a_text(character):
    frame = encode_result(ID, {character: f"a{character}b"})
    assert len(frame.decode().splitlines()) == 1
    assert json.loads(frame)["result"] == {character: f"a{character}b"}


def test_an_id_with_a_line_break_cannot_split_a_frame_either():
    request_id = RequestId(raw='"\u2028"'.encode(), key="\u2028")
    frame = encode_result(request_id, 1)
    assert len(frame.decode().splitlines()) == 1
    assert json.loads(frame)["id"] == "\u2028"


def test_structs_are_compact_json():
    assert encode_result(ID, [Hit(1, "x")]) == (
        b'{"jsonrpc":"2.0","id":"a","result":[{"startLine":1,"snippet":"x"}]}'
    )


def test_lone_surrogates_in_a_result_become_replacement_characters():
    frame = encode_result(ID, [Hit(1, "a\udc80"), {"k\ud800": 1}])
    assert json.loads(frame)["result"] == [{"startLine": 1, "snippet": "a\ufffd"}, {"k\ufffd": 1}]


def test_lone_surrogates_in_an_error_become_replacement_characters():
    frame = encode_error(None, to_wire(ParseError("bad \ud800")))
    assert json.loads(frame)["error"]["message"] == "bad \ufffd"


def test_numbers_that_json_cannot_spell_are_null():
    assert json.loads(encode_result(ID, [float("nan"), float("inf")]))["result"] == [None, None]


def test_a_notification_has_no_id():
    assert json.loads(encode_notification("progress", {"done": 1})) == {
        "jsonrpc": "2.0",
        "method": "progress",
        "params": {"done": 1},
    }


def test_a_batch_is_an_array_of_its_frames():
    assert json.loads(encode_batch([b"1", b'"two"'])) == [1, "two"]
