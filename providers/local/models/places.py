"""Where a downloaded model lies in the cache directory, and what is noted beside it.

`hf/<org>/<repository>/<revision>/<file>` or `web/<host>/<digest of the address>/<file>`. Beside the
model lie, under its name, a record (`.json`), while it is fetched a part (`.part`) and a lock
(`.lock`). A model under its own name is complete: it gets that name last, by a rename.
Everything here blocks for as long as a disk takes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from config.disk.replacing import remove_drafts, replace_file
from providers.local.models.errors import ModelFormatError, ModelStorageError
from providers.local.models.references import HubReference, RemoteReference

_MAGIC = b"GGUF"


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model that is there or on its way."""

    reference: str
    bytes: int | None = None
    """Its whole size; None as long as the host does not say."""
    sha256: str | None = None
    """In hexadecimal: of the file if it is complete, else what the host announced."""
    validator: str | None = None
    """Changes when the host's file does; without one a part cannot be continued."""


class Place(msgspec.Struct, frozen=True):
    """The files of one model."""

    model: Path

    @property
    def part(self) -> Path:
        return self._beside("part")

    @property
    def lock(self) -> Path:
        return self._beside("lock")

    @property
    def _record(self) -> Path:
        return self._beside("json")

    def _beside(self, kind: str) -> Path:
        return self.model.with_name(f"{self.model.name}.{kind}")

    def is_complete(self) -> bool:
        """Whether the model is there, with the size that was recorded if one was."""
        if not self.model.is_file():
            return False
        record = self.record()
        return record is None or record.bytes in (None, self.model.stat().st_size)

    def record(self) -> ModelRecord | None:
        return read_record(self._record)

    def held(self) -> int:
        """How many bytes of the model are there already, complete or not."""
        for file in (self.part, self.model):
            try:
                return file.stat().st_size
            except FileNotFoundError:
                continue
        return 0

    def write_record(self, record: ModelRecord) -> None:
        replace_file(self._record, msgspec.json.encode(record))

    def remove_drafts(self) -> None:
        """Records that a killed process was just writing; for whoever holds the lock."""
        remove_drafts(self._record)

    def publish(self) -> None:
        """Gives the part the model's name, and returns when that will survive a power cut."""
        _sync(self.part)
        self.part.replace(self.model)
        _sync(self.model.parent)

    def remove(self) -> int:
        """Removes model, part and record; how many bytes of a model that were. The lock stays."""
        freed = self.held()
        self.remove_drafts()
        for file in (self.model, self.part, self._record):
            file.unlink(missing_ok=True)
        return freed


def place_of(reference: RemoteReference, cache_dir: Path) -> Place:
    """The place, whether or not there is anything."""
    if isinstance(reference, HubReference):
        steps = [*reference.repository.split("/"), reference.revision, *reference.file.split("/")]
        return Place(cache_dir.joinpath("hf", *map(_quoted, steps)))
    parts = urlsplit(reference.url)
    digest = hashlib.sha256(reference.url.encode()).hexdigest()[:16]
    steps = [parts.netloc.lower(), digest, parts.path.rpartition("/")[2]]
    return Place(cache_dir.joinpath("web", *map(_quoted, steps)))


def recorded(cache_dir: Path) -> Iterator[tuple[Place, ModelRecord]]:
    """Every model in a cache directory, complete or in part, in the order of their places."""
    for kind in ("hf", "web"):
        for file in sorted((cache_dir / kind).rglob("*.json")):
            place = Place(file.with_suffix(""))
            record = read_record(file)
            if record is not None and place.held():
                yield place, record


def read_record(file: Path) -> ModelRecord | None:
    """None also for a file that is no record: it is then as if nothing were known."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=ModelRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


@contextmanager
def storage_errors(place: Place) -> Iterator[None]:
    """Turns what the disk says into `ModelStorageError`."""
    try:
        yield
    except OSError as error:
        raise ModelStorageError(
            f"The model cannot be kept in {place.model.parent}: {error.strerror or error}.",
            remedy="Make room there, or set memorySearch.local.modelCacheDir to another directory.",
        ) from error


def _quoted(step: str) -> str:
    """A name without a separator; no two steps become the same."""
    return quote(step, safe=" ")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_magic(head: bytes, name: str) -> None:
    """Raises `ModelFormatError` unless these are the first bytes of a GGUF file."""
    if not head.startswith(_MAGIC):
        raise ModelFormatError(
            f"{name} is not a GGUF file; it begins with {head[:16]!r}.",
            remedy="Name a model in the GGUF format (memorySearch.local.modelPath).",
        )
