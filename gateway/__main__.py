"""`python -m gateway` and the command `memory-gateway`."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    _speak_utf8()
    try:  # an interrupt may come while something is imported
        import gateway.process.orphans  # noqa: F401, PLC0415 - first: it asks who the parent is
        from gateway.cli.entry import run  # noqa: PLC0415

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


def _speak_utf8() -> None:
    """Names of files and all texts are UTF-8, whatever the locale: in another one, begin again.

    Nothing is open yet and process and parent stay the same. Python settles this before any of our code
    runs, so that there is no other way.
    """
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
