"""The entry point of the installed command `memory-gateway`, which makes sure that our own packages run.

In a wheel this is the package that contains our packages, so that they are on nobody else's import path; in
the repository it is beside them. Either way their folder comes first, and a `config.py` or `gateway.py` in the
working directory, or in a directory of PYTHONPATH, is not run instead. Standard library only, so that nothing
is imported before the order is right. `memory_gateway.client` is for programs.
"""

# ruff: noqa: PTH100, PTH112, PTH118, PTH120 - a pathlib of somebody else would be imported
from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes as long as all that a hook imports
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
"""128 + SIGINT, as in shells."""


def prefer_installed() -> None:
    """Puts our folder first on the import path, and the working directory and PYTHONPATH last."""
    here = os.path.dirname(os.path.abspath(__file__))
    ours = here if os.path.isdir(os.path.join(here, "gateway")) else os.path.dirname(here)
    named = [os.curdir, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    others = {_absolute(one) for one in named} - {ours}
    sys.path.sort(key=lambda one: _absolute(one) in others)
    sys.path.insert(0, ours)


def _absolute(path: str) -> str:
    """Returns a relative path as it is where the working directory is gone: it leads nowhere."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path


def handle_interrupts() -> None:
    """Lets Ctrl-C end the process at once while something is imported: an exception there shows as a traceback, and
    Python crashes if it comes while msgspec makes a class. Where Ctrl-C is ignored, as by a job in the background, it
    stays so.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _interrupted)


def _interrupted(_: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def refuse_elsewhere() -> None:
    """Exits on a system where it cannot run, with a message that says what it needs, before other imports."""
    if sys.version_info[:2] < (3, 11):  # noqa: UP036 - run from a clone, nothing else has asked
        sys.exit(
            f"memory-gateway needs Python 3.11 or later; this is {sys.version_info[0]}.{sys.version_info[1]}, "
            f"at {sys.executable}. Install a later one, or let uv bring it: "
            "`uv tool install --python 3.12 memory-gateway`."
        )
    if os.name == "nt":  # files and sockets have no owners and modes, which keep notes private here
        sys.exit("memory-gateway runs on Linux and macOS. On Windows install it within WSL.")


def forget_relative_home() -> None:
    """Removes a HOME that is not absolute: files would be kept below the directory of each command."""
    if not os.environ.get("HOME", "/").startswith("/"):
        del os.environ["HOME"]


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    handle_interrupts()
    try:
        return _main()
    except KeyboardInterrupt:
        return INTERRUPTED


def _main() -> int:
    refuse_elsewhere()
    forget_relative_home()
    prefer_installed()
    if sys.argv[1:2] == ["recall"]:
        from gateway import hook  # noqa: PLC0415 - nothing else: clients run it before each prompt

        if hook.is_meant(sys.argv[2:]):
            return hook.run(sys.argv[2:])
    from gateway.__main__ import main as run  # noqa: PLC0415 - the path is right only now

    return run()
