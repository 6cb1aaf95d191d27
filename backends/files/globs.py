"""Globs for paths. The time to match grows at most with the product of the lengths of path and pattern.

Names are matched by `fnmatch`, which tries no star twice; the names of a path by a state machine.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import msgspec

_BRACES: Final = re.compile(r"\{([^{},]*,[^{}]*)\}")
_SPECIAL: Final = re.compile(r"[*?\[]")
MAX_ALTERNATIVES: Final = 64
"""Braces that would multiply beyond this are taken literally."""


class Glob(msgspec.Struct, frozen=True, dict=True):
    """A pattern, to be matched against relative paths with `/` between names."""

    pattern: str

    def matches(self, path: str) -> bool:
        """Returns whether the whole of `path` fits. `**` stands for any number of names, also for none."""
        names = path.split("/")
        return path == self.pattern or any(fits(names, steps) for steps in self._alternatives)

    @cached_property
    def _alternatives(self) -> tuple[Steps, ...]:
        return tuple(
            joined(_step(name) for name in alternative.split("/") if name not in ("", "."))
            for alternative in _expand(self.pattern)
        )


ANY_DEPTH: Final = None
"""The step for any number of names, also for none."""
Steps = tuple[str | re.Pattern[str] | None, ...]
"""One step for each name of a path: the name itself, a pattern that matches it, or `ANY_DEPTH`."""


def _expand(pattern: str) -> list[str]:
    alternatives = [pattern]
    while True:
        braces = [_BRACES.search(text) for text in alternatives]
        count = sum(one[1].count(",") + 1 if one else 1 for one in braces)
        if not any(braces) or count > MAX_ALTERNATIVES:
            return alternatives
        alternatives = [
            choice
            for text, one in zip(alternatives, braces, strict=True)
            for choice in ([text] if one is None else _choices(text, one))
        ]


def _choices(text: str, braces: re.Match[str]) -> list[str]:
    head, tail = text[: braces.start()], text[braces.end() :]
    return [head + choice + tail for choice in braces[1].split(",")]


def _step(name: str) -> str | re.Pattern[str] | None:
    if name == "**":
        return ANY_DEPTH
    if not is_special(name):
        return name
    # Shells, git and QMD know both signs, `fnmatch` one of them.
    return re.compile(fnmatch.translate(name.replace("[^", "[!")))


def is_special(name: str) -> bool:
    """Returns whether the pattern `name` may match other names than itself."""
    return _SPECIAL.search(name) is not None


def joined(steps: Iterable[str | re.Pattern[str] | None]) -> Steps:
    """Returns the steps with each run of `ANY_DEPTH` reduced to one, which means the same."""
    kept: list[str | re.Pattern[str] | None] = []
    for step in steps:
        if step is not ANY_DEPTH or kept[-1:] != [ANY_DEPTH]:
            kept.append(step)
    return tuple(kept)


def fits(names: Sequence[str], steps: Steps) -> bool:
    """Returns whether the steps match the names from the first to the last.

    A state machine: a state is the number of steps already satisfied.
    """
    states = _reach({0}, steps)
    for name in names:
        advanced: set[int] = set()
        for state in states:
            if state == len(steps):
                continue
            step = steps[state]
            if step is ANY_DEPTH:
                advanced.add(state)
            elif fits_name(name, step):
                advanced.add(state + 1)
        states = _reach(advanced, steps)
    return len(steps) in states


def fits_name(name: str, step: str | re.Pattern[str]) -> bool:
    return name == step if isinstance(step, str) else step.match(name) is not None


def _reach(states: set[int], steps: Steps) -> set[int]:
    """Adds the states that are reached without a name: `ANY_DEPTH` may stand for nothing."""
    return states | {
        state + 1 for state in states if state < len(steps) and steps[state] is ANY_DEPTH
    }
