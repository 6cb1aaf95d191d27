"""The two formats of local models, and the engine that each needs: what a file says of itself, without its engine.

Of a GGUF file (versions 2 and 3 of the specification, little-endian) the metadata are read, and only the length of
arrays, such as vocabularies, is kept. An ONNX file holds the network alone. Its tokenizer, its longest input and how
its vectors are pooled are in files beside it or one directory up, named as the hub names them.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import msgspec

from providers.provider_errors import ProviderUnavailableError

EngineName = Literal["onnxruntime", "llama.cpp"]


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
_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
_MOST_ENTRIES: Final = 10_000
_LONGEST_STRING: Final = 1 << 24
_LONGEST_ARRAY: Final = 1 << 40  # bytes; beyond any file, and a seek takes no more than 63 bits
_HTML: Final = (b"<!do", b"<htm", b"<HTM", b"<!DO")


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
        raise _unusable_onnx(model, f"{TOKENIZER} is missing beside it")
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
        raise _unusable_onnx(model, f"it cannot be read ({error.strerror})") from None
    if head.startswith(b"<"):
        raise _unusable_onnx(model, "it is a web page, not a model")
    if not head.startswith(MAGIC):
        raise _unusable_onnx(model, "it is not in the ONNX format")


def _pooling(config: dict[str, object]) -> int | None:
    named = _POOLINGS.get(str(config.get("pooling_mode")))
    return named or next((kind for flag, kind in _FLAGS.items() if config.get(flag) is True), None)


def _read(model: Path, file: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise _unusable_onnx(model, f"{file.name} is missing beside it") from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise _unusable_onnx(model, f"{file} cannot be read") from None


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _unusable_onnx(model: Path, cause: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"The model file {model} cannot be used: {cause}.",
        remedy=f"Put {', '.join(NEIGHBOURS)} of the same model beside it.",
    )


class Header(msgspec.Struct, frozen=True):
    """The metadata of a model, with the length of each array in place of its items."""

    values: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        return str(self.values.get("general.architecture", ""))

    def own(self, key: str) -> object:
        """A value under the architecture's own name: `own("context_length")`."""
        return self.values.get(f"{self.architecture}.{key}")


def read_header(path: Path) -> Header:
    """Blocks for some milliseconds, a tenth of a second for a vocabulary of 262,144 words.

    Raises ProviderUnavailableError for a file that cannot be read or has no complete GGUF header.
    """
    try:
        with path.open("rb") as file:
            return Header(_read_values(path, file))
    except OSError as error:
        raise ProviderUnavailableError(
            f"The model file {path} cannot be read: {error.strerror}.",
            remedy="Correct local.modelPath, or the file's permissions.",
        ) from None
    except (struct.error, UnicodeDecodeError, OverflowError, RecursionError):
        raise _unusable_gguf(path, "its header is damaged or ends too early") from None


def _read_values(path: Path, file: BinaryIO) -> dict[str, object]:
    magic = file.read(4)
    if magic.startswith(_HTML):
        raise _unusable_gguf(path, "it is a web page, not a model")
    if magic != _MAGIC:
        raise _unusable_gguf(path, "it is not in the GGUF format")
    version, _tensors, entries = _unpack(file, "<IQQ")
    if version not in _VERSIONS or entries > _MOST_ENTRIES:
        raise _unusable_gguf(path, f"version {version} of the GGUF format is not known")
    values = {}
    for _ in range(entries):
        key = _string(file)
        (kind,) = _unpack(file, "<I")
        values[key] = _value(file, kind)
    return values


def _value(file: BinaryIO, kind: int) -> object:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        kind, count = _unpack(file, "<IQ")
        _skip(file, kind, count)
        return count
    if kind not in _SCALARS:
        raise struct.error(f"unknown type {kind}")
    return _unpack(file, _SCALARS[kind])[0]


def _skip(file: BinaryIO, kind: int, count: int) -> None:
    if kind in _SCALARS:
        size = count * struct.calcsize(_SCALARS[kind])
        if size > _LONGEST_ARRAY:
            raise struct.error("an array is too large")
        file.seek(size, 1)
        return
    for _ in range(count):
        if kind == _STRING:
            file.seek(_length(file), 1)
        else:
            _value(file, kind)


def _string(file: BinaryIO) -> str:
    length = _length(file)
    return _exactly(file, length).decode("utf-8")


def _length(file: BinaryIO) -> int:
    (length,) = _unpack(file, "<Q")
    if length > _LONGEST_STRING:
        raise struct.error("a string is too long")
    return int(length)


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, _exactly(file, struct.calcsize(layout)))


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise struct.error("the file ends")
    return data


def _unusable_gguf(path: Path, cause: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"The model file {path} cannot be used: {cause}.",
        remedy="Remove it and let it be downloaded again, or name another in local.modelPath.",
    )
