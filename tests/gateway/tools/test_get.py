"""`memory_get` on the wire: parameters, text, and refusals that are results."""

import pytest

from backends.interface import ReadAnswer, ReadRequest
from config.errors import ErrorKind
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.notes import GetParams, failed_result, read_request


def test_a_path_alone_asks_for_the_whole_file(params_of):
    assert read_request(params_of(GetParams, path="MEMORY.md")) == ReadRequest(path="MEMORY.md")


def test_zero_means_the_whole_file_as_documented(params_of):
    params = params_of(GetParams, **{"path": "MEMORY.md", "from": 0, "lines": 0})
    assert read_request(params) == ReadRequest(path="MEMORY.md")


def test_lines_are_asked_for_by_their_documented_names(params_of):
    params = params_of(GetParams, **{"path": "MEMORY.md", "from": 3, "lines": 5, "sessionKey": "x"})
    assert read_request(params) == ReadRequest(path="MEMORY.md", first_line=3, line_count=5)


@pytest.mark.parametrize(
    ("members", "asked"),
    [
        ({"path": "memory/x.md#L3-L5"}, ("memory/x.md", 3, 3)),
        ({"path": "MEMORY.md#L7"}, ("MEMORY.md", 7, 1)),
        ({"path": "x.md#L3-L5", "lines": 20}, ("x.md", 3, 20)),
        ({"path": "x.md#L5-L3"}, ("x.md", 5, 1)),
        ({"path": "x.md#L0"}, ("x.md#L0", None, None)),
        ({"path": "plan #L5.md"}, ("plan #L5.md", None, None)),
        ({"path": "[[x#L5]]"}, ("[[x#L5]]", None, None)),
    ],
)
def test_a_citation_asks_for_its_lines(members, asked, params_of):
    found = read_request(params_of(GetParams, **members))
    assert (found.path, found.first_line, found.line_count) == asked


@pytest.mark.parametrize("path", ["", " ", "\n\t"])
def test_a_blank_path_is_an_invalid_parameter(path, params_of):
    with pytest.raises(InvalidParamsError) as caught:
        read_request(params_of(GetParams, path=path))
    assert "path" in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    "members",
    [
        {"from": -1},
        {"lines": -1},
        {"from": 1.5},
        {"lines": "5"},
        {"first_line": 1},
        {"path": 7},
        {"path": None},
    ],
)
def test_wrong_and_unknown_parameters_are_refused(members, params_of):
    with pytest.raises(InvalidParamsError):
        params_of(GetParams, **({"path": "MEMORY.md"} | members))


def test_text_is_given_with_its_place(on_the_wire):
    answer = ReadAnswer(path="MEMORY.md", text="a\n\x1bb", status="ok", first_line=3, line_count=2)
    assert on_the_wire(answer) == {
        "text": "a\n\x1bb", "path": "MEMORY.md", "status": "ok", "from": 3, "lines": 2,
    }  # fmt: skip


def test_a_cut_text_says_where_to_go_on(on_the_wire):
    answer = ReadAnswer(
        path="MEMORY.md",
        text="a",
        status="ok",
        first_line=1,
        line_count=1,
        truncated=True,
        next_line=2,
    )
    wire = on_the_wire(answer)
    assert (wire["truncated"], wire["nextFrom"]) == (True, 2)


def test_a_missing_file_is_a_result(on_the_wire):
    answer = ReadAnswer(path="memory/x.md", text="", status="not_found", first_line=1, line_count=0)
    wire = on_the_wire(answer)
    assert (wire["status"], wire["text"], wire["lines"]) == ("not_found", "", 0)
    assert "error" not in wire


def test_a_refusal_is_a_result_with_its_kind(on_the_wire):
    refused = failed_result("../secret", "Not allowed.", kind=ErrorKind.PATH_NOT_ALLOWED)
    assert on_the_wire(refused) == {
        "text": "", "path": "../secret", "status": "error", "from": 0, "lines": 0,
        "error": "Not allowed.", "kind": "path_not_allowed",
    }  # fmt: skip


def test_a_disabled_memory_says_so(on_the_wire):
    wire = on_the_wire(
        failed_result("MEMORY.md", "Switched off.", kind=ErrorKind.DISABLED, disabled=True)
    )
    assert (wire["disabled"], wire["error"], wire["status"]) == (True, "Switched off.", "error")
    assert wire["kind"] == "disabled"
