"""Models worth getting, each pinned to one file: what it is, and whether it is on this disk.

The first one is for whoever has no key. Once it was downloaded, which is how its user agrees to it, `provider: "auto"`
uses it where there is no other provider.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from providers.local.models.cache import ModelRecord, place_of
from providers.local.models.references import HubReference, parse_reference


class Suggestion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A published model in one file of a known hash."""

    name: str
    maker: str
    reference: str
    """With the commit, so that what is downloaded is what was looked at; without where it is the default model."""
    bytes: int
    sha256: str
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

    def path(self, cache_dir: Path) -> Path:
        """Where it is, or would be."""
        return place_of(self.repository, cache_dir).model

    def is_here(self, cache_dir: Path) -> bool:
        """Whether it is complete, and known to be the file that was looked at."""
        place = place_of(self.repository, cache_dir)
        try:
            record = place.record()
            return place.is_complete() and record is not None and record.sha256 == self.sha256
        except OSError:
            return False  # a cache that cannot be read has nothing that could be used

    def confirm(self, cache_dir: Path) -> bool:
        """As `is_here`; reads a complete file of which nothing is known, as one that was put there by hand.

        Raises OSError.
        """
        place = place_of(self.repository, cache_dir)
        if place.is_complete() and place.record() is None:
            with place.model.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            size = place.model.stat().st_size
            record = ModelRecord(reference=str(self.repository), bytes=size, sha256=sha256)
            place.write_record(record)
        return self.is_here(cache_dir)


FIRST = Suggestion(
    name="granite-embedding-97m-multilingual-r2",
    maker="IBM",
    reference="hf:mykor/granite-embedding-97m-multilingual-r2-GGUF/"
    "granite-embedding-97M-multilingual-r2-Q8_0.gguf#45ce642d3fab2033d167ec09641a159010f7d9d9",
    bytes=115_061_088,
    sha256="25155b89638e501ac33495fa278d551d7545e1e2f62722a499bba1f064c080f2",
    licence="Apache-2.0",
    languages="52, and across them",
    retrieval=59.6,
    why="the best published retrieval across languages among models of this size",
)
"""For whoever has no key."""
SUGGESTIONS = (
    FIRST,
    Suggestion(
        name="embeddinggemma-300M",
        maker="Google",
        reference="hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
        bytes=333_590_944,
        sha256="b5ce9d77a3fc4b3b39ccb5643c36777911cc4eb46a66962eadfa3f5f60490d63",
        licence="Gemma's terms of use",
        languages="more than 100, and across them",
        retrieval=62.5,
        why='better, larger and slower; what `provider: "local"` takes by itself, as OpenClaw does',
    ),
    Suggestion(
        name="all-MiniLM-L6-v2",
        maker="sentence-transformers",
        reference="hf:second-state/All-MiniLM-L6-v2-Embedding-GGUF/all-MiniLM-L6-v2-Q8_0.gguf"
        "#544f204f2eaa2d71361ffc74d6df7170285b286a",
        bytes=25_008_064,
        sha256="263215c3cadd6e16740741a7624ab4cbb6c8e777688bd5331ecfbf5681c2f8ed",
        licence="Apache-2.0",
        languages="English",
        retrieval=None,
        why="the smallest, for notes in English",
    ),
)
