"""The known key that an unknown one probably means, for warnings."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from config.keys.tree import ANY_ITEM, ANY_NAME, Branch, Leaf

_LIKENESS = 0.6
_SLIP = 0.8
"""Among keys of others a name has to be nearly the same: a letter too few, two of them swapped."""


def nearest(branch: Branch, name: str) -> str | None:
    """A sibling with a similar name, else the same name deeper below this branch, else None."""
    similar = _sibling(branch, name, _LIKENESS)
    if similar:
        return similar
    return next((path for path in _paths(branch) if path.rpartition(".")[2] == name), None)


def near_miss(branch: Branch, name: str) -> str | None:
    """The key that `name` nearly is, in an object that mostly belongs to somebody else."""
    return _sibling(branch, name, _SLIP)


def _sibling(branch: Branch, name: str, likeness: float) -> str | None:
    siblings = {
        known.lower(): known
        for known, child in branch.children.items()
        if isinstance(child, Leaf | Branch) and known not in (ANY_ITEM, ANY_NAME)
    }
    similar = difflib.get_close_matches(name.lower(), siblings, n=1, cutoff=likeness)
    return siblings[similar[0]] if similar else None


def _paths(branch: Branch, prefix: str = "") -> Iterator[str]:
    for name, child in branch.children.items():
        if isinstance(child, Leaf):
            yield prefix + name
        elif isinstance(child, Branch):
            yield from _paths(child, f"{prefix}{name}.")
