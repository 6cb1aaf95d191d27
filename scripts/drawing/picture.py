"""Makes a Mermaid flowchart of the imports between units. Pure.

What follows from the rest is left out: an arrow is drawn only if no longer path leads to the same unit, and
the modules at the root of a floor, which everything above imports, are not drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from drawing.units import FLOORS, Unit

Edge = tuple[Unit, Unit]


class ImportCircleError(Exception):
    """Packages that import each other in a circle: there is no picture of them."""

    def __init__(self, circle: Sequence[Unit]) -> None:
        way = " -> ".join(f"{floor}/{name}" for floor, name in reversed(circle))
        super().__init__(
            f"{way}: these packages import each other in a circle. `lint-imports` names the imports; "
            "take one of them back, then draw again."
        )


_BLOCK = re.compile(r"```mermaid\n.*?```", re.DOTALL)


def replaced(document: str, picture: str) -> str:
    """Returns the document with this picture in place of its old one."""
    text, count = _BLOCK.subn(lambda _: f"```mermaid\n{picture}```", document)
    assert count == 1, "the document has no place for a picture"
    return text


def mermaid(imports: Iterable[Edge]) -> str:
    edges = _needed({(a, b) for a, b in imports if a[1] and b[1]})
    units = sorted({unit for edge in imports for unit in edge if unit[1]})
    lines = ["flowchart TB"]
    for floor in FLOORS:
        lines.append(f"  subgraph {floor}")
        lines += [f"    {_id(unit)}[{unit[1]}]" for unit in units if unit[0] == floor]
        lines += [f"    {_id(a)} --> {_id(b)}" for a, b in sorted(edges) if a[0] == floor]
        lines.append("  end")
    lines += [f"  {above} ==> {below}" for above, below in pairwise(FLOORS)]
    return "\n".join(lines) + "\n"


def _needed(edges: set[Edge]) -> set[Edge]:
    """Returns the edges without those that a longer path implies. Raises ImportCircleError."""
    after: dict[Unit, set[Unit]] = {}
    for importer, imported in edges:
        after.setdefault(importer, set()).add(imported)
    try:
        order = tuple(TopologicalSorter(after).static_order())
    except CycleError as error:
        raise ImportCircleError(error.args[1]) from None
    below: dict[Unit, set[Unit]] = {}
    for unit in order:  # what it imports comes before it
        near = after.get(unit, set())
        below[unit] = near.union(*(below[other] for other in near))
    return {
        (importer, imported)
        for importer, imported in edges
        if not any(imported in below[other] for other in after[importer])
    }


def _id(unit: Unit) -> str:
    return f"{unit[0]}_{unit[1].replace('/', '_')}"
