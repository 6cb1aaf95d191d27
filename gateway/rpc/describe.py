"""Says in words what a parameter may be, from its type: "a whole number (1 to 50), or null".

Owns the wording of the remedies of invalid parameters. Pure; needed only once something is wrong.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import inspect

_PLAIN = {
    inspect.AnyType: "any value",
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.DateType: "a day, such as 2026-02-08",
}


def describe_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Map each field, by its name on the wire, to a sentence that says what it may be."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: _describe_field(field) for field in info.fields}


def _describe_field(field: inspect.Field) -> str:
    need = "required" if field.required else "optional"
    return f"`{field.encode_name}` ({need}) is {describe_type(field.type)}."


def describe_type(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType() | inspect.FloatType():
            noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            return noun + _range(kind.ge, kind.le)
        case inspect.StrType():
            return "a string" + _range(kind.min_length, kind.max_length, " character")
        case inspect.ListType() | inspect.VarTupleType():
            size = _range(kind.min_length, kind.max_length, " item")
            return f"a list{size}, each {describe_type(kind.item_type)}"
        case inspect.LiteralType():
            return "one of " + ", ".join(_spell(value) for value in kind.values)
        case inspect.EnumType():
            return "one of " + ", ".join(_spell(member.value) for member in kind.cls)
        case inspect.UnionType():
            return ", or ".join(describe_type(member) for member in kind.types)
        case _:
            return _PLAIN.get(type(kind), "a value of another kind")


def _range(low: float | None, high: float | None, unit: str = "") -> str:
    if unit and (low if high is None else high) != 1:
        unit += "s"
    match low, high:
        case None, None:
            return ""
        case _, None:
            return f" (at least {low}{unit})"
        case None, _:
            return f" (at most {high}{unit})"
        case _:
            return f" ({low} to {high}{unit})"


def _spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
