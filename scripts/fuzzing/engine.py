"""One run of the coverage-guided fuzzer: `python -m fuzzing.engine TARGET LIBFUZZER-ARGUMENTS`.

A process of its own, because it ends with the first failure, and because the modules under test are
instrumented as they are imported. The fuzzer is atheris, which is libFuzzer for Python.
"""

from __future__ import annotations

import sys

import atheris

from fuzzing.registry import TARGETS


def main() -> None:
    target = TARGETS[sys.argv[1]]
    with atheris.instrument_imports(include=[*target.watched]):
        run = target.load()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
