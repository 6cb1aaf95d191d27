"""Reading the YAML that QMD writes for its configuration: nested mappings, lists and scalars.

A strict subset. Whatever it does not know raises `UnknownYamlError`, because a configuration that is
only half understood must not be written back. JSON, which is YAML too, is read whole.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, TypeAlias

Value: TypeAlias = Any

_KEY: Final = re.compile(
    r'("(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'|[^\s"\'#&*!|>%@`{\[,?-][^:#]*?):(?: (.*))?$'
)
_PLAIN: Final = re.compile(
    r"[^\s\"'#&*!|>%@`{\[\]},?:-](?:[^:#]|:(?! |$)|(?<! )#)*$|-(?=[^\s-])[^:#]*$"
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None, "~": None}


class UnknownYamlError(ValueError):
    """Not the subset that this module understands."""


class _Line(NamedTuple):
    indent: int
    text: str


def parse(text: str) -> Value:
    """The value of a document; an empty one is an empty mapping. Raises UnknownYamlError."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise UnknownYamlError(str(error)) from None
    lines = [
        _Line(len(line) - len(line.lstrip(" ")), line.strip())
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        return {}
    value, rest = _block(lines, lines[0].indent)
    if rest:
        raise UnknownYamlError(f"unexpected {rest[0].text!r}")
    return value


def _block(lines: list[_Line], indent: int) -> tuple[Value, list[_Line]]:
    return (_list if lines[0].text.startswith("- ") else _mapping)(lines, indent)


def _mapping(lines: list[_Line], indent: int) -> tuple[Value, list[_Line]]:
    found: dict[str, Value] = {}
    while lines and lines[0].indent == indent and not lines[0].text.startswith("- "):
        match = _KEY.fullmatch(lines[0].text)
        if match is None:
            raise UnknownYamlError(f"unexpected {lines[0].text!r}")
        key, inline = str(_scalar(match[1])), match[2]
        lines = lines[1:]
        if key in found:
            raise UnknownYamlError(f"{key!r} occurs twice")
        if inline:
            found[key] = _scalar(inline)
        else:
            found[key], lines = _nested(lines, indent)
    return found, _outer(lines, indent)


def _nested(lines: list[_Line], indent: int) -> tuple[Value, list[_Line]]:
    """What belongs to a key without a value of its own; a list may stand as far left as the key."""
    if lines and (
        lines[0].indent > indent or (lines[0].indent == indent and lines[0].text.startswith("- "))
    ):
        return _block(lines, lines[0].indent)
    return None, lines


def _list(lines: list[_Line], indent: int) -> tuple[Value, list[_Line]]:
    found = []
    while lines and lines[0].indent == indent and lines[0].text.startswith("- "):
        found.append(_scalar(lines[0].text[2:].strip()))
        lines = lines[1:]
    return found, _outer(lines, indent)


def _outer(lines: list[_Line], indent: int) -> list[_Line]:
    if lines and lines[0].indent > indent:
        raise UnknownYamlError(f"unexpected {lines[0].text!r}")
    return lines


def _scalar(text: str) -> Value:
    if text in {"{}", "[]"}:
        return {} if text == "{}" else []
    if text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError:
            raise UnknownYamlError(f"unexpected {text!r}") from None
    if re.fullmatch(r"'(?:[^']|'')*'", text):
        return text[1:-1].replace("''", "'")
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not _PLAIN.fullmatch(text):
        raise UnknownYamlError(f"unexpected {text!r}")
    return int(text) if re.fullmatch(r"-?\d+", text) else text
