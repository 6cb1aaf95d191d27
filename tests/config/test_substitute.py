"""`${NAME}` in values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.source.environment import substitute

ENVIRONMENT = {
    "KEY": "sk-1",
    "A_2": "two",
    "EMPTY": "",
    "BLANK": " \n",
    "lower": "no",
    "NESTED": "${KEY}",
}


@pytest.mark.parametrize(
    ("text", "filled", "used", "missing"),
    [
        ("plain", "plain", (), ()),
        ("${KEY}", "sk-1", ("KEY",), ()),
        ("a-${KEY}-${A_2}-b", "a-sk-1-two-b", ("KEY", "A_2"), ()),
        ("${KEY}${KEY}", "sk-1sk-1", ("KEY", "KEY"), ()),
        ("$${KEY}", "${KEY}", (), ()),
        ("$$${KEY}", "$${KEY}", (), ()),
        ("${MISSING}", "${MISSING}", (), ("MISSING",)),
        ("${EMPTY}", "${EMPTY}", (), ("EMPTY",)),
        ("${BLANK}", "${BLANK}", (), ("BLANK",)),
        ("${lower}", "${lower}", (), ()),
        ("$KEY", "$KEY", (), ()),
        ("${}", "${}", (), ()),
        ("${KEY", "${KEY", (), ()),
        ("${1KEY}", "${1KEY}", (), ()),
        ("${KEY:-x}", "${KEY:-x}", (), ()),
        ("${NESTED}", "${KEY}", ("NESTED",), ()),
        ("costs 5$", "costs 5$", (), ()),
    ],
)
def test_references_are_filled_in(text, filled, used, missing):
    result = substitute(text, ENVIRONMENT)
    assert (result.text, result.used, result.missing) == (filled, used, missing)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text("${}KEYab", max_size=30))
def test_without_variables_only_escapes_change(text):
    result = substitute(text, {})
    assert result.used == ()
    assert len(result.text) <= len(text)
    assert result.text == text or "$$" in text
