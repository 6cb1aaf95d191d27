"""Kinds made of other kinds: lists and records.

A record is a small tree of its own, so unknown members, missing ones and wrong types inside a
list are reported with their exact path.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from config.keys.kinds import Kind
from config.keys.tree import Branch, Key, Section, Unknown, build_tree
from config.keys.walking import walk
from config.paths import Directories
from config.source.located import KeyPath, Located, type_words
from config.source.reading import Reading


class ListOf(Kind, frozen=True):
    """A list of values of one kind; a blank or wrong item is left out."""

    item: Kind

    @property
    def allowed(self) -> str:
        return f"a list, each item {self.item.allowed}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        if not isinstance(node.value, list):
            return self.mismatch(node, at, reading, type_words(node.value))
        read = [
            self.item.read(item, (*at, index), reading) for index, item in enumerate(node.value)
        ]
        return tuple(value for value in read if value is not UNSET)

    def settle(self, value: Any, dirs: Directories) -> Any:
        return tuple(dict.fromkeys(self.item.settle(item, dirs) for item in value))

    def render(self, value: Any) -> Any:
        return [self.item.render(item) for item in value]


class Record(Kind, frozen=True):
    """An object with known members; the value is a dict of their dotted paths."""

    members: tuple[Key, ...]
    unknown: Unknown = "warn"

    @property
    def allowed(self) -> str:
        names = ", ".join(key.path + ("" if key.required else "?") for key in self.members)
        return "{" + names + "}"

    def tree(self) -> Branch:
        return build_tree([Section("", ("",), "", self.members, self.unknown)])

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        if not isinstance(node.value, dict):
            return self.mismatch(node, at, reading, type_words(node.value))
        return {given.leaf.key.path: given.value for given in walk(self.tree(), node, at, reading)}
