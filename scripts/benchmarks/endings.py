"""Kills the parent of a starting or answering gateway, again and again, and counts who is left.

The gateway's input stays open all the while, held by this process: only the parent's death can tell it
to end. Half of the parents die at a random moment of the start, the others after the first answer. Each
leads a session of its own, as a chat gateway started by a terminal or a service manager does: inside a
container whose first process shares the session, a child that has not looked yet cannot tell that
process from its parent.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.ownership import make_home

LIMIT_S = 2.0
LATEST_KILL_S = 0.4
PARENT = 'exec 3<&0; "$0" -m gateway serve "$@" <&3 & wait'
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"memory_search","params":{"query":"boiler"}}\n'


class Ending(NamedTuple):
    moment: str
    seconds: float | None
    """From the parent's death until nothing was left; None: something was, after the limit."""


def one_ending(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    mark: str,
    *,
    kill_after_s: float | None,
    limit_s: float,
) -> Ending:
    """Kills one parent: so many seconds after its start, or after the gateway's first answer.

    `mark` is a part of the gateway's command line that no other process has.
    """
    parent = subprocess.Popen(
        ["/bin/sh", "-c", PARENT, sys.executable, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=dict(environment), start_new_session=True,
    )  # fmt: skip
    assert parent.stdin is not None
    assert parent.stdout is not None
    if kill_after_s is None:
        parent.stdin.write(REQUEST)
        parent.stdin.flush()
        parent.stdout.readline()
    else:
        time.sleep(kill_after_s)
    parent.kill()
    parent.wait()
    killed_at = time.monotonic()
    while (left := processes(mark)) and time.monotonic() < killed_at + limit_s:
        time.sleep(0.01)
    seconds = None if left else time.monotonic() - killed_at
    for pid in left:
        os.kill(pid, 9)
    parent.stdin.close()
    parent.stdout.close()
    return Ending("after the first answer" if kill_after_s is None else "while starting", seconds)


def processes(mark: str) -> list[int]:
    """Those that have `mark` in their command line, without this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in command:
                found.append(int(entry.name))
    return found


def endings(
    rounds: int,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    mark: str,
    *,
    limit_s: float = LIMIT_S,
) -> list[Ending]:
    draw = random.Random(7)
    return [
        one_ending(
            arguments,
            environment,
            mark,
            kill_after_s=draw.uniform(0, LATEST_KILL_S) if number % 2 else None,
            limit_s=limit_s,
        )
        for number in range(rounds)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-gateway-endings-") as root:
        done = endings(options.rounds, make_home(Path(root)), os.environ, root)
    table = Table(title=f"The parent is killed with -9, {options.rounds} times")
    for column in ("parent killed", "starts", f"left after {LIMIT_S:g} s", "median", "slowest"):
        table.add_column(column, justify="right")
    for moment in ("while starting", "after the first answer"):
        mine = [one.seconds for one in done if one.moment == moment]
        ended = sorted(one for one in mine if one is not None)
        table.add_row(
            moment,
            str(len(mine)),
            str(len(mine) - len(ended)),
            f"{ended[len(ended) // 2] * 1000:.0f} ms",
            f"{ended[-1] * 1000:.0f} ms",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
