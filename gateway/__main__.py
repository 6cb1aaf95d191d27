"""`python -m gateway` and the command `memory-gateway`."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import suppress

_JOIN_S = 0.2


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    gc.disable()  # until `settle_collector`: imported modules stay, and scanning them again and again takes time
    import memory_gateway as program  # noqa: PLC0415

    program.handle_interrupts()
    program.refuse_elsewhere()
    program.forget_relative_home()
    _speak_utf8()
    try:
        program.prefer_installed()
        if sys.argv[1:2] == ["recall"]:
            from gateway import hook  # noqa: PLC0415 - and nothing else, as in `memory_gateway`

            if hook.is_meant(sys.argv[2:]):
                return hook.run(sys.argv[2:])
        import gateway.process.beginning  # noqa: F401, PLC0415 - first: it asks who the parent is
        from config.runtime.standard_error import claim_standard_error  # noqa: PLC0415
        from gateway.cli.entry import run  # noqa: PLC0415

        standard_error = claim_standard_error()
        code = run(sys.argv[1:])
        standard_error.settle(_JOIN_S)
        return _leave(code)
    except KeyboardInterrupt:
        return program.INTERRUPTED


def _speak_utf8() -> None:
    """Makes names of files and all texts UTF-8 whatever the locale, if need be by starting Python again.

    Nothing is open yet, and process and parent stay the same. Python settles the encoding before any of our
    code runs, so there is no other way.
    """
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def _leave(code: int) -> int:
    """Returns the exit code. Ends the process at once when a thread hangs, as Python would wait for it at its end."""
    ends = time.monotonic() + _JOIN_S
    for thread in _running():
        thread.join(max(0.0, ends - time.monotonic()))
    if _running():
        for stream in (sys.stdout, sys.stderr):
            # It is closed, full or was never there.
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    gc.freeze()  # at its end Python looks twice for what could be freed
    return code


def _running() -> list[threading.Thread]:
    """Returns the other threads that still work; those that only wait for work do not count.

    While one hangs, the last objects are not freed: closing a file on a disk that hangs would hang as well.
    """
    others = set(threading.enumerate()) - {threading.current_thread()}
    return [one for one in others if getattr(one, "busy", not one.daemon)]


if __name__ == "__main__":
    sys.exit(main())
