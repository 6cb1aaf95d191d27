"""Reading a JSON5 file into values that know their place.

Owns bytes to `Located` tree, and the typed error for everything that is not JSON5: size, encoding,
nesting, syntax. The grammar itself is `pyjson5`'s, which is imported only when there is a
file to read; its complaints are put into words and places by `config.source.syntax`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from config.disk.reading import read_file
from config.errors import ConfigInvalidError, ConfigProblem
from config.source.located import Located, SourceText, type_words
from config.source.positions import Spot, scan
from config.source.syntax import error_at, parser_error

MAX_BYTES = 4 * 1024 * 1024
"""More than any configuration needs; keeps a wrong path (a log, a disk image) from being read."""
MAX_DEPTH = 200


def read_json5(path: Path) -> Located:
    """The value in the file at `path`.

    Raises `FileNotFoundError` when there is no such file, `ConfigInvalidError` for everything else.
    """
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = ConfigProblem(message=f"cannot be read: {error.strerror}", file=str(path))
        remedy = "Name a file that this user may read."
        raise ConfigInvalidError([problem], remedy=remedy) from error
    return parse_json5(data, path)


def parse_json5(data: bytes, path: Path) -> Located:
    """The value that `data` holds; `path` is for messages. Raises `ConfigInvalidError`."""
    source = SourceText(path, _decode(data, path))
    return _locate(_parse(source), scan(source.text, _decode_string), source)


def require_object(root: Located) -> Located:
    """The value itself, if it is an object. Raises `ConfigInvalidError` otherwise."""
    if not isinstance(root.value, dict):
        message = f"found {type_words(root.value)} at the top, allowed is an object"
        raise error_at(root.source, root.offset, message, "Put the settings between { and }.")
    return root


def _decode(data: bytes, path: Path) -> str:
    if len(data) > MAX_BYTES:
        problem = ConfigProblem(message=f"is larger than {MAX_BYTES >> 20} MiB", file=str(path))
        raise ConfigInvalidError([problem], remedy="Name a configuration file.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _encoding_error(b"", "the text is UTF-16", path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind the byte order mark that it skips.
        before = bytes(error.object[: error.start])
        found = f"the byte 0x{error.object[error.start]:02x} is not valid UTF-8"
        raise _encoding_error(before, found, path) from error


def _encoding_error(before: bytes, message: str, path: Path) -> ConfigInvalidError:
    text = before.decode("utf-8")
    remedy = "Save the file in the encoding UTF-8."
    return error_at(SourceText(path, text), len(text), message, remedy)


def _parse(source: SourceText) -> Any:
    import pyjson5  # noqa: PLC0415 - costs start-up time that a start without a file need not pay

    try:
        return pyjson5.decode(source.text, maxdepth=MAX_DEPTH)
    except pyjson5.Json5DecoderException as error:
        raise parser_error(source, str(error.args[0])) from error


def _decode_string(quoted: str) -> str:
    import pyjson5  # noqa: PLC0415 - already loaded by `_parse`

    text: str = pyjson5.decode(quoted)
    return text


def _locate(value: Any, spot: Spot, source: SourceText) -> Located:
    """Values and spots as one tree; recursion is bounded by `MAX_DEPTH`."""
    if isinstance(value, dict):
        members = spot.members
        value = {name: _locate(part, members[name], source) for name, part in value.items()}
    elif isinstance(value, list):
        pairs = zip(value, spot.items, strict=True)
        value = [_locate(part, below, source) for part, below in pairs]
    return Located(value, source, spot.offset, spot.value, spot.end, spot.shadowed)
