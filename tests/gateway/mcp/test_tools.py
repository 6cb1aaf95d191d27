"""The tools as they are listed: complete, valid, stable, and containing only what a model needs."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from fakes.each import each
from gateway.mcp.mcp_methods import TOOLS, GetArguments, SearchArguments, tool_list
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.notes import GetParams
from gateway.tools.search import MAX_GLOB_CHARS, MAX_GLOBS, MAX_PATH_CHARS, SearchParams

LISTED = {tool["name"]: tool for tool in tool_list(appends=True)}


def test_the_tools_are_listed_always_in_the_same_order():
    reading = ["memory_search", "memory_get"]
    assert [tool["name"] for tool in tool_list(appends=False)] == reading
    assert [tool["name"] for tool in tool_list(appends=True)] == [*reading, "memory_append"]
    assert [tool.describe() for tool in TOOLS.values()] == list(tool_list(appends=True))


@each("name", LISTED)
def test_every_part_of_a_tool_is_explained(name):
    tool = LISTED[name]
    assert tool["title"] and len(tool["description"]) > 100
    for member in tool["inputSchema"]["properties"].values():
        assert member["description"].endswith(".")
    assert tool["annotations"]["readOnlyHint"] is (name != "memory_append")
    assert tool["annotations"]["destructiveHint"] is False
    assert tool["annotations"]["openWorldHint"] is False


def test_claude_code_does_not_hide_a_tool_behind_its_own_search():
    assert all(tool["_meta"] == {"anthropic/alwaysLoad": True} for tool in LISTED.values())


@each("name", LISTED)
def test_schemas_are_valid_objects_without_null_and_references(name):
    found = LISTED[name]["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["type"] == "object"
    assert "null" not in json.dumps(found)
    assert "$" not in json.dumps(found)


@each(
    "arguments",
    [
        SearchArguments("boiler", include=("memory/*",) * (MAX_GLOBS + 1)),
        SearchArguments("boiler", exclude=("x" * (MAX_GLOB_CHARS + 1),)),
        SearchArguments("boiler", tags=("house",) * (MAX_GLOBS + 1)),
        GetArguments("x" * (MAX_PATH_CHARS + 1)),
    ],
)
def test_a_model_meets_the_limits_of_the_methods(arguments):
    with pytest.raises(InvalidParamsError, match="cannot be what was given"):
        arguments.to_params()


@each("name", LISTED)
def test_no_tool_promises_an_answer_as_data_which_would_have_to_be_sent_twice(name):
    assert "outputSchema" not in LISTED[name]


def test_a_model_is_not_offered_what_only_the_host_may_say():
    offered = set(LISTED["memory_search"]["inputSchema"]["properties"])
    assert offered == set(SearchParams.__struct_encode_fields__) - {"sessionKey", "explain"}
    offered = set(LISTED["memory_get"]["inputSchema"]["properties"])
    assert offered == set(GetParams.__struct_encode_fields__) - {"sessionKey"}


def test_arguments_become_the_parameters_of_the_method():
    given = {"query": "x", "maxResults": 3, "after": "2026-02-01", "include": ["memory/*"]}
    params = msgspec.convert(given, SearchArguments).to_params()
    assert params == msgspec.convert(given, SearchParams)
    given = {"path": "MEMORY.md", "from": 3}
    assert msgspec.convert(given, GetArguments).to_params() == msgspec.convert(given, GetParams)
