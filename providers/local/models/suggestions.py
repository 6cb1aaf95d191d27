"""Suggested models, each pinned to files of known hashes: their properties, and whether they are on this disk.

The first one is for users without a key. Once it is downloaded, by which its user agrees to it, `provider: "auto"` uses
it if there is no other provider.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from config.runtime.files import sha256_of
from providers.local.models.cache import ModelFiles, ModelRecord, files_of, place_of
from providers.local.models.references import HubReference, LocalEngine, engine_of, parse_reference


class Suggestion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A published model in files of known hashes."""

    name: str
    maker: str
    reference: str
    """With the commit, so that the download is the version that was examined; without it for the default model."""
    bytes: int
    """The size of all its files."""
    sha256: str
    beside: Mapping[str, str] = {}
    """The SHA-256 of each other file that it needs, by its path in the repository."""
    licence: str
    languages: str
    retrieval: float | None
    """Published: nDCG@10 on the 18 tasks of multilingual MTEB retrieval, of 100; None for a model of one language."""
    why: str

    @property
    def repository(self) -> HubReference:
        parsed = parse_reference(self.reference)
        assert isinstance(parsed, HubReference)
        return parsed

    @property
    def engine(self) -> LocalEngine:
        return engine_of(self.reference)

    def path(self, cache_dir: Path) -> Path:
        """Returns the place where it is, or would be."""
        return place_of(self.repository, cache_dir).model

    def is_here(self, cache_dir: Path) -> bool:
        """Returns whether it is complete and its files are known to be those that were examined."""
        try:
            return all(_known(place) == digest for place, digest in self._files(cache_dir))
        except OSError:
            return False  # a cache that cannot be read has nothing that could be used

    def by_hand(self, cache_dir: Path) -> str:
        """Returns an instruction: the missing files, where a person finds them, and where they belong."""
        files = [file for file in files_of(self.repository) if isinstance(file, HubReference)]
        places = [place_of(file, cache_dir) for file in files]
        missing = [
            file.file for file, at in zip(files, places, strict=True) if not at.is_complete()
        ]
        top = os.path.commonpath([at.model for at in places])
        source = self.repository
        page = f"https://huggingface.co/{source.repository}/tree/{source.revision}"
        return f"put {', '.join(missing)} of {page} below {top}"

    def confirm(self, cache_dir: Path) -> Path | None:
        """Returns a file that is not the one that was examined; None if `is_here`.

        Reads complete files without a record, such as those that were put there by hand. Raises OSError.
        """
        for place, digest in self._files(cache_dir):
            if place.is_complete() and place.record() is None:
                sha256, size = sha256_of(place.model), place.model.stat().st_size
                record = ModelRecord(reference=str(self.repository), bytes=size, sha256=sha256)
                place.write_record(record)
            if _known(place) != digest:
                return place.model
        return None

    def _files(self, cache_dir: Path) -> Iterator[tuple[ModelFiles, str]]:
        for file in files_of(self.repository):
            name = file.file if isinstance(file, HubReference) else ""
            yield place_of(file, cache_dir), self.beside.get(name, self.sha256)


def _known(place: ModelFiles) -> str | None:
    record = place.record()
    return record.sha256 if record is not None and place.is_complete() else None


FIRST = Suggestion(
    name="granite-embedding-97m-multilingual-r2",
    maker="IBM",
    reference="hf:ibm-granite/granite-embedding-97m-multilingual-r2/onnx/model_quint8_avx2.onnx"
    "#835ad14087e140460703cf0fae09f97d469d65c2",
    bytes=123_551_062,
    sha256="a6022dd8220ea6f6595562a1328ee216f4a94faa55362f2f4747c80f1e78772e",
    beside={
        "tokenizer.json": "4f2842d568e2724370aec203652a42ac783c7937f8347a1a2cc7506d71f1582f",
        "config.json": "de948b0bdc6f356afad7a84b276d8dd7e7fe10fb9add1bb5e610621c28e41ebc",
        "1_Pooling/config.json": "8bc5c9a40814fcf48d2fbe7cfeff4bee6736c3c2a823ba0ce098985c59d12ab7",
    },
    licence="Apache-2.0",
    languages="52, and across them",
    retrieval=59.6,
    why="the best published retrieval across languages among models of this size",
)
"""The suggestion for users without a key."""
FOR_LLAMA = Suggestion(
    name="embeddinggemma-300M",
    maker="Google",
    reference="hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
    bytes=333_590_944,
    sha256="b5ce9d77a3fc4b3b39ccb5643c36777911cc4eb46a66962eadfa3f5f60490d63",
    licence="Gemma's terms of use",
    languages="more than 100, and across them",
    retrieval=62.5,
    why="better, larger and slower, as OpenClaw has it; it needs llama-cpp-python, which is compiled",
)
SUGGESTIONS = (FIRST, FOR_LLAMA)
_EARLIER = (
    Suggestion(
        name=FIRST.name,
        maker=FIRST.maker,
        reference="hf:mykor/granite-embedding-97m-multilingual-r2-GGUF/"
        "granite-embedding-97M-multilingual-r2-Q8_0.gguf#45ce642d3fab2033d167ec09641a159010f7d9d9",
        bytes=115_061_088,
        sha256="25155b89638e501ac33495fa278d551d7545e1e2f62722a499bba1f064c080f2",
        licence=FIRST.licence,
        languages=FIRST.languages,
        retrieval=FIRST.retrieval,
        why="the same as a GGUF file",
    ),
)
"""The suggestion of version 0.2: its users keep it, with the llama.cpp that was installed for it."""


def downloaded(cache_dir: Path) -> Suggestion | None:
    """Returns the suggested model that is here and is used without a setting. Blocking."""
    for one in (FIRST, *_EARLIER):
        if one.is_here(cache_dir) and (one is FIRST or one.engine.missing is None):
            return one
    return None
