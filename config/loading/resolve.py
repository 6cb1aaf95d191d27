"""Choosing one value for every key from all the places that give one.

Leaf by leaf an agent's own value beats the defaults, and those beat what is built in. Where one level
gives a key at several places, our own entry among the plugins wins: there a user says what the chat
gateway's key is not to say for us. Then the place documented first (February 2026) wins over those of
later releases, leaf by leaf and with a warning: a value at a later place is usually what a migration
left behind. Lists that concatenate put the defaults first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from config.host_keys import HOME_PATH, is_at_home
from config.keys.tree import ANY_NAME
from config.keys.walking import Given
from config.settings import Origin
from config.source.located import KeyPath, render_path
from config.source.reading import Reading

_AGENT_PLACES = (("agents", "list"), ("agents", "entries"), (*HOME_PATH, "agents"))


class Chosen(msgspec.Struct, frozen=True):
    """The value that applies to a key, before paths are made absolute."""

    value: Any
    origin: Origin
    given: Given | None = None
    """None for a value that a rule made."""


def choose(givens: Iterable[Given], own: Sequence[KeyPath], reading: Reading) -> dict[str, Chosen]:
    """Documented key path to the value that applies to the agent whose own keys stand at `own`.

    Keys below a free name (`models.providers.openai.apiKey`) appear under their full path.
    """
    levels: dict[str, tuple[list[Given], list[Given]]] = {}
    for given in givens:
        level = _level(given.at, own)
        if level is not None:
            levels.setdefault(_name(given), ([], []))[level].append(given)
    return {name: _choose_one(*given, reading) for name, given in levels.items()}


def _level(at: KeyPath, own: Sequence[KeyPath]) -> int | None:
    """0 for everybody's keys, 1 for the agent's own, None for another agent's."""
    if not any(at[: len(place)] == place for place in _AGENT_PLACES):
        return 0
    return 1 if any(at[: len(prefix)] == prefix for prefix in own) else None


def _name(given: Given) -> str:
    if ANY_NAME in given.leaf.key.path:
        return render_path(given.at)
    return given.leaf.section.documented(given.leaf.key)


def _choose_one(general: list[Given], special: list[Given], reading: Reading) -> Chosen:
    base, own = _best(general, reading), _best(special, reading)
    winner = own or base
    assert winner is not None
    if base and own and winner.leaf.key.merge == "concatenate":
        both = f"{_place(base, reading)}; {_place(own, reading)}"
        return Chosen(base.value + own.value, Origin(kind="file", detail=both), winner)
    return Chosen(winner.value, Origin(kind="file", detail=_place(winner, reading)), winner)


def _best(givens: list[Given], reading: Reading) -> Given | None:
    best = min(givens, key=lambda given: given.leaf.rank, default=None)
    if best is None or is_at_home(best.at):
        return best
    for given in givens:
        if given is not best and given.value != best.value:
            winner = reading.place(best.at, best.node)
            reading.warn(given.at, given.node, f"does not count, because {winner} is set too")
    return best


def _place(given: Given, reading: Reading) -> str:
    """`agents.defaults.memorySearch.provider, line 12`, and the variable it was filled from."""
    names = reading.variables.get(given.at, ())
    filled = "".join(f", from ${{{name}}}" for name in names)
    return reading.place(given.at, given.node) + filled
