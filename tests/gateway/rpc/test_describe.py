"""Types in words."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, inspect

from gateway.rpc.registry import describe_type


@pytest.mark.parametrize(
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
