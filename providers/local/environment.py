"""The environment that the worker gets: an allow-list, and what llama.cpp needs to behave. Pure.

No credential of the gateway passes: the worker opens no connection and reads no configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

_PASSED = frozenset(
    "PATH HOME LANG TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH LLAMA_CPP_LIB_PATH "
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "
    "PYTHONPATH PYTHONHOME VIRTUAL_ENV".split()
)
_PASSED_PREFIXES = ("LC_", "GGML_", "OMP_", "KMP_", "GOMP_")
_OWN = {
    # Threads that spin while they wait make everything ten times slower beside other work.
    "OMP_WAIT_POLICY": "passive",
    # An abort would start a debugger on the dying process.
    "GGML_NO_BACKTRACE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def worker_variables(environment: Mapping[str, str]) -> dict[str, str]:
    passed = {
        name: value
        for name, value in environment.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }
    return {**passed, **_OWN}
