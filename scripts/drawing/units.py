"""The import graph of the four floors, coarse enough to be drawn.

A unit is a package directly under a floor, or directly under the builtin engine, which is as large as a floor.
The few modules beside the packages of a floor are one unit without a name.
"""

from __future__ import annotations

import grimp

FLOORS = ("gateway", "backends", "providers", "config")
_DEEPER = ("backends.builtin",)

Unit = tuple[str, str]
"""The floor and the name."""


def imports_between_units() -> set[tuple[Unit, Unit]]:
    """Returns importers with what they import within one floor; imports across floors follow from the floors' order."""
    graph = grimp.build_graph(*FLOORS, cache_dir=None)
    packages = {name for name in graph.modules if graph.find_children(name)}
    found = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            ends = _unit(importer, packages), _unit(imported, packages)
            if ends[0] != ends[1] and ends[0][0] == ends[1][0]:
                found.add(ends)
    return found


def _unit(module: str, packages: set[str]) -> Unit:
    floor, *names = module.split(".")
    for parent in _DEEPER:
        if module.startswith(f"{parent}."):
            below = module.removeprefix(f"{parent}.").split(".")
            inner = below[0] if f"{parent}.{below[0]}" in packages else ""
            return floor, f"builtin/{inner}".rstrip("/")
    if names and f"{floor}.{names[0]}" in packages:
        return floor, names[0]
    return floor, ""
