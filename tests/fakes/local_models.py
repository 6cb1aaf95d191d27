"""A tiny model for each engine that is installed, and the message that makes a worker load it."""

from __future__ import annotations

from pathlib import Path

from fakes import gguf, onnx_models
from providers.local.models.references import LLAMA, ONNX, TOKENIZER, engine_of
from providers.local.worker import Open

ENGINES = [engine.name for engine in (ONNX, LLAMA) if engine.missing is None]
"""llama.cpp is compiled when it is installed, so a fresh clone does without it."""


def write_model(engine: str, directory: Path, **settings: object) -> Path:
    if engine == ONNX.name:
        return onnx_models.write_embedder(directory / "model.onnx", **settings)
    directory.mkdir(parents=True, exist_ok=True)
    return gguf.write_embedder(directory / "model.gguf", **settings)


def order(
    path: Path, max_tokens: int = 512, pooling: int = 1, dimensions: int | None = None
) -> Open:
    engine = engine_of(path.name)
    tokenizer = str(path.parent / TOKENIZER) if engine is ONNX else ""
    return Open(str(path), max_tokens, pooling, dimensions, engine.name, tokenizer)
