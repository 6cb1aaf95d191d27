"""How vectors are held in memory and how a query is compared with all of them.

Owns the two kernels of the resident engine. Int8 with SimSIMD reads a quarter of the bytes, and the scan
is bound by the memory's bandwidth; without SimSIMD, float32 with numpy's own matrix product. (NumKong,
SimSIMD's successor, is as fast on int8, but its library is twenty times larger and its float32 kernels
compute in float64.) Both release the interpreter's lock while they scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from backends.builtin.vectors.exact import row_lengths
from backends.builtin.vectors.libraries import simd_problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INT8_MAX: Final = 127


class Coded(NamedTuple):
    """Vectors as a kernel holds them: `matrix[i] * scales[i]` is the vector, of length 1."""

    matrix: NDArray[np.int8] | NDArray[np.float32]
    scales: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.scales.nbytes


class Kernel(Protocol):
    item_bytes: int
    """Of one number of a vector."""

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        """`vectors`: float32 of shape (n, d), each with a direction, not necessarily of length 1."""
        ...

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        """Writes the cosine of `query`, one row, with each of `rows`, times some positive constant."""
        ...


class Int8Kernel:
    """Each vector has its own scale: its largest number becomes 127.

    The error of a cosine is about 0.0003 (1,536 random dimensions), so the order is right but for
    near ties, which rescoring in float32 decides.
    """

    item_bytes = 1

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        import numpy as np  # noqa: PLC0415 - only searches with vectors need it

        peaks = np.abs(vectors).max(axis=1)
        steps = (_INT8_MAX / peaks)[:, None]
        scales = peaks / (_INT8_MAX * row_lengths(vectors))
        return Coded(np.rint(vectors * steps).astype(np.int8), scales.astype(np.float32))

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        import simsimd  # noqa: PLC0415 - as above

        # Not by its own `out`: SimSIMD then returns None without a reference of its own, and with the
        # last reference that is lost the interpreter ends, some ten thousand searches later.
        out[:] = simsimd.dot(rows.matrix, query.matrix[0])
        out *= rows.scales


class Float32Kernel:
    item_bytes = 4

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        import numpy as np  # noqa: PLC0415 - only searches with vectors need it

        return Coded(np.ascontiguousarray(vectors), np.reciprocal(row_lengths(vectors)))

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        np.dot(rows.matrix, query.matrix[0], out=out)
        out *= rows.scales


def choose_kernel() -> Kernel:
    return Float32Kernel() if simd_problem() else Int8Kernel()
