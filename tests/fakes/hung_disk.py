"""A disk that hangs, for real processes: a C library that is loaded before theirs.

Under its prefixes every open, stat, read, write and flush waits while the disk hangs, as on a network
mount whose server is gone.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

NEEDS: Final = "a C compiler is needed for a disk that hangs, and there is none"
_SOURCE: Final = Path(__file__).with_name("hung_disk.c")
_NUMBERS: Final = "<qq"


def is_possible() -> bool:
    return shutil.which("cc") is not None


class HungDisk:
    """Affects processes that are started with its `environment`; answers until `hang` is called."""

    def __init__(self, root: Path, *below: Path) -> None:
        library, switch = root / "hung_disk.so", root / "hung_disk.switch"
        if not library.exists():
            library.write_bytes(_compiled())
        switch.write_bytes(bytes(struct.calcsize(_NUMBERS)))
        with switch.open("r+b") as file:
            self._numbers = mmap.mmap(file.fileno(), 0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "HUNG_SWITCH": str(switch),
            "HUNG_BELOW": ":".join(map(str, below)),
        }

    def hang(self) -> None:
        self._numbers[:] = struct.pack(_NUMBERS, 1, 0)

    def answer(self) -> None:
        self._numbers[:8] = struct.pack("<q", 0)

    @property
    def waited(self) -> int:
        """The number of calls that have begun to wait since it hangs."""
        return int(struct.unpack(_NUMBERS, self._numbers[:])[1])

    def until_waited(self, patience_s: float) -> None:
        ends = time.monotonic() + patience_s
        while not self.waited:
            assert time.monotonic() < ends, "nothing touched the disk that hangs"
            time.sleep(0.005)


@cache
def _compiled() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "hung_disk.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        return library.read_bytes()
