"""Faults of the system around a process: no descriptors, no threads, no inotify, a clock that jumps."""

from __future__ import annotations

import resource
import shutil
import struct
import subprocess
import tempfile
import time
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import anyio

from config.errors import MemoryGatewayError
from endurance.agent import ANSWER_S
from endurance.faults.base import Fault, Impossible
from endurance.run import Run

NOFILE: Final = 64
_LIMITED: Final = f'ulimit -n {NOFILE} && exec "$@"'
_NO_INOTIFY: Final = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
_UNSHARE: Final = ("unshare", "--user", "--map-root-user")


class NoDescriptors(Fault):
    """Every other run starts with 64 descriptors; in the others all free ones are taken away during the work."""

    name = "descriptors"
    about = f"{NOFILE} descriptors from the start, or none left in the middle of the work"
    hold_s = 0.6

    async def before(self, run: Run) -> None:
        if run.number % 2:
            run.launch.prefix = ("/bin/sh", "-c", _LIMITED, "sh")

    async def inject(self, run: Run) -> None:
        if run.number % 2:
            return
        with suppress(MemoryGatewayError):
            await run.gateway.call("health", timeout_s=ANSWER_S)  # it has started
        with suppress(OSError):
            limits = resource.prlimit(run.pid, resource.RLIMIT_NOFILE)
            free = run.rng.randrange(3)
            highest = max(int(one.name) for one in Path(f"/proc/{run.pid}/fd").iterdir())
            run.usual_limits = limits
            resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (highest + 1 + free, limits[1]))

    async def remove(self, run: Run) -> None:
        if run.usual_limits is not None and run.is_alive:
            with suppress(OSError):
                resource.prlimit(run.pid, resource.RLIMIT_NOFILE, run.usual_limits)


class NoThreads(Fault):
    """Every other run has few threads from the start; in the others no further one may be started during the work."""

    name = "threads"
    about = "2 to 6 threads beside the first from the start, or no further one in the middle of the work"
    hold_s = 1.0
    impossible: ClassVar = {
        "download": "a model is loaded by a process of its own, whose threads are not told apart",
    }

    def require(self) -> None:
        if shutil.which("cc") is None:
            raise Impossible("a C compiler is needed to count threads, and there is none")

    async def before(self, run: Run) -> None:
        library = run.agent.root / "scarce_threads.so"
        if not library.exists():
            library.write_bytes(_compiled(_THREADS_SOURCE))
        few = run.rng.randint(2, 6) if run.number % 2 else 0
        _threads(run).write_bytes(struct.pack(_THREADS, few, 0))
        variables = {"LD_PRELOAD": str(library), "SCARCE_THREADS": str(_threads(run))}
        run.launch.environment = variables

    async def inject(self, run: Run) -> None:
        if run.number % 2 == 0:
            _, live = struct.unpack(_THREADS, _threads(run).read_bytes())
            self._limit(run, max(1, live))

    async def remove(self, run: Run) -> None:
        self._limit(run, 0)

    def _limit(self, run: Run, threads: int) -> None:
        with _threads(run).open("r+b", buffering=0) as file:  # in place: the gateway has it mapped
            file.write(struct.pack(_THREADS[:2], threads))


def _threads(run: Run) -> Path:
    return run.agent.root / "scarce-threads"


class NoInotify(Fault):
    """The gateway has to poll, to say so, and to answer as usual."""

    name = "inotify"
    about = "no inotify instance can be made"
    runs = 5

    def require(self) -> None:
        if shutil.which("unshare") is None:
            raise Impossible("unshare is not installed")
        tried = subprocess.run(
            [*_UNSHARE, "sh", "-c", _NO_INOTIFY, "sh", "true"], capture_output=True, check=False
        )
        if tried.returncode:
            raise Impossible(f"no user namespace: {tried.stderr.decode(errors='replace').strip()}")

    async def before(self, run: Run) -> None:
        run.launch.prefix = (*_UNSHARE, "sh", "-c", _NO_INOTIFY, "sh")

    async def inject(self, run: Run) -> None:
        try:
            status = await _watching(run)
        except MemoryGatewayError:
            return  # it is ending
        if status["watcher"]["mode"] != "polling" or not status["watcher"]["reason"]:
            run.fail(f"does not say that it polls: {status['watcher']}")


async def _watching(run: Run) -> dict[str, Any]:
    """Returns the first status that says how changes are noticed."""
    with anyio.fail_after(ANSWER_S):
        while True:
            status: dict[str, Any] = await run.gateway.call("status", timeout_s=ANSWER_S)
            if status["watcher"]["mode"] != "starting":
                return status
            await anyio.sleep(0.02)


HOUR_S: Final = 3_600
YEAR_S: Final = 365 * 24 * HOUR_S
_THREADS: Final = "<qq"
_THREADS_SOURCE: Final = Path(__file__).with_name("scarce_threads.c")
_SOURCE: Final = Path(__file__).with_name("skewed_clock.c")


class Clock(Fault):
    name = "clock"
    about = "the clock jumps an hour back, a year forward, or to just before midnight"
    hold_s = 0.8
    runs = 6

    def require(self) -> None:
        if shutil.which("cc") is None:
            raise Impossible("a C compiler is needed for a clock that jumps, and there is none")

    async def before(self, run: Run) -> None:
        root = run.agent.root
        library = root / "skewed_clock.so"
        if not library.exists():
            library.write_bytes(_compiled(_SOURCE))
        self._set(run, 0)
        run.launch.environment = {"LD_PRELOAD": str(library), "SKEWED_CLOCK": str(_offset(run))}

    async def inject(self, run: Run) -> None:
        self._set(run, (-HOUR_S, YEAR_S, _to_midnight())[run.number % 3])
        await _write_todays_note(run)

    async def remove(self, run: Run) -> None:
        self._set(run, 0)

    def _set(self, run: Run, seconds: int) -> None:
        # In place: the gateway has the file mapped.
        with _offset(run).open("r+b" if _offset(run).exists() else "wb", buffering=0) as file:
            file.write(struct.pack("<q", seconds))


@cache
def _compiled(source: Path) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "preloaded.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
        subprocess.run(command, check=True)
        return library.read_bytes()


def _offset(run: Run) -> Path:
    return run.agent.root / "clock-offset"


def _to_midnight() -> int:
    """Returns the seconds that bring the clock to about half a second before the next midnight."""
    now = datetime.now().astimezone()
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((midnight - now).total_seconds() - 0.5)


async def _write_todays_note(run: Run) -> None:
    """Writes a note that is named after a day while that day ends."""
    name = time.strftime("%Y-%m-%d")
    note = run.agent.workspace / f"memory/{name}.md"
    note.write_text(f"# {name}\n\n- Written in run {run.number}.\n", encoding="utf-8")
