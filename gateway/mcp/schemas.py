"""JSON schemas (2020-12) of our types, in the form in which MCP wants them. Pure.

Owns two repairs of what msgspec derives: the object itself stands at the root instead of a reference
to it, and null is not offered where a member is left out instead.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_DEFINITIONS: Final = "$defs"


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct; `type` is `object` at its root. Other structs stand in `$defs`."""
    (_root,), components = msgspec.json.schema_components(
        (kind,), ref_template=f"#/{_DEFINITIONS}/{{name}}"
    )
    definitions = {name: _without_null(schema) for name, schema in sorted(components.items())}
    schema: dict[str, Any] = definitions.pop(kind.__name__)
    del schema["title"]
    schema.pop("description", None)
    return schema | ({_DEFINITIONS: definitions} if definitions else {})


def _without_null(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("default", ...) is None:
        schema = {name: value for name, value in schema.items() if name != "default"}
    choices = schema.get("anyOf")
    if choices is not None:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        choices = [choice for choice in choices if choice != {"type": "null"}]
        schema = rest | (choices[0] if len(choices) == 1 else {"anyOf": choices})
    return {name: _without_null(value) for name, value in schema.items()}
