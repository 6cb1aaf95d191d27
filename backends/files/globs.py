"""Path globs as the configuration writes them: `**`, `*`, `?`, `[...]` and `{a,b}`.

Matches name by name, in time linear in the path whatever the pattern, so that a hostile pattern
costs nothing. Case-sensitive; a leading dot is nothing special; a leading `!` and extended globs
are not known.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import cached_property

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ANY_DEPTH = "**"
MAX_ALTERNATIVES = 64
"""Braces that would multiply beyond this are taken literally."""


@dataclass(frozen=True)
class Glob:
    """A pattern, to be matched against relative paths with `/` between names."""

    pattern: str

    def matches(self, path: str) -> bool:
        """Whether the whole of `path` fits. `**` stands for any number of names, also for none."""
        names = path.split("/")
        return any(_fits(names, steps) for steps in self._alternatives)

    @cached_property
    def _alternatives(self) -> tuple[_Steps, ...]:
        return tuple(_compile(alternative) for alternative in _expand(self.pattern))


_Steps = tuple[re.Pattern[str] | None, ...]
"""One entry a component of the pattern; None is `**`."""


def _expand(pattern: str) -> list[str]:
    alternatives = [pattern]
    while any(_BRACES.search(text) for text in alternatives):
        expanded = [choice for text in alternatives for choice in _choices(text)]
        if len(expanded) > MAX_ALTERNATIVES:
            break
        alternatives = expanded
    return alternatives


def _choices(text: str) -> list[str]:
    braces = _BRACES.search(text)
    if braces is None:
        return [text]
    head, tail = text[: braces.start()], text[braces.end() :]
    return [head + choice + tail for choice in braces[1].split(",")]


def _compile(pattern: str) -> _Steps:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    return tuple(
        None if name == _ANY_DEPTH else re.compile(fnmatch.translate(name)) for name in names
    )


def _fits(names: list[str], steps: _Steps) -> bool:
    """Run the pattern as a state machine: a state is the number of steps already satisfied."""
    states = _reach({0}, steps)
    for name in names:
        advanced: set[int] = set()
        for state in states:
            if state == len(steps):
                continue
            step = steps[state]
            if step is None:
                advanced.add(state)
            elif step.match(name):
                advanced.add(state + 1)
        states = _reach(advanced, steps)
    return len(steps) in states


def _reach(states: set[int], steps: _Steps) -> set[int]:
    """Add what is reached without a name: `**` may stand for nothing."""
    reached = set(states)
    for state in sorted(states):
        following = state
        while following < len(steps) and steps[following] is None:
            following += 1
            reached.add(following)
    return reached
