"""Exceptions on the wire."""

from __future__ import annotations

from backends.interface import PathNotAllowedError
from config.errors import ErrorKind, MemoryGatewayError
from fakes.each import each
from gateway.rpc.wire import CODES, OverloadedError, RpcError, to_wire

STANDARD = {
    ErrorKind.PARSE_ERROR: -32700,
    ErrorKind.INVALID_REQUEST: -32600,
    ErrorKind.METHOD_NOT_FOUND: -32601,
    ErrorKind.INVALID_PARAMS: -32602,
    ErrorKind.INTERNAL: -32603,
    ErrorKind.UNSUPPORTED_PROTOCOL_VERSION: -32022,  # the standard of MCP
}


def test_every_kind_has_a_code_of_its_own():
    assert set(CODES) == set(ErrorKind)
    assert len(set(CODES.values())) == len(CODES)


def test_standard_kinds_have_the_codes_of_the_standard():
    assert {kind: CODES[kind] for kind in STANDARD} == STANDARD


@each("kind", sorted(set(ErrorKind) - set(STANDARD)))
def test_own_codes_are_outside_the_reserved_range(kind):
    assert not -32768 <= CODES[kind] <= -32000


def test_an_error_of_any_floor_carries_message_kind_and_remedy():
    wire = to_wire(PathNotAllowedError("../x"))
    assert wire.code == CODES[ErrorKind.PATH_NOT_ALLOWED]
    assert wire.message == "Reading '../x' is not allowed."
    assert wire.data["kind"] == "path_not_allowed"
    assert "MEMORY.md" in str(wire.data["remedy"])


def test_an_error_without_remedy_has_none_on_the_wire():
    assert to_wire(OverloadedError("Too much.")).data == {"kind": "overloaded"}


def test_details_join_the_data():
    wire = to_wire(RpcError("x", details={"limitBytes": 4}))
    assert wire.data == {"kind": "internal", "limitBytes": 4}


def test_an_error_that_came_through_task_groups_is_still_itself():
    inner = MemoryGatewayError("Cause.")
    group = BaseExceptionGroup("a", [ExceptionGroup("b", [inner])])
    assert to_wire(group).message == "Cause."


def test_an_unexpected_exception_gives_nothing_away():
    wire = to_wire(ValueError("password=hunter2"))
    assert wire.data["kind"] == "internal"
    assert "hunter2" not in str(wire)
    assert str(wire.data["reference"]) in wire.message


def test_several_errors_at_once_are_unexpected():
    group = ExceptionGroup("x", [MemoryGatewayError("a"), MemoryGatewayError("b")])
    assert to_wire(group).data["kind"] == "internal"


def test_a_shortage_of_threads_is_told_as_one_with_its_remedy():
    wire = to_wire(RuntimeError("can't start new thread"))
    assert wire.data["kind"] == "overloaded"
    assert "TasksMax" in str(wire.data["remedy"])
