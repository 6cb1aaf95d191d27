"""Going through a configuration file along the tree of keys.

Owns collecting the valid values. Whatever the tree does not know is passed over, warned of or refused,
as the branch says; a slip in a name that is read is warned of also where others have their keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from config.keys.tree import ANY_ITEM, ANY_NAME, Branch, Foreign, Leaf, Retired
from config.source.located import KeyPath, Located, type_words
from config.source.reading import Reading


class Given(msgspec.Struct, frozen=True):
    """A valid value for a key, where a file gives it."""

    leaf: Leaf
    at: KeyPath
    node: Located
    value: Any


def walk(branch: Branch, node: Located, at: KeyPath, reading: Reading) -> Iterator[Given]:
    """Every valid value below `node` that the tree knows; the rest goes to the reading.

    A `null` counts as no value anywhere.
    """
    if ANY_ITEM in branch.children:
        yield from _walk_items(branch.children[ANY_ITEM], node, at, reading)
        return
    if not isinstance(node.value, dict):
        reading.problem(at, node, f"found {type_words(node.value)}, allowed is an object")
        return
    _check_required(branch, node, at, reading)
    for name, member in node.value.items():
        child = branch.children.get(name) or branch.children.get(ANY_NAME)
        path = (*at, name)
        if child is None:
            _report_unknown(branch, name, member, path, reading)
        else:
            _warn_shadowed(member, path, reading)
            yield from _visit(child, member, path, reading)


def _walk_items(
    child: Branch | Leaf | Retired | Foreign, node: Located, at: KeyPath, reading: Reading
) -> Iterator[Given]:
    if not isinstance(node.value, list):
        reading.problem(at, node, f"found {type_words(node.value)}, allowed is a list")
        return
    for index, item in enumerate(node.value):
        yield from _visit(child, item, (*at, index), reading)


def _visit(
    child: Branch | Leaf | Retired | Foreign, node: Located, at: KeyPath, reading: Reading
) -> Iterator[Given]:
    if node.value is None or isinstance(child, Foreign):
        return
    if isinstance(child, Branch):
        yield from walk(child, node, at, reading)
    elif isinstance(child, Retired):
        reading.warn(at, node, f"has no effect here: {child.reason}")
    else:
        forgiven = reading.forgiven
        value = child.key.kind.read(node, at, reading)
        if value is UNSET and reading.forgiven > forgiven:
            value, so = child.section.unreadable.get(child.key.path, (UNSET, ""))
            if so:
                reading.warn(at, node, f"until it can be read, {so}")
        if value is not UNSET:
            yield Given(child, at, node, value)


def _check_required(branch: Branch, node: Located, at: KeyPath, reading: Reading) -> None:
    for name, child in branch.children.items():
        if isinstance(child, Leaf) and child.key.required:
            member = node.value.get(name)
            if member is None or member.value is None:
                reading.problem(at, node, f"{name} is missing, allowed is {child.key.kind.allowed}")


def _warn_shadowed(node: Located, at: KeyPath, reading: Reading) -> None:
    if node.shadowed is not None:
        line = node.source.position(node.shadowed)[0]
        reading.warn(at, node, f"stands twice; the one in line {line} does not count")


def _report_unknown(
    branch: Branch, name: str, node: Located, at: KeyPath, reading: Reading
) -> None:
    from config.keys.nearest import near_miss, nearest  # noqa: PLC0415 - only for a message

    if branch.unknown == "ignore":
        if meant := near_miss(branch, name):
            reading.warn(at, node, f'is not a known key and is ignored; did you mean "{meant}"?')
        return
    proposal = nearest(branch, name)
    hint = f'; did you mean "{proposal}"?' if proposal else ""
    if branch.unknown == "warn":
        reading.warn(at, node, f"is not a known key and is ignored{hint}")
    else:
        reading.problem(at, node, f"is not a known key here{hint}")
