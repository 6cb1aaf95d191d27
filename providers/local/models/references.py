"""What a reference to a model means: a file, a file of a hub's repository, or an address.

Forms: a path; `hf:org/repo/folder/file.gguf#revision` (also `hf://`; the revision is `main` unless
named); `http://` and `https://`. Pure: nothing is looked up.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from providers.local.models.errors import ModelReferenceError

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
    """An address. As text it is without its query, which may hold a secret."""

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
    if len(parts) < 3 or not all(map(_is_name, parts)) or not location.lower().endswith(".gguf"):
        raise _unusable(repr(text), "does not name organisation, repository and a .gguf file")
    revision = revision or "main"
    if not all(map(_is_name, revision.split("/"))):
        raise _unusable(repr(text), "has no valid revision behind the #")
    return HubReference("/".join(parts[:2]), "/".join(parts[2:]), revision)


def _is_name(part: str) -> bool:
    """Whether it can be one step of a path, at the hub and on any disk."""
    return part.strip() not in {"", ".", ".."} and part.isprintable() and "\\" not in part


def _web(text: str) -> WebReference:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise _unusable("The address of the model", "is not valid") from None
    if "@" in parts.netloc:
        raise _unusable("The address of the model", "holds a user name or password")
    if not parts.hostname or not parts.path.rpartition("/")[2]:
        raise _unusable(repr(parts._replace(query="").geturl()), "names no host and file")
    return WebReference(parts._replace(fragment="").geturl())


def _unusable(what: str, why: str) -> ModelReferenceError:
    return ModelReferenceError(
        f"{what} {why}.",
        remedy=f"Write a path, an http(s) address or {_EXAMPLE} (memorySearch.local.modelPath).",
    )
