"""Where the installed command `memory-gateway` begins: our packages are the ones that run.

In a wheel this is the package that holds our packages, so that they are on nobody else's import path; in
the repository it lies beside them. `memory_gateway.client` is for programs. Either way their folder comes first, and a `config.py` or `gateway.py`
in the working directory, or in a directory of PYTHONPATH, is not run instead. Standard library only, so
that nothing is imported before the order holds.
"""

# ruff: noqa: PTH100, PTH112, PTH118, PTH120 - a pathlib of somebody else would be imported
from __future__ import annotations

import os
import sys


def prefer_installed() -> None:
    """Puts our folder first, and what the working directory and PYTHONPATH name last."""
    here = os.path.dirname(os.path.abspath(__file__))
    ours = here if os.path.isdir(os.path.join(here, "gateway")) else os.path.dirname(here)
    named = [os.curdir, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    others = {os.path.abspath(one) for one in named} - {ours}
    sys.path.sort(key=lambda one: os.path.abspath(one) in others)
    sys.path.insert(0, ours)


def refuse_elsewhere() -> None:
    """Ends where it cannot run, with a sentence that says what it needs, before anything is imported that needs it."""
    if sys.version_info[:2] < (3, 11):  # noqa: UP036 - run from a clone, nothing else has asked
        sys.exit(
            f"memory-gateway needs Python 3.11 or later; this is {sys.version_info[0]}.{sys.version_info[1]}, "
            f"at {sys.executable}. Install a later one, or let uv bring it: "
            "`uv tool install --python 3.12 memory-gateway`."
        )
    if os.name == "nt":  # files and sockets have no owners and modes, which keep notes private here
        sys.exit("memory-gateway runs on Linux and macOS. On Windows install it within WSL.")


def forget_relative_home() -> None:
    """A home that is not absolute counts as none: files would lie below wherever a command was run."""
    if not os.environ.get("HOME", "/").startswith("/"):
        del os.environ["HOME"]


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    refuse_elsewhere()
    forget_relative_home()
    prefer_installed()
    if sys.argv[1:2] == ["recall"]:
        from gateway import hook  # noqa: PLC0415 - and nothing else: clients run it before each prompt

        if hook.is_meant(sys.argv[2:]):
            return hook.run(sys.argv[2:])
    from gateway.__main__ import main as run  # noqa: PLC0415 - only now is it ours

    return run()
