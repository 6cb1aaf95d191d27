"""The optional libraries of the vector lane, imported when first needed.

Owns what is said when one of them is missing or broken: once in the log, and every time in `status`.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

INSTALL: Final = "install the gateway with its extra 'vector'"


def numpy_problem() -> str | None:
    """Why numpy cannot be used, or None."""
    return _import_problem("numpy")


def simd_problem() -> str | None:
    """Why SimSIMD cannot be used, or None."""
    return _import_problem("simsimd")


@cache
def _import_problem(name: str) -> str | None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        problem = f"{name} cannot be imported ({error}); {INSTALL}"
        _log.warning("vector library missing", library=name, reason=problem)
        return problem
    return None
