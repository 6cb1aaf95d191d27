"""Pictures of commands on a terminal for the documents: real runs on a pseudo-terminal, as SVG.

The notes are those of tests/data/vault in an empty home, which the pictures call /home/you. Nothing is installed there
and no program of a client is on the PATH, so that they show the same on every machine. They load nothing from
elsewhere.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from drawing.demo import _FONTS
from gateway.cli.options import PROGRAM

ROOT: Final = Path(__file__).resolve().parents[2]
VAULT: Final = ROOT / "tests/data/vault/memory"
PICTURES: Final = ROOT / "docs"
COLUMNS: Final = 100
WAIT_S: Final = 30
_HOME: Final = "/home/you"


class Scene(NamedTuple):
    """A run of a command: its arguments, then the keys to type, each after a text that has to be on the screen."""

    name: str
    arguments: tuple[str, ...]
    keys: tuple[tuple[str, str], ...] = ()
    until: str = ""
    """A text on the last screen of a program that does not end by itself."""
    rows: int = 60


SCENES: Final = (
    Scene("setup", ("setup", "--no-clients"), (("[1]:", "\r"), ("[Y/n]", "\r"), ("[y/N]", "\r"))),
    Scene("search", ("search", "How do I mix the ink?")),
    Scene("browse", (), (("Type what you look for.", "ink"),), "Press/Ink mixing.md", rows=26),
    Scene("status", ("status",)),
)


class _Screen(pyte.Screen):
    """A screen that keeps faint letters, which pyte does not know, as blinking ones, which nothing here uses."""

    def select_graphic_rendition(self, *attributes: int) -> None:
        super().select_graphic_rendition(*attributes)
        if not {38, 48} & set(attributes) and {2, 22} & set(attributes):
            self.cursor.attrs = self.cursor.attrs._replace(blink=2 in attributes)


class _Terminal:
    def __init__(self, descriptor: int, home: Path, rows: int) -> None:
        self._descriptor, self._rows, self._home = descriptor, rows, str(home)
        self._output = b""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def screen(self) -> pyte.Screen:
        screen = _Screen(COLUMNS, self._rows)
        pyte.ByteStream(screen).feed(self._output.replace(self._home.encode(), _HOME.encode()))
        return screen

    def wait_for(self, text: str) -> None:
        """Waits until the text is on the screen and nothing more comes; without a text until the program ends."""
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            if select.select([self._descriptor], [], [], 1)[0]:
                data = b""
                with suppress(OSError):  # a terminal that the program closed
                    data = os.read(self._descriptor, 65_536)
                if not data:
                    if not text:
                        return
                    break
                self._output += data
            elif text and any(text in line for line in self.screen().display):
                return
        raise TimeoutError(f"{text!r} is not on the screen:\n" + "\n".join(self.screen().display))


@contextmanager
def empty_home() -> Iterator[Path]:
    """Yields a home with the vault and nothing else."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory).resolve()
        shutil.copytree(VAULT, home / "notes")
        yield home


def play(scene: Scene, home: Path) -> pyte.Screen:
    """Returns the last screen of a run."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", scene.rows, COLUMNS, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", *scene.arguments], env=_environment(home), cwd=home,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        terminal = _Terminal(ours, home, scene.rows)
        try:
            for awaited, keys in scene.keys:
                terminal.wait_for(awaited)
                terminal.type(keys)
            terminal.wait_for(scene.until)
        finally:
            process.kill()
            os.close(ours)
    return terminal.screen()


def _environment(home: Path) -> Mapping[str, str]:
    return {
        "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "FORCE_HYPERLINK": "0",
    }  # fmt: skip


def draw(scene: Scene, screen: pyte.Screen) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False, markup=False)
    words = (f'"{word}"' if " " in word else word for word in scene.arguments)
    console.print(Text.assemble(("$ ", "green"), (" ".join([PROGRAM, *words]), "bold")))
    rows = [_row(screen, number) for number in range(screen.lines)]
    while rows and not rows[-1].plain.strip():
        rows.pop()
    for row in rows:
        console.print(row, no_wrap=True, overflow="ellipsis")
    console.print()  # else descenders of the last line are cut
    svg = console.export_svg(title=PROGRAM, theme=SVG_EXPORT_THEME, unique_id=scene.name)
    return _FONTS.sub("", svg)


def _row(screen: pyte.Screen, number: int) -> Text:
    row, text = screen.buffer[number], Text()
    cells = (row[column] for column in range(screen.columns))
    for style, alike in groupby(cells, _style):
        text.append("".join(cell.data for cell in alike), style)
    text.rstrip()
    return text


def _style(cell: pyte.screens.Char) -> Style:
    return Style(
        color=_colour(cell.fg), bgcolor=_colour(cell.bg), bold=cell.bold, italic=cell.italics,
        underline=cell.underscore, reverse=cell.reverse, strike=cell.strikethrough, dim=cell.blink,
    )  # fmt: skip


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if len(name) == 6 and set(name) <= set("0123456789abcdef"):
        return f"#{name}"
    return name.replace("brown", "yellow").replace("bright", "bright_")


def record(scenes: Sequence[Scene] = SCENES) -> dict[str, str]:
    """Returns the picture of each scene, played one after the other in one home. Raises TimeoutError."""
    with empty_home() as home:
        return {scene.name: draw(scene, play(scene, home)) for scene in scenes}


def main() -> None:
    for name, svg in record().items():
        (PICTURES / f"terminal-{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
