"""The two engines that compute vectors on this machine, and which one a model needs: the format of its file decides.

Nothing of an engine is imported here.
"""

from __future__ import annotations

import importlib.util
from typing import Final, Literal

import msgspec

EngineName = Literal["onnxruntime", "llama.cpp"]


class LocalEngine(msgspec.Struct, frozen=True, kw_only=True):
    name: EngineName
    format: str
    """Of its models."""
    modules: tuple[str, ...]
    extra: str
    """The extra of our package that installs it."""

    @property
    def missing(self) -> str | None:
        """A module that is not installed; None if all are."""
        return _missing(self.modules)

    @property
    def not_installed(self) -> bool:
        """Whether something of it is missing, or what downloads its models."""
        return _missing((*self.modules, "httpx2")) is not None


def _missing(modules: tuple[str, ...]) -> str | None:
    return next((name for name in modules if importlib.util.find_spec(name) is None), None)


ONNX: Final = LocalEngine(
    name="onnxruntime",
    format="ONNX",
    modules=("onnxruntime", "tokenizers", "numpy"),
    extra="local",
)
"""Ready-made for Linux, macOS and Windows; twice as fast as llama.cpp with a model of 8 bits."""
LLAMA: Final = LocalEngine(
    name="llama.cpp", format="GGUF", modules=("llama_cpp", "numpy"), extra="llama"
)
"""Compiled where it is installed; for whoever has a GGUF model or a GPU."""


def engine_of(name: str) -> LocalEngine:
    """The engine for a model, by the name of its file or its reference."""
    return ONNX if name.partition("#")[0].lower().endswith(".onnx") else LLAMA
