"""`python -m gateway` and the command `memory-gateway`."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    try:  # an interrupt may come while something is imported
        import gateway.process.orphans  # noqa: F401, PLC0415 - first: it asks who the parent is
        from gateway.cli.entry import run  # noqa: PLC0415

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
