"""Keeps the vectors of documents on disk, so that repeated benchmarks are quick."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from benchmarks.hash_embedder import Embedder, Vectors


class CachedEmbedder:
    """An embedder that remembers its vectors. Use it as a context manager.

    A call with one text is taken for a query and always computed: otherwise the second run of a
    benchmark would measure other latencies than the first.
    """

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self.identity = embedder.identity
        self.dimensions = embedder.dimensions
        self.computed = 0
        """Texts that were not found on disk, queries included."""
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
            " WITHOUT ROWID"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def tokens(self, text: str) -> int:
        return self._embedder.tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) == 1:
            return self._compute(texts)
        keys = [self._key(text) for text in texts]
        found = self._load(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            computed = dict(zip(missing, self._compute(list(missing.values())), strict=True))
            self._save(computed)
            found |= computed
        return np.array([found[key] for key in keys], np.float32).reshape(-1, self.dimensions)

    def _compute(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            self.computed += len(texts)
        return self._embedder.embed(texts)

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.identity}\0{text}".encode("utf-8", "surrogatepass")).digest()

    def _load(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        query = f"SELECT key, vector FROM vectors WHERE key IN ({', '.join('?' * len(keys))})"
        with self._lock:
            rows = self._database.execute(query, keys).fetchall()
        return {key: np.frombuffer(vector, "<f4") for key, vector in rows}

    def _save(self, vectors: dict[bytes, Vectors]) -> None:
        rows = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
        with self._lock, self._database:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
