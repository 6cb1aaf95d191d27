"""How long the embeddings of a damaged index take to be taken over, and how many are lost with their pages."""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import apsw
import numpy as np
from rich.console import Console
from rich.table import Table

from backends.builtin.storage.database import Database
from backends.builtin.vectors import store
from backends.builtin.vectors.salvage import take_over
from backends.errors import IndexUnavailableError
from providers.interface import Fingerprint

FINGERPRINT: Final = Fingerprint(provider="openai", model="made", endpoint="http://127.0.0.1")
PAGE_BYTES: Final = 4096
FIRST_PAGE: Final = 40
"""Behind the pages of the schema: without those nothing is taken over at all."""
AT_ONCE: Final = 1000


def fill(path: Path, vectors: int, dimensions: int) -> None:
    """An index of random vectors of length 1."""
    numbers = np.random.default_rng(1)
    database = Database(path)
    for begin in range(0, vectors, AT_ONCE):
        rows = numbers.standard_normal((min(AT_ONCE, vectors - begin), dimensions))
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")
        keys = [
            hashlib.blake2b(f"{begin + number}".encode(), digest_size=16).digest()
            for number in range(len(rows))
        ]
        with database.writing() as connection:
            store.put_vectors(connection, FINGERPRINT, list(zip(keys, rows, strict=True)))
    database.close()


def damage(path: Path, pages: int) -> None:
    """Flips bits in so many pages, each of its own."""
    last = path.stat().st_size // PAGE_BYTES
    chosen = np.random.default_rng(2).choice(np.arange(FIRST_PAGE, last), pages, replace=False)
    with path.open("r+b") as file:
        for page in chosen:
            file.seek(int(page) * PAGE_BYTES + PAGE_BYTES // 4)
            file.write(b"\xa5\xa5\xa5\xa5")


def replace(database: Database) -> None:
    """As when a search meets the damage."""
    with suppress(IndexUnavailableError), database.reading():
        raise apsw.CorruptError("met by a search")
    with database.reading():
        pass


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES


def measure(vectors: int, dimensions: int, pages: int, table: Table) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "main.sqlite"
        fill(path, vectors, dimensions)
        damage(path, pages)
        database = Database(path)
        replace(database)
        before = resident_bytes()
        started, worked = time.perf_counter(), time.process_time()
        anyio.run(take_over, database)
        seconds, cpu_s = time.perf_counter() - started, time.process_time() - worked
        with database.reading() as connection:
            taken = connection.execute("SELECT count(*) FROM embeddings").get
        database.close()
    table.add_row(
        f"{vectors:,}", f"{dimensions:,}", f"{pages:,}", f"{taken:,}", f"{seconds:.2f}", f"{cpu_s:.2f}",
        f"{(resident_bytes() - before) / 2**20:.0f}",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[768, 1536])
    parser.add_argument("--pages", type=int, nargs="+", default=[0, 200], help="damaged ones")
    options = parser.parse_args()
    table = Table(title="Embeddings taken over from a damaged index")
    for column in (
        "vectors",
        "dimensions",
        "damaged pages",
        "taken over",
        "s",
        "CPU s",
        "MiB more",
    ):
        table.add_column(column, justify="right")
    for dimensions in options.dimensions:
        for pages in options.pages:
            measure(options.vectors, dimensions, pages, table)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
