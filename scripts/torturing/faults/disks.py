"""Faults of the disk: full, failing at one write, read only; of that of a model, where one is fetched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from torturing.faults.base import Fault, Impossible
from torturing.scene import Scene

WRITES: Final = 200
"""Each of the first so many writes fails once."""
_SIZE: Final = "24m"
_SIZE_WITH_MODEL: Final = "112m"
"""A download leaves 64 MiB free."""
_COLUMNS: Final = 7
"""Activities that write to the index: a row as a whole has each of its writes fail once."""
_MODEL_WRITES: Final = 33
"""Pieces of 64 KiB that a model arrives in; a stride that is prime to it takes the runs to all."""
_STRIDE: Final = 7
_BLOCK: Final = b"\0" * 65536
_DETACH_S: Final = 5.0


class FullDisk(Fault):
    """State and index lie on a file system of their own, which is filled while the gateway works."""

    name = "disk-full"
    about = f"a tmpfs of {_SIZE} (with a model {_SIZE_WITH_MODEL}) is filled to the last byte, later freed"
    hold_s = 0.6
    may_prevent_start = True

    def require(self) -> None:
        if os.geteuid() != 0:
            raise Impossible("only root may mount a tmpfs")

    async def before(self, scene: Scene) -> None:
        """Puts what is there already on the small disk."""
        state = scene.subject.state
        if os.path.ismount(state):
            return
        aside = state.with_name("aside")
        state.rename(aside)
        state.mkdir()
        size = _SIZE_WITH_MODEL if scene.subject.hub else _SIZE
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", state], check=True)
        shutil.copytree(aside, state, dirs_exist_ok=True)
        shutil.rmtree(aside)

    async def strike(self, scene: Scene) -> None:
        with suppress(OSError), _ballast(scene).open("ab", buffering=0) as file:
            while file.write(_BLOCK):
                pass
        with suppress(OSError), _ballast(scene).open("ab", buffering=0) as file:
            while file.write(b"\0"):
                pass

    async def lift(self, scene: Scene) -> None:
        _ballast(scene).unlink(missing_ok=True)

    async def after(self, scene: Scene) -> None:
        await self.lift(scene)

    def clean(self, root: Path) -> None:
        if os.path.ismount(root / "state"):
            subprocess.run(["umount", "--lazy", root / "state"], check=True)


class FailingWrite(Fault):
    """strace lets the n-th write of each thread fail, in odd runs all that follow as well."""

    name = "write-error"
    about = (
        f"ENOSPC at the n-th write, n from 1 to {WRITES} (to a model {_MODEL_WRITES}); "
        "in every other run at all that follow"
    )
    hold_s = 0.4
    runs = 1 + WRITES // _COLUMNS
    may_prevent_start = True

    def require(self) -> None:
        if shutil.which("strace") is None:
            raise Impossible("strace is not installed")

    async def before(self, scene: Scene) -> None:
        call, only, nth = self._target(scene)
        when = f"{nth}+" if scene.number % 2 else str(nth)
        scene.launch.prefix = (
            "strace", "-D", "-f", "-I", "1", "-o", "/dev/null", *only, "-e", f"trace={call}",
            "-e", f"inject={call}:error=ENOSPC:when={when}", "--",
        )  # fmt: skip

    def _target(self, scene: Scene) -> tuple[str, tuple[str, ...], int]:
        """A call, the file it has to be for (none: any), and n; of the model, where one is fetched."""
        if scene.subject.hub is None:
            nth = 1 + (scene.number * _COLUMNS + scene.column) % WRITES
            return "pwrite64", (), nth
        part = scene.subject.model.with_name(f"{scene.subject.model.name}.part")
        return "write", ("-P", str(part)), 1 + scene.number * _STRIDE % _MODEL_WRITES

    async def lift(self, scene: Scene) -> None:
        """Ends the tracer, which lets go of the gateway."""
        ends = time.monotonic() + _DETACH_S
        while scene.is_alive and (tracer := _tracer(scene.pid)):
            with suppress(ProcessLookupError):
                os.kill(tracer, signal.SIGTERM)
            if time.monotonic() > ends:
                scene.fail("strace does not let go")
                return
            await anyio.sleep(0.02)


class ReadOnly(Fault):
    """Nothing can be made or written where index and model lie, from before the start."""

    name = "read-only"
    about = "the directories of index and model cannot be written; later they can"
    may_prevent_start = True
    runs = 3

    async def before(self, scene: Scene) -> None:
        for place in scene.subject.stores:
            place.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                subprocess.run(["mount", "--bind", place, place], check=True)
                subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
            else:
                place.chmod(0o500)

    async def lift(self, scene: Scene) -> None:
        for place in scene.subject.stores:
            if os.geteuid() != 0:
                place.chmod(0o700)
            else:  # a second time there is nothing left to do
                subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)

    async def after(self, scene: Scene) -> None:
        await self.lift(scene)


def _ballast(scene: Scene) -> Path:
    return scene.subject.state / "ballast"


def _tracer(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0
