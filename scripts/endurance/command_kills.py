"""Kills commands that write a person's file, at moments spread over their run.

After each kill the file is as it was or as it becomes, never in between; the same command then works, and
in the end the client's file is back byte for byte, with nothing beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.cli.rendering.page import BEGINNING

_OTHERS: Final = {"mcpServers": {"other": {"command": "x", "args": ["1.0"]}}}


class TornError(Exception):
    """A file is neither what it was nor what it becomes."""


class Desk:
    """A home with a client's configuration and a folder of notes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = root / ".cursor/mcp.json"
        self.report = root / "report.html"
        self.client.parent.mkdir()
        self.before = json.dumps(_OTHERS, indent=3).encode()
        self.client.write_bytes(self.before)
        (root / "notes").mkdir()
        (root / "notes/tea.md").write_text("# Tea\n\nIt is in the tin.\n", encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "gateway", *arguments, "--notes", str(self.root / "notes")],
            env={"HOME": str(self.root), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def seconds(self, *arguments: str) -> float:
        started = time.monotonic()
        with self.start(*arguments) as process:
            if process.wait():
                raise TornError(f"{arguments[0]} ended with {process.returncode}")
        return time.monotonic() - started

    def kill(self, after_s: float, *arguments: str) -> str:
        with self.start(*arguments) as process:
            try:
                process.wait(after_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return "killed"
            return "ended before"


def kill_connecting(desk: Desk, kills: int) -> Counter[str]:
    connect, disconnect = ("connect", "cursor", "--yes"), ("disconnect", "cursor", "--yes")
    taken_s = desk.seconds(*connect)
    connected = desk.client.read_bytes()
    desk.seconds(*disconnect)
    outcomes: Counter[str] = Counter()
    for command, wanted in ((connect, connected), (disconnect, desk.before)):
        for number in range(kills):
            outcomes[desk.kill(_moment(taken_s, number, kills), *command)] += 1
            if desk.client.read_bytes() not in (desk.before, connected):
                raise TornError(f"{desk.client} is torn: {desk.client.read_bytes()!r}")
            desk.seconds(*command)  # now it works
            if desk.client.read_bytes() != wanted:
                raise TornError(f"{command[0]} after a kill left {desk.client.read_bytes()!r}")
            desk.seconds(*(disconnect if command is connect else connect))
        desk.seconds(*connect)
    desk.seconds(*disconnect)
    if left := [one.name for one in desk.client.parent.iterdir() if one != desk.client]:
        raise TornError(f"{left} are left beside {desk.client}")
    return outcomes


def kill_reporting(desk: Desk, kills: int) -> Counter[str]:
    """Kills `report`; each run asks a question of its own, so a mixture of two pages would contain both or none."""
    report = ("report", "--output", str(desk.report), "--question")
    taken_s = desk.seconds(*report, "number -1")
    outcomes: Counter[str] = Counter()
    for number in range(kills):
        before = desk.report.read_bytes()
        outcomes[desk.kill(_moment(taken_s, number, kills), *report, f"number {number}")] += 1
        now = desk.report.read_bytes()
        if now == before:
            outcomes["the old page"] += 1
        elif _is_whole(now.decode(), number):
            outcomes["the new page"] += 1
        else:
            raise TornError(f"{desk.report} is torn")
    desk.seconds(*report, "the last one")
    if left := [one.name for one in desk.root.iterdir() if one.name.startswith(".report")]:
        print(f"left beside the page, unfinished: {len(left)}")
    return outcomes


def _is_whole(page: str, number: int) -> bool:
    asked = re.findall(r"<bdi>number (-?\d+)</bdi>", page)
    return page.startswith(BEGINNING) and page.endswith("</html>\n") and asked == [f"{number}"]


def _moment(taken_s: float, number: int, kills: int) -> float:
    """Returns a moment in the later half of the run: before that, Python imports its modules."""
    return taken_s * (0.5 + 0.6 * number / kills)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./scripts/kill_commands", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each command")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="command-kills-") as root:
        desk = Desk(Path(root))
        print(
            f"connect, disconnect: {dict(kill_connecting(desk, asked.kills))}; none torn",
            flush=True,
        )
        print(f"report: {dict(kill_reporting(desk, asked.kills))}; none torn")
    return 0
