"""Reads what an ONNX model's neighbours say of it, without ONNX Runtime.

An ONNX file holds the network alone. Its tokenizer, its longest input and how its vectors are pooled are in files
beside it or one directory up, named as the hub names them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from providers.errors import ProviderUnavailableError

TOKENIZER: Final = "tokenizer.json"
CONFIG: Final = "config.json"
POOLING: Final = "1_Pooling/config.json"
NEEDED: Final = (TOKENIZER, CONFIG)
"""The neighbours without which a model cannot be used."""
NEIGHBOURS: Final = (*NEEDED, POOLING)
MAGIC: Final = b"\x08"
"""The format has none; but its first field, which every exporter writes, is the version."""
_POOLINGS: Final = {"mean": 1, "cls": 2, "last": 3, "lasttoken": 3}
_FLAGS: Final = {
    "pooling_mode_cls_token": 2,
    "pooling_mode_mean_tokens": 1,
    "pooling_mode_lasttoken": 3,
}
_OFFSET_FAMILIES: Final = ("roberta", "camembert", "mpnet")
"""Their first position is the one behind the padding's, so that two positions are lost."""


class Neighbours(msgspec.Struct, frozen=True):
    """What is known of a model from the files around it."""

    tokenizer: Path
    architecture: str
    context_tokens: int
    """0 if it is not said."""
    width: int
    """0 if it is not said."""
    pooling: int | None
    """As `LLAMA_POOLING_TYPE_*`; None if it is not said."""


def directory_of(model: Path) -> Path:
    """The directory of a model's neighbours: its own, or else the one above."""
    return next(
        (one for one in (model.parent, model.parent.parent) if (one / TOKENIZER).is_file()),
        model.parent,
    )


def read_neighbours(model: Path) -> Neighbours:
    """Blocks for a millisecond. Raises ProviderUnavailableError if a file is missing or cannot be read."""
    _check(model)
    directory = directory_of(model)
    config = _read(model, directory / CONFIG)
    architecture = str(config.get("model_type", ""))
    positions = _whole(config.get("max_position_embeddings"))
    if positions and any(family in architecture for family in _OFFSET_FAMILIES):
        positions -= 2
    pooling = directory / POOLING
    tokenizer = directory / TOKENIZER
    if not tokenizer.is_file():
        raise _unusable(model, f"{TOKENIZER} is missing beside it")
    return Neighbours(
        tokenizer=tokenizer,
        architecture=architecture,
        context_tokens=positions,
        width=_whole(config.get("hidden_size")),
        pooling=_pooling(_read(model, pooling)) if pooling.is_file() else None,
    )


def _check(model: Path) -> None:
    """Refuses what is no ONNX file; most of what is wrong with one is noticed when it is loaded."""
    try:
        with model.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise _unusable(model, f"it cannot be read ({error.strerror})") from None
    if head.startswith(b"<"):
        raise _unusable(model, "it is a web page, not a model")
    if not head.startswith(MAGIC):
        raise _unusable(model, "it is not in the ONNX format")


def _pooling(config: dict[str, Any]) -> int | None:
    named = _POOLINGS.get(str(config.get("pooling_mode")))
    return named or next((kind for flag, kind in _FLAGS.items() if config.get(flag) is True), None)


def _read(model: Path, file: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise _unusable(model, f"{file.name} is missing beside it") from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise _unusable(model, f"{file} cannot be read") from None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _unusable(model: Path, cause: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"The model file {model} cannot be used: {cause}.",
        remedy=f"Put {', '.join(NEIGHBOURS)} of the same model beside it.",
    )
