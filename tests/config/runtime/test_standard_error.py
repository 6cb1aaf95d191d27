"""Writing to standard error when it accepts only a part, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, resource, sys
from config.runtime.standard_error import StandardError

def allow(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))

stream = StandardError(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT))
if sys.argv[2] == "behind":
    stream.write_behind()
allow(30)
for line in ("first that fits\\n", "second that does not fit\\n", "third\\n"):
    stream.write(line)
    stream.settle(60)
allow(-1)
stream.write("fourth \\udc80\\n")
stream.settle(60)
print(stream.dropped)
"""


@pytest.mark.parametrize("mode", ["at once", "behind"])
def test_a_line_that_was_torn_by_a_full_disk_does_not_spoil_the_next_one(tmp_path: Path, mode: str):
    """A limit on the size of files stands in for the full disk."""
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(log), mode], capture_output=True, check=True
    )
    assert log.read_bytes() == b"first that fits\nsecond that do\nfourth \\udc80\n"
    assert done.stdout == b"2\n"


def test_a_name_that_is_no_text_is_written_escaped(capfd):
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--no-such-\udc80"], capture_output=True, check=False
    )
    assert b"\\udc80" in done.stderr
