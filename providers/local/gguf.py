"""Reads the metadata of a GGUF file, without llama.cpp and without reading the weights.

Format: versions 2 and 3 of the GGUF specification, little-endian. Only the
length of arrays (vocabularies) is kept. Any other file is refused with a reason and a remedy.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from providers.errors import ProviderUnavailableError

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


class Header(msgspec.Struct, frozen=True):
    """The metadata of a model, with the length of each array in place of its items."""

    values: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        return str(self.values.get("general.architecture", ""))

    def own(self, key: str) -> Any:
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
        raise _unusable(path, "its header is damaged or ends too early") from None


def _read_values(path: Path, file: BinaryIO) -> dict[str, Any]:
    magic = file.read(4)
    if magic.startswith(_HTML):
        raise _unusable(path, "it is a web page, not a model")
    if magic != _MAGIC:
        raise _unusable(path, "it is not in the GGUF format")
    version, _tensors, entries = _unpack(file, "<IQQ")
    if version not in _VERSIONS or entries > _MOST_ENTRIES:
        raise _unusable(path, f"version {version} of the GGUF format is not known")
    values = {}
    for _ in range(entries):
        key = _string(file)
        (kind,) = _unpack(file, "<I")
        values[key] = _value(file, kind)
    return values


def _value(file: BinaryIO, kind: int) -> Any:
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


def _unusable(path: Path, cause: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"The model file {path} cannot be used: {cause}.",
        remedy="Remove it and let it be downloaded again, or name another in local.modelPath.",
    )
