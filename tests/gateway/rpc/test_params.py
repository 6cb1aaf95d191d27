"""The messages to a client about parameters that do not fit."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, inspect

from fakes.each import each
from gateway.rpc.registry import (
    Method,
    MethodRegistry,
    NoParams,
    RequestContext,
    decode_params,
    describe_type,
)
from gateway.rpc.wire import InvalidParamsError, MethodNotFoundError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Filter(msgspec.Struct, forbid_unknown_fields=True):
    after: str | None = None


class Params(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    query: Annotated[str, Meta(min_length=1, max_length=9)]
    max_results: Annotated[int, Meta(ge=1, le=50)] = 6
    min_score: Annotated[float, Meta(le=1)] | None = None
    sources: list[Literal["memory", "sessions"]] | None = None
    filter: Filter | None = None
    colour: Colour = Colour.RED
    explain: bool = False
    depth: Annotated[int, Meta(ge=0)] = 0
    labels: dict[str, str] | None = None
    anything: Any = None


def fail(raw: bytes) -> InvalidParamsError:
    with pytest.raises(InvalidParamsError) as caught:
        decode_params("find", Params, raw)
    return caught.value


def test_by_name_and_by_position_are_the_same():
    by_name = decode_params("find", Params, b'{"query":"a","maxResults":3}')
    assert by_name == decode_params("find", Params, b'["a",3]') == Params("a", 3)


def test_all_unknown_names_are_told_with_their_nearest_known_ones():
    error = fail(b'{"quary":"a","maxResult":1,"zzz":2}')
    assert "`quary`, `maxResult`, `zzz`" in error.message
    assert "`query` instead of `quary`" in str(error.remedy)
    assert "`maxResults` instead of `maxResult`" in str(error.remedy)
    assert error.details["unknown"] == ["quary", "maxResult", "zzz"]
    assert "minScore" in error.details["allowed"]


def test_any_request_may_carry_the_meta_of_mcp():
    assert decode_params("find", Params, b'{"query":"a","_meta":{"progressToken":1}}') == Params(
        "a"
    )
    decode_params("stop", NoParams, b'{"_meta":{}}')
    assert fail(b'{"query":"a","_meta":{},"zzz":1}').details["unknown"] == ["zzz"]


def test_meta_is_given_to_who_reads_it():
    class Reader(msgspec.Struct, forbid_unknown_fields=True):
        meta: dict[str, int] | None = msgspec.field(default=None, name="_meta")

    assert decode_params("read", Reader, b'{"_meta":{"n":1}}').meta == {"n": 1}


def test_very_many_unknown_names_give_a_short_answer():
    raw = msgspec.json.encode({"x" * 1000 + str(n): 1 for n in range(50)})
    assert len(str(fail(raw))) < 5000


def test_of_very_large_parameters_the_first_unknown_name_is_told():
    error = fail(b'{"nope":1,"other":"' + b"x" * 100_000 + b'"}')
    assert error.details["unknown"] == ["nope"]


def test_a_missing_parameter_is_named_and_described():
    error = fail(b"{}")
    assert error.message == "find needs the parameter `query`."
    assert error.remedy == "`query` (required) is a string (1 to 9 characters)."


@each(
    ("member", "place", "allowed"),
    [
        (b'"maxResults":"x"', "maxResults", "`maxResults` (optional) is a whole number (1 to 50)."),
        (b'"maxResults":0', "maxResults", "a whole number (1 to 50)"),
        (b'"maxResults":1.5', "maxResults", "a whole number (1 to 50)"),
        (b'"maxResults":null', "maxResults", "a whole number (1 to 50)"),
        (b'"minScore":"x"', "minScore", "a number (at most 1), or null"),
        (b'"minScore":1e999', "minScore", "a number (at most 1), or null"),
        (b'"sources":["x"]', "sources[0]", 'a list, each one of "memory", "sessions", or null'),
        (b'"sources":"x"', "sources", 'one of "memory", "sessions"'),
        (b'"colour":"green"', "colour", 'one of "red", "blue"'),
        (b'"explain":1', "explain", "true or false"),
        (b'"depth":-1', "depth", "a whole number (at least 0)"),
        (b'"labels":5', "labels", "an object, or null"),
        (b'"filter":{"aftr":"x"}', "filter", "an object, or null"),
        (b'"maxResults":' + b"9" * 5000, "maxResults", "a whole number (1 to 50)"),
    ],
)
def test_a_wrong_value_is_told_where_it_is_and_what_is_allowed(member, place, allowed):
    error = fail(b'{"query":"a",' + member + b"}")
    assert error.message.startswith(f"find: `{place}` cannot be ")
    assert allowed in str(error.remedy)
    assert error.details["parameter"] == place.split("[")[0]


def test_a_wrong_value_is_repeated_as_it_was_given_as_far_as_it_is_short():
    assert fail(b'{"query":"a","sources":["x"]}').message == 'find: `sources[0]` cannot be "x".'
    assert "(100 characters)" in fail(b'{"query":"a","colour":"' + b"x" * 100 + b'"}').message


def test_a_wrong_value_is_not_repeated_at_length():
    assert len(fail(b'{"query":"a","colour":"' + b"x" * 100_000 + b'"}').message) < 500


def test_too_many_positions_are_refused():
    assert "10 parameters" in fail(b"[" + b",".join([b"1"] * 11) + b"]").message
    with pytest.raises(InvalidParamsError, match="takes no parameters"):
        decode_params("ping", NoParams, b"[1]")


def test_a_wrong_value_by_position_is_told_by_name():
    assert '`maxResults` cannot be "x"' in fail(b'["a","x"]').message


def test_nesting_without_end_is_refused():
    assert (
        "nested"
        in fail(b'{"query":"a","anything":' + b"[" * 100_000 + b"]" * 100_000 + b"}").message
    )


@given(
    st.dictionaries(
        st.sampled_from([*Params.__struct_encode_fields__, "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2)
            ),
            max_leaves=5,
        ),
    )
)
def test_any_object_either_fits_or_is_explained(given_params):
    explained, decoded = "", None
    try:
        decoded = decode_params("find", Params, msgspec.json.encode(given_params))
    except InvalidParamsError as error:
        explained = str(error)
    assert isinstance(decoded, Params) != bool(explained)


async def nothing(_params: NoParams, _context: RequestContext) -> None: ...


def test_a_method_must_forbid_unknown_parameters():
    class Loose(msgspec.Struct):
        x: int = 0

    with pytest.raises(TypeError, match="must forbid"):
        Method("loose", Loose, nothing)


def test_two_methods_cannot_share_a_name():
    with pytest.raises(ValueError, match="named ping"):
        MethodRegistry([Method("ping", NoParams, nothing), Method("ping", NoParams, nothing)])


def test_methods_that_come_later_are_made_once_and_not_before_one_is_asked_for():
    made = []

    def later():
        made.append(Method("second", NoParams, nothing))
        return made

    registry = MethodRegistry([Method("first", NoParams, nothing)], later=later)
    assert (registry.find("first").name, made) == ("first", [])
    assert registry.find("second") is made[0]
    with pytest.raises(MethodNotFoundError) as caught:
        registry.find("third")
    assert caught.value.details["methods"] == registry.names() == ["first", "second"]
    assert len(made) == 1


def test_methods_that_could_not_be_made_are_made_when_one_is_asked_for_again():
    made = iter([OSError("Too many open files"), [Method("second", NoParams, nothing)]])

    def later():
        if isinstance(one := next(made), OSError):
            raise one
        return one

    registry = MethodRegistry([Method("first", NoParams, nothing)], later=later)
    with pytest.raises(OSError, match="Too many"):
        registry.find("second")
    assert registry.find("second").name == "second"


def test_a_name_unlike_all_others_is_not_found_without_a_guess():
    with pytest.raises(MethodNotFoundError) as caught:
        MethodRegistry([Method("ping", NoParams, nothing)]).find("x" * 5000)
    assert len(str(caught.value)) < 200


@each(
    ("kind", "words"),
    [
        (str, "a string"),
        (Annotated[str, Meta(min_length=1)], "a string (at least 1 character)"),
        (int, "a whole number"),
        (Annotated[float, Meta(ge=0, le=1)], "a number (0 to 1)"),
        (bool | None, "true or false, or null"),
        (Literal["a", "b"], 'one of "a", "b"'),
        (
            Annotated[tuple[int, ...], Meta(max_length=3)],
            "a list (at most 3 items), each a whole number",
        ),
        (dict[str, int], "an object"),
        (msgspec.Raw, "a value of another kind"),
        (date, "a day, such as 2026-02-08"),
        (Any, "any value"),
    ],
)
def test_a_type_is_described(kind, words):
    assert describe_type(inspect.type_info(kind)) == words
