"""Lone errors come out of exception groups, everything else stays as it is."""

from __future__ import annotations

import anyio
import pytest

from config.errors import lone_error, ungrouped


def test_a_lone_error_is_found_however_deep_its_groups_are_nested():
    inner = ValueError("x")
    assert lone_error(ExceptionGroup("a", [ExceptionGroup("b", [inner])])) is inner
    assert lone_error(inner) is inner


def test_several_errors_stay_a_group():
    group = ExceptionGroup("a", [ValueError("x"), KeyError("y")])
    assert lone_error(ExceptionGroup("b", [group])) is group


@pytest.mark.anyio
async def test_the_body_of_a_task_group_raises_its_own_error_with_its_cause():
    cause = KeyError("cause")
    with pytest.raises(ValueError, match="x") as caught, ungrouped():
        async with anyio.create_task_group():
            raise ValueError("x") from cause
    assert caught.value.__cause__ is cause


def test_a_group_of_several_errors_is_raised_as_it_is():
    group = ExceptionGroup("a", [ValueError("x"), KeyError("y")])
    with pytest.raises(ExceptionGroup) as caught, ungrouped():
        raise group
    assert caught.value is group


def test_an_error_outside_of_any_group_passes():
    with pytest.raises(ValueError, match="x"), ungrouped():
        raise ValueError("x")
