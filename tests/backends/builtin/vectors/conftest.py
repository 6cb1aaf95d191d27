"""An index with given chunks and vectors, engines over it, and interpreters that lack libraries."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from backends.builtin.store.port import (
    PreparedChunk,
    PreparedExcerpt,
    PreparedFile,
    ReadFile,
    Unavailable,
    VectorHit,
)
from backends.builtin.store.sqlite.embeddings import SqliteEmbeddings, fingerprint_id
from backends.builtin.store.sqlite.resident import ResidentEngine
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.store.sqlite.vector_engines import (
    Extension,
    NumpyScan,
    SqliteScan,
    VectorEngine,
    VectorQuery,
)
from backends.files.scan import FoundFile
from providers.provider_interface import Fingerprint

DIMENSIONS = 48
ROOT = Path(__file__).parents[4]


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def vector_of(text: str, dimensions: int = DIMENSIONS) -> np.ndarray:
    """Returns a direction that belongs to this text alone."""
    seed = int.from_bytes(hash_of(text)[:8])
    vector = np.random.default_rng(seed).standard_normal(dimensions)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


TEXT_OF = "SELECT text FROM chunks WHERE id = (SELECT chunk_id FROM excerpts WHERE id = ?)"


class Library:
    """Files whose chunks are exactly the given texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = SqliteStore(path)
        self.fingerprint = Fingerprint(provider="test", model="directions", endpoint="loopback")
        self._clock = 0

    def write(self, path: str, *texts: str) -> None:
        """Publishes a file, newer than all others."""
        self._clock += 1
        chunks = tuple(
            PreparedChunk(
                start=place,
                start_line=place + 1,
                end_line=place + 1,
                identity=hash_of(f"{path}\n{text}"),
                headings="",
                text=text,
                terms="",
                context="",
                excerpts=(PreparedExcerpt(0, len(text), 0, hash_of(text)),),
            )
            for place, text in enumerate(texts)
        )
        found = FoundFile(path, 0, 1, self._clock, self._clock, 1)
        read = ReadFile(found, hash_of("\n".join(texts)), self._clock)
        with self.database.writer() as writer:
            writer.files.publish(read, "test", PreparedFile(chunks, None, frozenset()))

    def remove(self, path: str) -> None:
        with self.database.writer() as writer:
            writer.files.remove("memory", path)

    def embed(self, *texts: str, vectors: Mapping[str, np.ndarray] | None = None) -> None:
        """Stores vectors; without arguments, those of all texts that lack one."""
        with self.database.writing() as connection:
            if not (texts or vectors):
                pending = SqliteEmbeddings(connection).pending(self.fingerprint, limit=1_000_000)
                texts = tuple(text for _, text in pending)
            pairs = [(hash_of(text), vector_of(text)) for text in texts]
            pairs += [(hash_of(text), vector) for text, vector in (vectors or {}).items()]
            SqliteEmbeddings(connection).put(self.fingerprint, pairs)

    def spoil(self, text: str, blob: bytes) -> None:
        """Replaces a stored vector by any bytes."""
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE embeddings SET vector = ? WHERE text_hash = ?", (blob, hash_of(text))
            )

    def tidy(self, max_entries: int | None) -> int:
        """Records which vectors are in use and drops those beyond the limit."""
        with self.database.writing() as connection:
            SqliteEmbeddings(connection).refresh_use(
                SqliteEmbeddings(connection).fallen_out_of_use()
            )
            return SqliteEmbeddings(connection).prune(max_entries)

    @property
    def number(self) -> int:
        """The row of the fingerprint, or one that does not exist."""
        with self.database.reading() as connection:
            return fingerprint_id(connection, self.fingerprint) or 999

    def file_ids(self, *paths: str) -> list[int]:
        with self.database.reading() as connection:
            known = dict(connection.execute("SELECT path, id FROM files"))
        return [known[path] for path in paths]

    def texts(self, hits: Sequence[VectorHit]) -> list[str]:
        with self.database.reading() as connection:
            return [connection.execute(TEXT_OF, (hit.excerpt_id,)).get for hit in hits]

    def nearest(self, engine: VectorEngine, query: str | np.ndarray, **options) -> list[str]:
        """Returns the texts of the chunks that an engine finds, best first."""
        vector = vector_of(query) if isinstance(query, str) else query
        options = {"limit": 10} | options
        number = self.number
        with self.database.reading() as connection:
            answer = engine.search(VectorQuery(connection, number, vector, **options))
        assert not isinstance(answer, Unavailable), answer.reason
        return self.texts(answer.hits)

    def search(self, engine: VectorEngine, query: np.ndarray, **options):
        """Returns the answer of an engine."""
        number = self.number
        with self.database.reading() as connection:
            return engine.search(VectorQuery(connection, number, query, **{"limit": 5} | options))

    def refresh(self, engine: ResidentEngine) -> bool:
        number = self.number
        with self.database.reading() as connection:
            return engine.refresh(connection, number)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path / "index.sqlite")
    yield library
    library.database.close()


@pytest.fixture
def filled(library: Library) -> Library:
    """`text 0` to `text 299` in 30 files, all embedded."""
    for start in range(0, 300, 10):
        library.write(
            f"memory/{start:03d}.md", *(f"text {number}" for number in range(start, start + 10))
        )
    library.embed()
    return library


@pytest.fixture
def resident() -> ResidentEngine:
    return ResidentEngine(64 * 1024 * 1024)


@pytest.fixture
def loaded(library: Library, resident: ResidentEngine) -> Callable[[], list[VectorEngine]]:
    """All engines, ready to search the present library."""

    def make() -> list[VectorEngine]:
        library.refresh(resident)
        return [resident, SqliteScan(Extension()), NumpyScan()]

    return make


@pytest.fixture(params=["resident", "sqlite-vec", "numpy"])
def engine(request, library: Library, resident: ResidentEngine) -> VectorEngine:
    """Each engine in turn, always up to date with the library."""
    if request.param == "sqlite-vec":
        return SqliteScan(Extension())
    return NumpyScan() if request.param == "numpy" else _AlwaysFresh(library, resident)


class _AlwaysFresh:
    """The resident engine with a refresh before each search."""

    name = "resident"

    def __init__(self, library: Library, engine: ResidentEngine) -> None:
        self._library = library
        self._engine = engine

    def search(self, wanted: VectorQuery):
        self._engine.refresh(wanted.connection, wanted.fingerprint_id)
        return self._engine.search(wanted)


@pytest.fixture
def vector() -> Callable[..., np.ndarray]:
    return vector_of


@pytest.fixture
def key() -> Callable[[str], bytes]:
    return hash_of


@pytest.fixture
def blend() -> Callable[..., np.ndarray]:
    """Returns a unit vector near that of the first text, with a share of another's."""

    def mix(text: str, other: str, share: float) -> np.ndarray:
        mixed = vector_of(text) + share * vector_of(other)
        return (mixed / np.linalg.norm(mixed)).astype(np.float32)

    return mix


@pytest.fixture
def python_without(tmp_path: Path) -> Callable[..., Callable[[str], str]]:
    """Runs a script in an interpreter in which some installed packages do not exist.

    The packages' directory is rebuilt from links, without the named ones.
    """

    def make(*missing: str) -> Callable[[str], str]:
        installed = Path(sysconfig.get_path("purelib"))
        farm = tmp_path / "packages"
        farm.mkdir()
        for entry in installed.iterdir():
            if not entry.name.startswith(missing):
                (farm / entry.name).symlink_to(entry)

        def run(script: str) -> str:
            done = subprocess.run(
                [sys.executable, "-S", "-W", "error", "-c", script],
                env={"PYTHONPATH": f"{farm}:{ROOT}", "PATH": ""},
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    return make
