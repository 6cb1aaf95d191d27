"""References to models: their engines, their forms, the configuration and the hub that they depend on, and the errors
of a model that is missing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import quote, urlsplit

import msgspec

from config.errors import ErrorKind
from config.paths import home_dir, named_dir, variable
from config.settings import Secret
from providers.endpoints import Origin
from providers.provider_interface import (
    ProviderAuthError,
    ProviderTransientError,
    ProviderUnavailableError,
)


class ModelReferenceError(ProviderUnavailableError):
    """The text is neither a path nor a usable address of a model."""


class ModelNotFoundError(ProviderUnavailableError):
    """There is no such file on this disk or at the host."""

    kind = ErrorKind.FILE_UNREADABLE


class ModelAccessError(ProviderAuthError):
    """The host demands a token, or another one."""


class ModelOfflineError(ProviderUnavailableError):
    """The model would have to be downloaded, and HF_HUB_OFFLINE forbids that."""


class ModelHostError(ProviderUnavailableError):
    """The host cannot be used: its certificate, its redirects, its refusal."""


class ModelFormatError(ProviderUnavailableError):
    """The file is not a model but a web page, a pointer or something else."""


class ModelDamagedError(ProviderUnavailableError):
    """The downloaded file is not the one that the host announced, or not the suggested one."""


class ModelStorageError(ProviderUnavailableError):
    """The cache directory is full, read-only or does not support locks."""


class ModelBusyError(ProviderTransientError):
    """Another process is downloading this model and makes no progress."""


EngineName = Literal["onnxruntime", "llama.cpp"]


class LocalEngine(msgspec.Struct, frozen=True, kw_only=True):
    name: EngineName
    format: str
    """The format of its models."""
    modules: tuple[str, ...]
    extra: str
    """The extra of our package that installs it."""

    @property
    def missing(self) -> str | None:
        """A module that is not installed; None if all are."""
        return _missing(self.modules)

    @property
    def not_installed(self) -> bool:
        """True if something of it is missing, or the library that downloads its models."""
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
"""Compiled where it is installed; for users of a GGUF model or a GPU."""


def engine_of(name: str) -> LocalEngine:
    """Returns the engine for a model, by the name of its file or its reference."""
    return ONNX if name.partition("#")[0].lower().endswith(".onnx") else LLAMA


TOKENIZER: Final = "tokenizer.json"
CONFIG: Final = "config.json"
POOLING: Final = "1_Pooling/config.json"
NEEDED: Final = (TOKENIZER, CONFIG)
"""The neighbours without which a model cannot be used."""
NEIGHBOURS: Final = (*NEEDED, POOLING)
MAGIC: Final = b"\x08"
"""The first byte of an ONNX file. The format defines none, but every exporter writes the version as the first field."""


def directory_of(model: Path) -> Path:
    """Returns the directory of a model's neighbours: its own, or else the one above."""
    return next(
        (one for one in (model.parent, model.parent.parent) if (one / TOKENIZER).is_file()),
        model.parent,
    )


_FORMATS = (".onnx", ".gguf")
_EXAMPLE = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"


class FileReference(msgspec.Struct, frozen=True):
    """A file of the user's own; it is never copied, changed or removed."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


class HubReference(msgspec.Struct, frozen=True):
    """A file of a repository at the hub."""

    repository: str
    """`org/name`."""
    file: str
    revision: str = "main"
    """Branch, tag or commit."""

    def __str__(self) -> str:
        mark = "" if self.revision == "main" else f"#{self.revision}"
        return f"hf:{self.repository}/{self.file}{mark}"


class WebReference(msgspec.Struct, frozen=True):
    """An address. Its text omits the query, which may contain a secret."""

    url: str

    def __str__(self) -> str:
        return urlsplit(self.url)._replace(query="", fragment="").geturl()


RemoteReference = HubReference | WebReference
Reference = FileReference | RemoteReference


def parse_reference(text: str) -> Reference:
    """Raises `ModelReferenceError`."""
    text = text.strip()
    scheme, colon, rest = text.partition(":")
    match scheme.lower() if colon else "":
        case "hf":
            return _hub(text, rest)
        case "http" | "https":
            return _web(text)
    if not text or "\0" in text:
        raise _unusable("An empty text", "is no model")
    return FileReference(Path(text).expanduser())


def _hub(text: str, rest: str) -> HubReference:
    location, _, revision = rest.removeprefix("//").partition("#")
    parts = location.split("/")
    if len(parts) < 3 or not all(map(_is_name, parts)) or not location.lower().endswith(_FORMATS):
        raise _unusable(
            repr(text), "does not name organisation, repository and an .onnx or .gguf file"
        )
    revision = revision or "main"
    if not all(map(_is_name, revision.split("/"))):
        raise _unusable(repr(text), "has no valid revision after the #")
    return HubReference("/".join(parts[:2]), "/".join(parts[2:]), revision)


def _is_name(part: str) -> bool:
    """Returns whether it is a valid name of a file or directory, at the hub and on any disk."""
    return part.strip() not in {"", ".", ".."} and part.isprintable() and "\\" not in part


def _web(text: str) -> WebReference:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise _unusable("The address of the model", "is not valid") from None
    if "@" in parts.netloc:
        raise _unusable("The address of the model", "holds a user name or password")
    is_named = _is_name(parts.netloc) and _is_name(parts.path.rpartition("/")[2])
    if not parts.hostname or not is_named:
        raise _unusable(repr(parts._replace(query="").geturl()), "names no host and file")
    if parts.path.lower().endswith(".onnx"):
        raise _unusable("An ONNX model", "is several files, which an address cannot name")
    return WebReference(parts._replace(fragment="").geturl())


def _unusable(what: str, why: str) -> ModelReferenceError:
    return ModelReferenceError(
        f"{what} {why}.",
        remedy=f"Write a path, an http(s) address or {_EXAMPLE} (local.modelPath).",
    )


class ConfiguredModels(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `obtain` and `locate`."""

    reference: str
    """`local.modelPath`; without it the suggested model if it may be used, else the default one."""
    cache_dir: Path
    environment: Mapping[str, str]
    """The variables, which are never shown, since they may contain a secret."""


def default_cache_dir(environment: Mapping[str, str]) -> Path:
    """Returns `memory-gateway/models` in XDG_CACHE_HOME or `~/.cache`."""
    named = named_dir(environment, "XDG_CACHE_HOME")
    cache = named or home_dir(environment, Path("/")) / ".cache"
    return cache / "memory-gateway" / "models"


_DEFAULT_ENDPOINT = "https://huggingface.co"
_TRUE = frozenset({"1", "ON", "YES", "TRUE"})


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: str
    """The address, without a slash at its end."""
    token: Secret | None
    offline: bool

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Raises `ModelReferenceError` for an HF_ENDPOINT that is not an address."""
        named = variable(environment, "HF_ENDPOINT")
        token = variable(environment, "HF_TOKEN")
        return cls(
            endpoint=_address(named[1]) if named else _DEFAULT_ENDPOINT,
            token=Secret(token[1]) if token else None,
            offline=environment.get("HF_HUB_OFFLINE", "").strip().upper() in _TRUE,
        )

    def url_of(self, reference: RemoteReference) -> str:
        """Returns the address of a model's file."""
        if not isinstance(reference, HubReference):
            return reference.url
        revision = quote(reference.revision, safe="")
        file = quote(reference.file)
        return f"{self.endpoint}/{quote(reference.repository)}/resolve/{revision}/{file}"

    def token_for(self, url: str) -> Secret | None:
        """Returns the token, if it may be sent to this address."""
        target = Origin.of(url)
        if target != Origin.of(self.endpoint):
            return None
        return self.token if target.scheme == "https" or target.private else None


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise ModelReferenceError(
            "HF_ENDPOINT is no http or https address.",
            remedy=f"Correct it, or unset it for {_DEFAULT_ENDPOINT}.",
        )
    return text.rstrip("/")
