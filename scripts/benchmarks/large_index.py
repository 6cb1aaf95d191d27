"""Indexes of any size for benchmarks: notes on the disk, their rows and their vectors, without a provider.

The rows are those that the gateway itself would make of the notes, published by its own code, but the
terms of a word are looked up once and the vectors are random: a million chunks take minutes, not hours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backends.builtin.store.port import (
    PreparedChunk,
    PreparedExcerpt,
    PreparedFile,
    ReadFile,
    Store,
)
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing.preparing import Preparer
from backends.chunking import ChunkLimits
from backends.files.reading import content_hash
from backends.files.scan import FoundFile
from backends.text.analyser import Analyser
from benchmarks.notes import vocabulary
from providers.provider_interface import Fingerprint

LANGUAGE: Final = "english"
WORDS: Final = 20_000
LINES_A_CHUNK: Final = 8
WORDS_A_LINE: Final = (8, 28)
CHUNKS_A_FILE: Final = 100
FILES_A_TRANSACTION: Final = 5
STOP_WORDS: Final = "what did the we about for when was with and of to".split()

Vectors = NDArray[np.float32]


class Size(NamedTuple):
    chunks: int
    dimensions: int

    @property
    def name(self) -> str:
        return f"{self.chunks}x{self.dimensions}"


class ZipfText:
    """Lines and questions whose words have the frequencies of natural language: 1 / rank."""

    def __init__(self, seed: int) -> None:
        analyser = Analyser(LANGUAGE)
        self._rng = np.random.default_rng(seed)
        self._words = np.array(vocabulary(WORDS), object)
        self._terms = np.array([analyser.terms(word) for word in self._words], object)
        self._shares = np.cumsum(1 / np.arange(1, WORDS + 1))
        self._shares /= self._shares[-1]

    def chunk(self) -> tuple[str, str]:
        """Returns the text and the terms of one chunk."""
        ends = np.cumsum(self._rng.integers(*WORDS_A_LINE, LINES_A_CHUNK, endpoint=True)).tolist()
        drawn = self._draw(ends[-1])
        words, terms = self._words[drawn].tolist(), self._terms[drawn].tolist()
        lines = [slice(*bounds) for bounds in pairwise((0, *ends))]
        text = "".join(f"- {' '.join(words[line])}.\n" for line in lines)
        return text, "\n".join(" ".join(terms[line]) for line in lines)

    def question(self) -> str:
        """Returns 6 to 12 words: a third of them question words, the others as frequent as in the notes."""
        count = int(self._rng.integers(6, 13))
        content = self._words[self._draw(count - count // 3)].tolist()
        around = self._rng.choice(STOP_WORDS, count // 3, replace=False).tolist()
        return " ".join((*around, *content)).capitalize() + "?"

    def _draw(self, count: int) -> NDArray[np.intp]:
        return np.searchsorted(self._shares, self._rng.random(count))


def make_index(
    workspace: Path,
    database: Store,
    size: Size,
    fingerprint: Fingerprint,
    given: Vectors | None = None,
) -> None:
    """Writes the notes below `workspace`; fills the index with them and with the given vectors or random ones."""
    text, rng = ZipfText(size.chunks), np.random.default_rng(size.dimensions)
    pipeline = Preparer(ChunkLimits(400, 80)).notes_pipeline
    files = list(_chunks_of_files(size.chunks))
    for start in range(0, len(files), FILES_A_TRANSACTION):
        with database.writer() as writer:
            for number, chunks in enumerate(files[start : start + FILES_A_TRANSACTION], start):
                read, prepared = _write_note(workspace, number, chunks, text)
                writer.files.publish(read, pipeline, prepared)
                hashes = [chunk.excerpts[0].text_hash for chunk in prepared.chunks]
                first = number * CHUNKS_A_FILE
                vectors = (
                    random_units(rng, chunks, size.dimensions)
                    if given is None
                    else given[first : first + chunks]
                )
                writer.embeddings.put(fingerprint, list(zip(hashes, vectors, strict=True)))


def random_units(rng: np.random.Generator, count: int, dimensions: int) -> Vectors:
    vectors = rng.standard_normal((count, dimensions), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def set_fingerprint(database: SqliteStore, fingerprint: Fingerprint) -> None:
    """Assigns the stored vectors to this provider: a loopback host has another port each time."""
    with database.writing() as connection:
        connection.execute("UPDATE fingerprints SET digest = ?", (fingerprint.digest(),))


def _chunks_of_files(chunks: int) -> Iterator[int]:
    while chunks > 0:
        yield min(chunks, CHUNKS_A_FILE)
        chunks -= CHUNKS_A_FILE


def _write_note(
    workspace: Path, number: int, chunks: int, text: ZipfText
) -> tuple[ReadFile, PreparedFile]:
    day = date(1995, 1, 1) + timedelta(days=number)
    path = f"memory/{day.year}/{day.isoformat()}.md"
    prepared, start, parts = [], 0, []
    for place in range(chunks):
        body, terms = text.chunk()
        digest = hashlib.blake2b(body.encode(), digest_size=16).digest()
        first = 1 + place * LINES_A_CHUNK
        prepared.append(
            PreparedChunk(
                start=start,
                start_line=first,
                end_line=first + LINES_A_CHUNK - 1,
                identity=digest,
                headings="",
                text=body,
                terms=terms,
                context=f"memory {day.isoformat().replace('-', '_')}",
                excerpts=(PreparedExcerpt(0, len(body), 0, digest),),
            )
        )
        parts.append(body)
        start += len(body)
    file = workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(parts).encode()
    file.write_bytes(data)
    status = file.stat()
    found = FoundFile(path, 0, len(data), status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    read = ReadFile(found, content_hash(data), status.st_mtime_ns + 10**10)
    return read, PreparedFile(tuple(prepared), day.isoformat(), frozenset({LANGUAGE}))
