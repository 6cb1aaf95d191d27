"""The revision of a request."""

from __future__ import annotations

import msgspec
import pytest

from fakes.each import each
from gateway.mcp.eras import (
    CAPABILITIES_KEY,
    HANDSHAKE_REVISIONS,
    REVISION_KEY,
    STATELESS_REVISIONS,
    UnsupportedRevisionError,
    negotiated,
    revision_of,
    speaks_mcp,
    stateless_revision,
)
from gateway.rpc.wire import InvalidParamsError, to_wire


@each("revision", HANDSHAKE_REVISIONS)
def test_every_revision_with_a_handshake_is_agreed_to(revision):
    assert negotiated(revision) == revision


@each("requested", [None, "1", "2026-07-28", "1900-01-01", "2099-01-01"])
def test_anything_else_gets_the_newest_that_has_one(requested):
    assert negotiated(requested) == "2025-11-25"


def test_what_was_agreed_holds_for_requests_that_say_nothing():
    assert revision_of(None, "2025-06-18").name == "2025-06-18"
    assert revision_of({"progressToken": 1}, "2025-06-18").name == "2025-06-18"
    assert not revision_of({}, None).is_stateless


@pytest.mark.parametrize("agreed", [None, "2025-06-18"])
def test_a_request_that_carries_its_revision_speaks_that_one(agreed):
    revision = revision_of({REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}, agreed)
    assert revision.is_stateless


@pytest.mark.parametrize("requested", ["1900-01-01", "2025-11-25"])
def test_an_unknown_revision_is_refused_with_those_that_are_known(requested):
    with pytest.raises(UnsupportedRevisionError) as caught:
        revision_of({REVISION_KEY: requested, CAPABILITIES_KEY: {}}, None)
    wire = to_wire(caught.value)
    assert wire.code == -32022
    assert wire.data["requested"] == requested
    assert wire.data["supported"] == [*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS]


def test_an_unknown_revision_is_refused_as_one_whatever_else_is_missing():
    with pytest.raises(UnsupportedRevisionError):
        revision_of({REVISION_KEY: "2031-01-01"}, None)


@each(
    "meta",
    [
        None,
        {},
        {CAPABILITIES_KEY: {}},
        {REVISION_KEY: "2026-07-28"},
        {REVISION_KEY: 7, CAPABILITIES_KEY: {}},
    ],
)
def test_a_stateless_request_must_carry_revision_and_capabilities(meta):
    with pytest.raises(InvalidParamsError, match="_meta"):
        stateless_revision(meta)


def test_wrong_arguments_are_told_the_model_since_the_revision_that_says_so():
    explained = {name: revision_of(None, name).explains_arguments for name in HANDSHAKE_REVISIONS}
    assert explained == {
        "2025-11-25": True,
        "2025-06-18": False,
        "2025-03-26": False,
        "2024-11-05": False,
    }
    assert stateless_revision({REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}).explains_arguments


@each(
    ("message", "is_mcp"),
    [
        ({"method": "server/discover", "params": {"_meta": {}}}, True),
        ({"method": "tools/list"}, True),
        ({"method": "initialize", "params": {"protocolVersion": "x", "clientInfo": {}}}, True),
        ({"method": "initialize", "params": {"client": "a"}}, False),
        ({"method": "memory_search", "params": {"query": "x"}}, False),
        ({"method": "memory_search", "params": {"_meta": {REVISION_KEY: "2026-07-28"}}}, True),
        ({"method": "status", "params": [1]}, False),
        ([{"method": "tools/call"}], True),
        ([], False),
        (5, False),
    ],
)
def test_the_first_line_tells_a_client_of_mcp(message, is_mcp):
    assert speaks_mcp(msgspec.json.encode(message)) is is_mcp


@each("line", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_message_is_no_client_of_mcp(line):
    assert not speaks_mcp(line)
