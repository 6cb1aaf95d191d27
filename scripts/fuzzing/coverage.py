"""Which lines of the watched modules an input reaches, and how many there are.

By the interpreter's own trace events, so it needs no instrumented modules and sees worker threads.
"""

from __future__ import annotations

import contextlib
import importlib.util
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fuzzing.registry import Target

Lines = frozenset[tuple[str, int, int]]
"""File, line before, line: steps from line to line, so that both ways of a branch count."""


_steps: set[tuple[str, int, int]] = set()
"""Of the run at work. One set for all: threads that a target keeps are traced since they began."""


def lines_reached(target: Target, data: bytes) -> Lines:
    """The steps that one run takes, also one that fails."""
    run, tracer = target.load(), _tracer(target.watched)
    _steps.clear()
    threading.settrace(tracer)
    sys.settrace(tracer)
    try:
        with contextlib.suppress(Exception):
            run(data)
    finally:
        sys.settrace(None)
    return frozenset(_steps)


@cache
def _tracer(watched: tuple[str, ...]) -> Callable[[FrameType, str, Any], Any]:
    files = watched_files(watched)

    def enter(frame: FrameType, _event: str, _arg: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in files:
            return None
        before = 0

        def step(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal before
            if event == "line":
                _steps.add((name, before, frame.f_lineno))
                before = frame.f_lineno
            return step

        return step

    return enter


def share(target: Target, steps: Lines) -> tuple[int, int]:
    """Lines inside of functions that were reached, and all of them."""
    lines = {(file, line) for file, _, line in steps}
    everything = {
        (file, line) for file in watched_files(target.watched) for line in _lines_of(file)
    }
    return len(lines & everything), len(everything)


@cache
def watched_files(watched: tuple[str, ...]) -> frozenset[str]:
    return frozenset(file for name in watched for file in _files(name))


def _files(name: str) -> Iterator[str]:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    yield spec.origin
    for module in pkgutil.walk_packages(spec.submodule_search_locations or [], f"{name}."):
        inner = importlib.util.find_spec(module.name)
        assert inner is not None
        assert inner.origin is not None
        yield inner.origin


@cache
def _lines_of(file: str) -> frozenset[int]:
    module = compile(Path(file).read_text("utf-8"), file, "exec")
    return frozenset(line for code in _functions(module) for line in _own_lines(code))


def _functions(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function, not the body of a class
                yield constant
            yield from _functions(constant)


def _own_lines(code: CodeType) -> Iterator[int]:
    for _, _, line in code.co_lines():
        if line is not None and line != code.co_firstlineno:
            yield line
