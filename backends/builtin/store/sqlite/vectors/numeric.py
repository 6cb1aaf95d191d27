"""numpy, loaded by the first computation: a gateway that searches by keywords alone never pays for it.

Everything in this package that computes takes `np` from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class _LazyModule:
    """Stands for a module; each attribute is looked up there once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _LazyModule("numpy")
