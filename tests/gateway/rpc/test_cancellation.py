"""Whom a cancellation means."""

from __future__ import annotations

import pytest

from gateway.rpc.connection import cancelled_id
from gateway.rpc.wire import InvalidParamsError


@pytest.mark.parametrize(
    ("params", "key"),
    [
        (b'{"id":1}', b"1"),
        (b'{"requestId":"a","reason":"b","_meta":{}}', "a"),
        (b'{"id":"\\u0061"}', "a"),
        (b'{"id":1,"requestId":2}', b"2"),
    ],
)
def test_the_request_is_named_by_either_parameter(params, key):
    assert cancelled_id(params).key == key


@pytest.mark.parametrize(
    "params", [None, b"{}", b"[]", b"[1]", b'{"id":null}', b'{"id":[1]}', b'{"x":' + b"[" * 5000]
)
def test_anything_else_names_nobody(params):
    with pytest.raises(InvalidParamsError):
        cancelled_id(params)
