"""One local model: its file, its properties, the prompts of its family, and its fingerprint."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from config.settings import Settings
from providers.local.model_formats import (
    ONNX,
    EngineName,
    Header,
    directory_of,
    engine_of,
    read_header,
    read_neighbours,
)
from providers.local.models import configured_models, locate
from providers.local.models.references import HubReference, parse_reference
from providers.local.protocol import Open
from providers.provider_errors import ProviderError, ProviderUnavailableError
from providers.provider_interface import Fingerprint, Purpose

TEXT: Final = "{text}"
_RETRIEVE: Final = "Given a web search query, retrieve relevant passages that answer the query"
_PASSAGES: Final = "Represent this sentence for searching relevant passages: "


class Prompts(msgspec.Struct, frozen=True):
    """What stands before a text; with `{text}` in it, a template around the text."""

    query: str = ""
    document: str = ""

    def apply(self, purpose: Purpose, text: str) -> str:
        prompt = self.query if purpose == "query" else self.document
        if TEXT in prompt:
            before, _, after = prompt.partition(TEXT)
            return f"{before}{text}{after}"
        return f"{prompt}{text}"


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
    """The prompts of the family that one of the names belongs to; none for an unknown one.

    Names are the architecture, the model's own name and the file's, most telling first.
    """
    for name in names:
        plain = re.sub(r"[\s_]+", "-", name.lower())
        for pattern, prompts in _FAMILIES:
            if re.search(pattern, plain):
                return prompts
    return Prompts()


_POOLINGS: Final = {1: "mean", 2: "cls", 3: "last"}
_MEAN, _CLS, _LAST, _RANK = 1, 2, 3, 4
_FIRST_TOKEN: Final = re.compile(r"bge-|granite-embedding|gte-|arctic-embed|mxbai")
"""Models whose vector is that of the first token, where the file that says so is missing."""
_QUANTISATIONS: Final = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1",
                         15: "q4_k_m", 17: "q5_k_m", 18: "q6_k", 32: "bf16"}  # fmt: skip
_USUAL_TOKENS: Final = 512
"""The smallest room for one text; it costs nothing, since batches of this size are the fastest."""
_ROUNDED_TO: Final = 256


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration wants of the model that it names."""

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
    """As configured; None takes all."""
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
        """Whether the files are still those that were read."""
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
            self.sha256,
        )

    def prompted(self, purpose: Purpose, text: str) -> str:
        return self.prompts.apply(purpose, text)


def read_model(path: Path, wishes: Wishes, reference: str | None = None) -> Model:
    """Reads what its files say and computes the hash. Blocking: about a second for a gigabyte.

    Raises ProviderUnavailableError for a file that cannot give the embeddings that are wanted.
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
        sha256=_sha256(path),
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
        sha256=_sha256(path),
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
        tokenizer_sha256=_sha256(found.tokenizer),
    )


def _onnx_name(path: Path, reference: str | None) -> str:
    """Repository or directory: the files themselves are called alike."""
    parsed = parse_reference(reference) if reference else None
    if isinstance(parsed, HubReference):
        return parsed.repository.rpartition("/")[2]
    return directory_of(path).name


def stamp_of(*paths: Path) -> tuple[int, ...]:
    """Identity, size and time of the files at these paths; empty if one is missing."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return ()
    return tuple(n for one in found for n in (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns))


def context_of(path: Path) -> int | None:
    """The most tokens that the model in this file can read; None if it does not say."""
    if engine_of(path.name) is ONNX:
        return read_neighbours(path).context_tokens or None
    return _whole(read_header(path).own("context_length")) or None


def _room(chunk_tokens: int) -> int:
    """Twice the estimate, since scripts differ, in whole steps."""
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
    return Prompts(
        _chosen(wishes.query_prompt, usual.query), _chosen(wishes.document_prompt, usual.document)
    )


def _chosen(configured: str | None, usual: str) -> str:
    """The configured prompt. A blank is appended, because the configuration drops outer blanks."""
    if configured is None:
        return usual
    return configured if TEXT in configured or not configured else f"{configured.rstrip()} "


def _quantisation(header: Header) -> str:
    number = _whole(header.values.get("general.file_type"))
    return _QUANTISATIONS.get(number, f"type {number}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _whole(value: object) -> int:
    """A positive whole number of the header; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def shown(reference: str) -> str:
    """The reference without the query of an address, which may hold a secret."""
    return reference.partition("?")[0] if "://" in reference else reference


def longest_text(settings: Settings) -> int | None:
    """The longest text that the local model reads, in its own tokens. Blocking, some milliseconds.

    None if its file is missing or does not say.
    """
    try:
        models = configured_models(settings, os.environ)
        path = locate(models.reference, models.cache_dir)
        return context_of(path) if path else None
    except ProviderError:
        return None  # it is raised when the model is needed
