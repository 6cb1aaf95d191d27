"""The worker process, which runs ONNX Runtime or llama.cpp and nothing of the gateway; and the messages between it and
the gateway, in the frames of `config/runtime/worker`.

Everything here may die at any moment without harm: an abort of an engine ends this process only. This module is used on
both sides of the pipe, so it imports nothing else of this project.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Lane = Literal["query", "document"]


class Open(msgspec.Struct, frozen=True, tag=True):
    """The first message: the model to load, and the form of its vectors."""

    path: str
    max_tokens: int
    """The most tokens of one text, special tokens included; longer texts are cut."""
    pooling: int
    """A number of `LLAMA_POOLING_TYPE_*`."""
    dimensions: int | None
    """The number of leading components to keep (Matryoshka); None keeps all."""
    engine: Literal["llama.cpp", "onnxruntime"] = "llama.cpp"
    tokenizer: str = ""
    """The tokenizer's file, for an engine whose models do not contain one."""
    sha256: str = ""
    """The SHA-256 of the model's files, so that a replaced file gives another order."""


class Embed(msgspec.Struct, frozen=True, tag=True):
    """Texts, with their prompts. `number` is chosen by the gateway and never used again."""

    number: int
    lane: Lane
    texts: list[str]


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Drops the texts of this request that are not being computed yet."""

    number: int


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Is answered at once, also while texts are computed."""


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded and has embedded a harmless text."""

    dimensions: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The model cannot be used; the worker ends."""

    message: str


class Computed(msgspec.Struct, frozen=True, tag=True):
    """One normalised vector for each position, in `vectors`: float32, little-endian."""

    number: int
    positions: list[int]
    vectors: bytes
    tokens: int
    cut: int
    """The number of texts that were longer than the model's input."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The engine refused these texts of the request; the worker goes on."""

    number: int
    positions: list[int]
    message: str


class Pong(msgspec.Struct, frozen=True, tag=True):
    """The worker is alive, whatever it computes."""


Request: TypeAlias = Open | Embed | Cancel | Ping
Reply: TypeAlias = Opened | Refused | Computed | Failed | Pong
