"""The shape of a configuration file as a tree of keys.

Owns keys, sections (groups of keys that may stand at several places), branches, and putting sections
together to one tree. Going through a file along it is `walking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from config.keys.kinds import Kind

ANY_NAME = "*"
ANY_ITEM = "[]"

HOME = "plugins.entries.memory-gateway.config"
"""Where settings that OpenClaw has no key for may stand in a file that it accepts."""

Unknown = Literal["ignore", "warn", "refuse"]
"""What an unknown name in an object means: somebody else's key, a slip, or too dangerous to skip."""


class Key(msgspec.Struct, frozen=True):
    """One documented key."""

    path: str
    """Dotted, below its section; `*` stands for any name, `[]` for any item of a list."""
    kind: Kind
    meaning: str
    """One sentence for the reference."""
    field: str | None = None
    """Dotted attribute path below the section's part of the settings. None: the path in snake case;
    empty: the key fills no field of its own."""
    merge: Literal["replace", "concatenate"] = "replace"
    required: bool = False
    aliases: tuple[str, ...] = ()
    """Other paths in the same section that mean the same; `path` wins."""


class Section(msgspec.Struct, frozen=True):
    """Keys that belong together and the places where they may stand."""

    name: str
    """Prefix of the documented key paths in messages and origins."""
    places: tuple[str, ...]
    """Dotted, best first: when two of them give a value on one level, the earlier place wins."""
    field: str
    """Dotted attribute path of its part of the settings; empty for the settings themselves."""
    keys: tuple[Key, ...]
    unknown: Unknown = "warn"
    retired: tuple[tuple[str, str], ...] = ()
    """Paths that other releases know and that have no effect here, each with the reason."""
    foreign: tuple[str, ...] = ()
    """Paths that somebody else reads; passed over in silence."""
    unreadable: Mapping[str, tuple[Any, str]] = {}
    """What holds for a key that cannot be read, in a value and in words, where the default would be
    careless. Only for keys whose mistakes are tolerated."""

    def documented(self, key: Key) -> str:
        return f"{self.name}.{key.path}" if self.name else key.path


class Leaf(msgspec.Struct, frozen=True):
    section: Section
    key: Key
    rank: tuple[int, int]
    """Of several places for one key the lowest wins: (place of the section, alias)."""


class Retired(msgspec.Struct, frozen=True):
    reason: str


class Foreign(msgspec.Struct, frozen=True):
    """What stands there is for somebody else."""


class Branch(msgspec.Struct):
    children: dict[str, Branch | Leaf | Retired | Foreign] = msgspec.field(default_factory=dict)
    unknown: Unknown = "ignore"

    def below(self, path: str) -> Branch:
        """The branch at a dotted path, made where it is missing, as strict as its parent."""
        branch = self
        for name in path.split(".") if path else ():
            child = branch.children.setdefault(name, Branch(unknown=branch.unknown))
            assert isinstance(child, Branch), path
            branch = child
        return branch


def build_tree(sections: Iterable[Section]) -> Branch:
    """Outer places first, so that what is between them and inner ones is as strict as they are."""
    root = Branch()
    places = [
        (place, rank, section) for section in sections for rank, place in enumerate(section.places)
    ]
    for place, place_rank, section in sorted(places, key=lambda one: one[0].count(".")):
        branch = root.below(place)
        branch.unknown = section.unknown
        for path in section.foreign:
            _plant(branch, path, Foreign())
        for path, reason in section.retired:
            _plant(branch, path, Retired(reason))
        for key in section.keys:
            for alias_rank, path in enumerate((key.path, *key.aliases)):
                _plant(branch, path, Leaf(section, key, (place_rank, alias_rank)))
    return root


def _plant(branch: Branch, path: str, child: Leaf | Retired | Foreign) -> None:
    parent, _, name = path.rpartition(".")
    children = branch.below(parent).children
    assert name not in children, path
    children[name] = child
