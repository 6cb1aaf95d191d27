"""One local model: its properties, the prompts of its family, its fingerprint; read from its files, without its engine.

Of a GGUF file (versions 2 and 3 of the specification, little-endian) the metadata are read, and only the length of
arrays, such as vocabularies, is kept. An ONNX file contains only the network. Its tokenizer, its longest input and the
pooling of its vectors are in files beside it or one directory up, named as at the hub.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from config.runtime.files import sha256_of
from config.settings import Settings
from providers.local.models import configured_models, locate
from providers.local.models.references import (
    CONFIG,
    MAGIC,
    NEIGHBOURS,
    ONNX,
    POOLING,
    TOKENIZER,
    EngineName,
    HubReference,
    directory_of,
    engine_of,
    parse_reference,
)
from providers.local.worker import Open
from providers.provider_interface import (
    Fingerprint,
    ProviderError,
    ProviderUnavailableError,
    Purpose,
)

_POOLINGS: Final = {1: "mean", 2: "cls", 3: "last"}
_MEAN, _CLS, _LAST, _RANK = 1, 2, 3, 4
_FIRST_TOKEN: Final = re.compile(r"bge-|granite-embedding|gte-|arctic-embed|mxbai")
"""Models whose vector is that of the first token, for use if the file that says so is missing."""
_QUANTISATIONS: Final = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1",
                         15: "q4_k_m", 17: "q5_k_m", 18: "q6_k", 32: "bf16"}  # fmt: skip
_USUAL_TOKENS: Final = 512
"""The smallest room for one text; it costs nothing, since batches of this size are the fastest."""
_ROUNDED_TO: Final = 256
_POOLING_NAMES: Final = {"mean": 1, "cls": 2, "last": 3, "lasttoken": 3}
_POOLING_FLAGS: Final = {
    "pooling_mode_cls_token": 2,
    "pooling_mode_mean_tokens": 1,
    "pooling_mode_lasttoken": 3,
}
_OFFSET_FAMILIES: Final = ("roberta", "camembert", "mpnet")
"""Their first position is the one after the padding's, so that two positions are lost."""
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
TEXT: Final = "{text}"
_RETRIEVE: Final = "Given a web search query, retrieve relevant passages that answer the query"
_PASSAGES: Final = "Represent this sentence for searching relevant passages: "


class Prompts(msgspec.Struct, frozen=True):
    """The prompts before texts; one with `{text}` in it is a template around the text."""

    query: str = ""
    document: str = ""

    def apply(self, purpose: Purpose, text: str) -> str:
        prompt = self.query if purpose == "query" else self.document
        return prompt.replace(TEXT, text, 1) if TEXT in prompt else f"{prompt}{text}"


_FAMILIES: Final[tuple[tuple[str, Prompts], ...]] = (
    (
        r"embedding-?gemma|gemma-embedding",
        Prompts("task: search result | query: ", "title: none | text: "),
    ),
    (r"nomic-(embed|bert)", Prompts("search_query: ", "search_document: ")),
    (r"qwen3-?embedding", Prompts(f"Instruct: {_RETRIEVE}\nQuery:")),
    (r"e5-.*instruct", Prompts(f"Instruct: {_RETRIEVE}\nQuery: ")),
    (r"\be5-(mistral|small|base|large|v2)|multilingual-e5", Prompts("query: ", "passage: ")),
    (r"bge-(small|base|large)-zh", Prompts("为这个句子生成表示以用于检索相关文章：")),
    (r"bge-(small|base|large)-en", Prompts(_PASSAGES)),
)
"""The first match counts. MiniLM, bge-m3 and unknown models take no prompts."""


def prompts_for(*names: str) -> Prompts:
    """Returns the prompts of the family that one of the names belongs to; none for an unknown one.

    Names are the architecture, the model's own name and the file's, the most specific first.
    """
    for name in names:
        plain = re.sub(r"[\s_]+", "-", name.lower())
        for pattern, prompts in _FAMILIES:
            if re.search(pattern, plain):
                return prompts
    return Prompts()


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration for the model that it names."""

    dimensions: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    chunk_tokens: int = 400
    """The longest text to expect, in estimated tokens."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    engine: EngineName
    stamp: tuple[int, ...]
    """Shows whether the file has been replaced; see `stamp_of`."""
    sha256: str
    name: str
    quantisation: str
    pooling: int
    width: int
    """Dimensions that the model gives; 0 if its file does not say."""
    has_dense_layers: bool
    context_tokens: int
    """The most tokens that the model can read."""
    max_tokens: int
    """The most tokens that it is given: enough for the chunks, since more would cost memory."""
    prompts: Prompts
    dimensions: int | None
    """The configured number; None takes all."""
    tokenizer: Path | None = None
    """Its file; None if it is within the model's."""
    tokenizer_sha256: str | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(
            provider="local",
            model=self.name,
            endpoint=self.engine,
            dimensions=self.dimensions,
            variant=(
                f"sha256 {self.sha256}",
                *((f"tokenizer {self.tokenizer_sha256}",) if self.tokenizer_sha256 else ()),
                f"quantisation {self.quantisation}",
                f"pooling {_POOLINGS[self.pooling]}",
                f"dense layers {'yes' if self.has_dense_layers else 'no'}",
                f"input {self.max_tokens}",
                f"document {self.prompts.document!r}",
            ),
        )

    @property
    def is_as_read(self) -> bool:
        """True if the files are still those that were read."""
        return stamp_of(self.path, *((self.tokenizer,) if self.tokenizer else ())) == self.stamp

    @property
    def order(self) -> Open:
        """The message that makes the worker load this model."""
        return Open(
            str(self.path),
            self.max_tokens,
            self.pooling,
            self.dimensions,
            self.engine,
            str(self.tokenizer or ""),
            f"{self.sha256} {self.tokenizer_sha256 or ''}",
        )


def read_model(path: Path, wishes: Wishes, reference: str | None = None) -> Model:
    """Reads a model's files and computes the hash. Blocking: about a second for a gigabyte.

    Raises ProviderUnavailableError for a file that cannot give the requested embeddings.
    """
    model = (
        _read_onnx(path, wishes, reference)
        if engine_of(path.name) is ONNX
        else _read_gguf(path, wishes)
    )
    if model.width and (wishes.dimensions or 0) > model.width:
        raise ProviderUnavailableError(
            f"The model {path.name} gives {model.width} dimensions, not {wishes.dimensions}.",
            remedy="Lower outputDimensionality, or remove it.",
        )
    return model


def _read_gguf(path: Path, wishes: Wishes) -> Model:
    header = read_header(path)
    stamp = stamp_of(path)
    context_tokens = _whole(header.own("context_length")) or _USUAL_TOKENS
    return Model(
        path=path,
        engine="llama.cpp",
        stamp=stamp,
        sha256=sha256_of(path),
        name=path.name,
        quantisation=_quantisation(header),
        pooling=_pooling(header, path),
        width=_whole(header.own("dense_3_feat_out")) or _whole(header.own("embedding_length")),
        has_dense_layers=header.own("dense_2_feat_out") is not None,
        context_tokens=context_tokens,
        max_tokens=min(context_tokens, _room(wishes.chunk_tokens)),
        prompts=_prompts(
            wishes, str(header.values.get("general.name", "")), path.name, header.architecture
        ),
        dimensions=wishes.dimensions,
    )


def _read_onnx(path: Path, wishes: Wishes, reference: str | None) -> Model:
    found = read_neighbours(path)
    stamp = stamp_of(path, found.tokenizer)
    name = _onnx_name(path, reference)
    context_tokens = found.context_tokens or _USUAL_TOKENS
    return Model(
        path=path,
        engine="onnxruntime",
        stamp=stamp,
        sha256=sha256_of(path),
        name=name,
        quantisation=path.stem,
        pooling=found.pooling or (_CLS if _FIRST_TOKEN.search(name.lower()) else _MEAN),
        width=found.width,
        has_dense_layers=False,
        context_tokens=context_tokens,
        max_tokens=min(context_tokens, _room(wishes.chunk_tokens)),
        prompts=_prompts(wishes, name, found.architecture),
        dimensions=wishes.dimensions,
        tokenizer=found.tokenizer,
        tokenizer_sha256=sha256_of(found.tokenizer),
    )


def _onnx_name(path: Path, reference: str | None) -> str:
    """Returns the name of the repository or the directory, since the files themselves have equal names."""
    parsed = parse_reference(reference) if reference else None
    if isinstance(parsed, HubReference):
        return parsed.repository.rpartition("/")[2]
    return directory_of(path).name


def stamp_of(*paths: Path) -> tuple[int, ...]:
    """Returns identity, size and time of the files at these paths; empty if one is missing."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return ()
    return tuple(n for one in found for n in (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns))


def context_of(path: Path) -> int | None:
    """Returns the most tokens that the model in this file can read; None if it does not say."""
    if engine_of(path.name) is ONNX:
        return read_neighbours(path).context_tokens or None
    return _whole(read_header(path).own("context_length")) or None


def _room(chunk_tokens: int) -> int:
    """Returns twice the estimate, since scripts differ, in whole steps."""
    steps = -(-2 * chunk_tokens // _ROUNDED_TO)
    return max(_USUAL_TOKENS, steps * _ROUNDED_TO)


def _pooling(header: Header, path: Path) -> int:
    named = _whole(header.own("pooling_type"))
    if named == _RANK:
        raise ProviderUnavailableError(
            f"The model {path.name} ranks texts and cannot embed them.",
            remedy="Name an embedding model in local.modelPath.",
        )
    if named in _POOLINGS:
        return named
    return _LAST if header.own("attention.causal") in (None, True) else _MEAN


def _prompts(wishes: Wishes, *names: str) -> Prompts:
    usual = prompts_for(*names)
    query = _chosen(wishes.query_prompt, usual.query)
    return Prompts(query, _chosen(wishes.document_prompt, usual.document))


def _chosen(configured: str | None, usual: str) -> str:
    """Returns the configured prompt, or the usual one. A blank is appended, as the configuration drops outer blanks."""
    if configured is None:
        return usual
    return configured if TEXT in configured or not configured else f"{configured.rstrip()} "


def _quantisation(header: Header) -> str:
    number = _whole(header.values.get("general.file_type"))
    return _QUANTISATIONS.get(number, f"type {number}")


def _whole(value: object) -> int:
    """Returns a positive whole number of the header; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def shown(reference: str) -> str:
    """Returns the reference without the query of an address, which may contain a secret."""
    return reference.partition("?")[0] if "://" in reference else reference


def longest_text(settings: Settings) -> int | None:
    """Returns the longest text that the local model reads, in its own tokens. Blocking, some milliseconds.

    None if its file is missing or does not say.
    """
    try:
        models = configured_models(settings, os.environ)
        path = locate(models.reference, models.cache_dir)
        return context_of(path) if path else None
    except ProviderError:
        return None  # it is raised when the model is needed


class Neighbours(msgspec.Struct, frozen=True):
    """The properties of a model in the files around it."""

    tokenizer: Path
    architecture: str
    context_tokens: int
    """0 if it is not given."""
    width: int
    """0 if it is not given."""
    pooling: int | None
    """A number of `LLAMA_POOLING_TYPE_*`; None if it is not given."""


def read_neighbours(model: Path) -> Neighbours:
    """Reads them, in a millisecond. Raises ProviderUnavailableError if a file is missing or cannot be read."""
    _check(model)
    directory = directory_of(model)
    config = _read(model, directory / CONFIG)
    architecture = str(config.get("model_type", ""))
    positions = _whole(config.get("max_position_embeddings"))
    if positions and any(family in architecture for family in _OFFSET_FAMILIES):
        positions -= 2
    pooling, tokenizer = directory / POOLING, directory / TOKENIZER
    if not tokenizer.is_file():
        raise _unusable_onnx(model, f"{TOKENIZER} is missing beside it")
    return Neighbours(
        tokenizer=tokenizer,
        architecture=architecture,
        context_tokens=positions,
        width=_whole(config.get("hidden_size")),
        pooling=_pooling_of(_read(model, pooling)) if pooling.is_file() else None,
    )


def _check(model: Path) -> None:
    """Refuses a file that is not ONNX; most faults of one are noticed when it is loaded."""
    try:
        with model.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise _unusable_onnx(model, f"it cannot be read ({error.strerror})") from None
    if head.startswith(b"<"):
        raise _unusable_onnx(model, "it is a web page, not a model")
    if not head.startswith(MAGIC):
        raise _unusable_onnx(model, "it is not in the ONNX format")


def _pooling_of(config: dict[str, object]) -> int | None:
    named = _POOLING_NAMES.get(str(config.get("pooling_mode")))
    flagged = (kind for flag, kind in _POOLING_FLAGS.items() if config.get(flag) is True)
    return named or next(flagged, None)


def _read(model: Path, file: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise _unusable_onnx(model, f"{file.name} is missing beside it") from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise _unusable_onnx(model, f"{file} cannot be read") from None


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
        """Returns a value under the architecture's own name: `own("context_length")`."""
        return self.values.get(f"{self.architecture}.{key}")


def read_header(path: Path) -> Header:
    """Reads it in some milliseconds, or a tenth of a second for a vocabulary of 262,144 words.

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
