"""Keeps the matrix products of this process on the thread that asks for them.

The threads of BLAS wait by spinning: on small matrices, beside another busy process, they make the
model several times slower. Whoever wants more than one core runs more than one batch at a time.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np


def use_one_thread() -> None:
    """Takes effect at any time, unlike OPENBLAS_NUM_THREADS, and is not inherited by children.

    Knows the OpenBLAS that numpy's wheels bring; with another BLAS it leaves everything as it is.
    """
    libraries = Path(np.__file__).parents[1] / "numpy.libs"
    for path in libraries.glob("libscipy_openblas64_*"):
        ctypes.CDLL(str(path)).scipy_openblas_set_num_threads64_(1)
