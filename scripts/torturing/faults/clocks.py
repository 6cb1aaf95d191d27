"""Faults of the wall clock: it jumps back and forward, and midnight comes in the middle of the work."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
import time
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Final

from torturing.faults.base import Fault, Impossible
from torturing.scene import Scene

HOUR_S: Final = 3_600
YEAR_S: Final = 365 * 24 * HOUR_S
_SOURCE: Final = Path(__file__).with_name("skewed_clock.c")


class Clock(Fault):
    name = "clock"
    about = "the clock jumps an hour back, a year forward, or to just before midnight"
    hold_s = 0.8
    runs = 6

    def require(self) -> None:
        if shutil.which("cc") is None:
            raise Impossible("a C compiler is needed for a clock that jumps, and there is none")

    async def before(self, scene: Scene) -> None:
        root = scene.subject.root
        library = root / "skewed_clock.so"
        if not library.exists():
            library.write_bytes(_compiled())
        self._set(scene, 0)
        scene.launch.environment = {"LD_PRELOAD": str(library), "SKEWED_CLOCK": str(_offset(scene))}

    async def strike(self, scene: Scene) -> None:
        self._set(scene, (-HOUR_S, YEAR_S, _to_midnight())[scene.number % 3])
        await _write_todays_note(scene)

    async def lift(self, scene: Scene) -> None:
        self._set(scene, 0)

    def _set(self, scene: Scene, seconds: int) -> None:
        # In place: the gateway has the file mapped.
        with _offset(scene).open("r+b" if _offset(scene).exists() else "wb", buffering=0) as file:
            file.write(struct.pack("<q", seconds))


@cache
def _compiled() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "skewed_clock.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        return library.read_bytes()


def _offset(scene: Scene) -> Path:
    return scene.subject.root / "clock-offset"


def _to_midnight() -> int:
    """Seconds that bring the clock to half a second before the next midnight, about."""
    now = datetime.now().astimezone()
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((midnight - now).total_seconds() - 0.5)


async def _write_todays_note(scene: Scene) -> None:
    """A note that is named by a day, written while that day ends."""
    name = time.strftime("%Y-%m-%d")
    note = scene.subject.workspace / f"memory/{name}.md"
    note.write_text(f"# {name}\n\n- Written in run {scene.number}.\n", encoding="utf-8")
