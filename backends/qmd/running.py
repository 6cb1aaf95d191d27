"""Which QMD processes a gateway has started, so that a later one can end what an earlier one left.

Owns the notes beside the index and the proof that a process is one of ours: it is in the noted group and
its environment names this very home. Linux only: elsewhere nothing can be proved, so nothing is ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from backends.qmd.home import QmdHome
from config.disk.replacing import replace_file


class _Note(msgspec.Struct, frozen=True):
    """One process group and who started it; start times are clock ticks since the machine's start."""

    pid: int
    started: int
    owner: int
    owner_started: int


class Running:
    """The processes of one home."""

    def __init__(self, home: QmdHome) -> None:
        self._directory = home.root / "running"
        self._mark = f"QMD_CONFIG_DIR={home.config_dir}".encode()

    @contextmanager
    def noted(self, pid: int) -> Iterator[None]:
        """While the group that `pid` leads runs. What cannot be written is not noted."""
        file = self._directory / f"{pid}.json"
        started, owner_started = _start_time(pid), _start_time(os.getpid())
        if started is None or owner_started is None:
            yield
            return
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            note = _Note(pid, started, os.getpid(), owner_started)
            replace_file(file, msgspec.json.encode(note))
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink(missing_ok=True)

    def reap(self) -> list[int]:
        """Ends what gateways that are gone have left behind; the processes that were ended. Blocks."""
        ended: list[int] = []
        for file in self._directory.glob("*.json"):
            with suppress(OSError, msgspec.DecodeError):
                note = msgspec.json.decode(file.read_bytes(), type=_Note)
                if _start_time(note.owner) == note.owner_started:
                    continue
                ended += self._end(note)
                file.unlink(missing_ok=True)
        return ended

    def _end(self, note: _Note) -> list[int]:
        ended = []
        for pid in _processes():
            with suppress(OSError):
                started = _start_time(pid)
                is_of_group = os.getpgid(pid) == note.pid and (started or 0) >= note.started
                if is_of_group and self._is_ours(pid):
                    os.kill(pid, signal.SIGKILL)
                    ended.append(pid)
        return ended

    def _is_ours(self, pid: int) -> bool:
        return self._mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def _processes() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())


def _start_time(pid: int) -> int | None:
    """None where there is no such process, or no way to know."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name of the program, in brackets, may hold anything.
        state, *fields = text.rpartition(")")[2].split()
        return None if state == "Z" else int(fields[18])
    return None
