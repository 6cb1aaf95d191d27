"""Which libraries of the vector lane work here, tried without an index. Blocks: it imports them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from backends.builtin.vectors.extension import Extension
from backends.builtin.vectors.libraries import numpy_problem, simd_problem


class LibraryProblems(NamedTuple):
    """Why each cannot be used; None where it can."""

    sqlite_vec: str | None
    numpy: str | None
    simsimd: str | None


def probe_libraries(extension_path: Path | None) -> LibraryProblems:
    """`extension_path`: as configured; None means the bundled sqlite-vec."""
    with closing(apsw.Connection(":memory:")) as connection:
        refused = Extension(extension_path).load_into(connection)
    return LibraryProblems(refused, numpy_problem(), simd_problem())
