"""The known key that an unknown one probably means, for warnings."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from config.keys.tree import ANY_ITEM, ANY_NAME, Branch, Leaf

_LIKENESS = 0.6


def nearest(branch: Branch, name: str) -> str | None:
    """A sibling with a similar name, else the same name deeper below this branch, else None."""
    siblings = {
        known.lower(): known
        for known, child in branch.children.items()
        if isinstance(child, Leaf | Branch) and known not in (ANY_ITEM, ANY_NAME)
    }
    similar = difflib.get_close_matches(name.lower(), siblings, n=1, cutoff=_LIKENESS)
    if similar:
        return siblings[similar[0]]
    return next((path for path in _paths(branch) if path.rpartition(".")[2] == name), None)


def _paths(branch: Branch, prefix: str = "") -> Iterator[str]:
    for name, child in branch.children.items():
        if isinstance(child, Leaf):
            yield prefix + name
        elif isinstance(child, Branch):
            yield from _paths(child, f"{prefix}{name}.")
