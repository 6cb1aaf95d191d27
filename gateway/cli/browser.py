"""The screen of `browse`: a line to type in, the hits below it, and the note of the chosen hit beside them.

Before anything is typed, the newest notes are listed. One task searches, always for the latest text of the line, so
that typing never waits for an answer.
"""

from __future__ import annotations

import io
import os
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import anyio
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.styles import Style
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from backends.interface import Hit
from config.errors import MemoryGatewayError
from config.runtime.tasks import background_tasks
from config.settings import Settings
from gateway.cli.places import absolute_path, is_file, open_in_editor
from gateway.cli.rendering.on_terminal import (
    Look,
    lines_hidden,
    look_around,
    shown_line,
    shown_note,
)
from gateway.cli.rendering.results import Line
from gateway.cli.terminal import EscapingConsole, counted, folded
from gateway.cli.vault import Vault
from gateway.escaping import visible_line
from gateway.tools.notes import GetParams
from gateway.tools.search import SearchParams

if TYPE_CHECKING:
    from backends.interface import ReadAnswer, SearchAnswer
    from gateway.cli.access import Access

_MOST: Final = 30
_LINES: Final = 400
"""The most lines of a note in the preview, around its best line."""
_STYLE: Final = Style.from_dict(
    {"chosen": "reverse", "line": "ansibrightblack", "muted": "ansibrightblack", "prompt": "bold"}
)
_NOTHING_TYPED: Final = "Type what you look for."
_KEYS: Final = "Esc quit  ↑↓ choose  Enter open  PgUp PgDn read"


class Browser:
    """The screen and its current state."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._base = str(settings.workspace)
        self._query = Buffer(multiline=False, on_text_changed=lambda _: self._ask())
        self._asked = anyio.Event()
        self._asked.set()
        self._chosen = 0
        self._hits: tuple[Hit, ...] = ()
        self._lines: tuple[Line, ...] = ()
        """The best line of each hit."""
        self._answered: str | None = None
        """The query of the hits, empty for the newest notes; None before those are known."""
        self._opened: str | None = None
        """The note that was open in an editor, which may have changed it: it is searched for and chosen again."""
        self._status = _NOTHING_TYPED
        self._away = ""
        """The reason why there are no notes, or not all of them."""
        self._missing = ""
        """The reason why hits, or else notes, may be missing."""
        self._preview: list[str] = []
        """The lines of the note, with escape sequences of a terminal."""
        self._scroll = 0
        self._app = self._screen()

    async def run(self, memory: Access) -> None:
        """Shows the screen until the person leaves it."""
        async with background_tasks() as tasks:
            tasks.start_soon(self._search_on, memory)
            await self._app.run_async()

    # --- Searching ---

    def _ask(self) -> None:
        self._asked.set()

    async def _search_on(self, memory: Access) -> None:
        shown: tuple[str | None, int] | None = None
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            try:
                text = self._query.text.strip()
                if text != self._answered:
                    await (self._search(memory, text) if text else self._list_newest())
                    paths = [hit.path for hit in self._hits]
                    self._chosen = paths.index(self._opened) if self._opened in paths else 0
                    shown = self._opened = None
                if shown != (self._answered, self._chosen):
                    shown = self._answered, self._chosen
                    await self._show_note(memory)
            except MemoryGatewayError as error:
                self._status = visible_line(str(error))
            self._app.invalidate()

    async def _list_newest(self) -> None:
        vault = await anyio.to_thread.run_sync(Vault, self._settings)
        notes = vault.newest()[:_MOST]
        self._answered = ""
        self._away = self._missing = visible_line(vault.why_missing())
        self._status = self._away or _NOTHING_TYPED
        self._lines = tuple(Line(1, one.title) for one in notes)
        self._hits = tuple(
            Hit(
                path=one.path, start_line=1, end_line=1, score=0, snippet=one.title, source="memory"
            )
            for one in notes
        )

    async def _search(self, memory: Access, text: str) -> None:
        if not self._answered:  # the first answer may wait for the index
            self._status = "Searching ..."
            self._app.invalidate()
        found = await memory.search(SearchParams(query=text, max_results=_MOST, explain=True))
        shown = await look_around(memory, found.hits, text)
        self._answered = text
        self._hits = tuple(hit for hit, _ in shown)
        self._lines = tuple(shown_line(hit, text, around) for hit, around in shown)
        self._status = _summary(found, len(shown))
        self._missing = visible_line(found.stale.reason) if found.stale else self._away

    async def _show_note(self, memory: Access) -> None:
        self._preview, self._scroll = [], 0
        if not self._hits:
            width = self._note_width()
            wrapped = Text(self._missing).wrap(Console(width=width), width)
            self._preview = [self._drawn(one) for one in wrapped]
            return
        hit = self._hits[self._chosen]
        best = self._lines[self._chosen].number or hit.start_line
        first = max(1, best - _LINES // 2)
        read = await memory.get(GetParams(hit.path, first, _LINES))
        lines, row = self._rendered(hit, read, first, best)
        self._preview = lines
        self._scroll = max(0, row - 3)

    def _rendered(self, hit: Hit, read: ReadAnswer, first: int, best: int) -> tuple[list[str], int]:
        """Returns the note for the screen, and the row of its best line."""
        from backends.text.frontmatter import read_front_matter

        look = Look(query=self._answered or "", url="")
        facts = read_front_matter(read.text if first == 1 else "")
        hidden = lines_hidden(read.text, facts)
        if best <= hidden:
            best = hidden + 1
        lines = read.text.split("\n")[: read.line_count] or hit.snippet.split("\n")
        width = self._note_width()
        shown = [folded(one, width) for one in shown_note(lines, first, hidden, facts, look, best)]
        at = best - first - hidden + (len(shown) - len(lines) + hidden)
        row = [0, *accumulate(map(len, shown))][max(0, min(at, len(shown)))]
        return [self._drawn(one) for parts in shown for one in parts], row

    def _drawn(self, line: Text) -> str:
        """Returns a line with the escape sequences of its own style; any others in it are made visible."""
        out = io.StringIO()
        is_plain = bool(os.environ.get("NO_COLOR"))
        console: Console = EscapingConsole(
            file=out, force_terminal=True, color_system=None if is_plain else "truecolor", width=10_000,
            markup=False, emoji=False, highlight=False,
        )  # fmt: skip
        line.spans = [one for one in line.spans if "link " not in str(one.style)]
        console.print(line, soft_wrap=True)
        return out.getvalue()

    # --- Display and keys ---

    def _screen(self) -> Application[None]:
        query = Window(BufferControl(self._query), height=1)
        prompt = Window(FormattedTextControl([("class:prompt", "> ")]), width=2, height=1)
        info = Window(FormattedTextControl(lambda: [("class:muted", self._status)]), height=1)
        keys = Window(FormattedTextControl([("class:muted", _KEYS)]), height=1)
        hits = Window(FormattedTextControl(self._list, show_cursor=False), width=self._list_width)
        between = Window(width=1, char="│", style="class:line")
        note = Window(FormattedTextControl(self._note, show_cursor=False), wrap_lines=True)
        body = VSplit([hits, between, note])
        layout = Layout(HSplit([VSplit([prompt, query]), info, body, keys]), focused_element=query)
        return Application(
            layout=layout, key_bindings=self._keys(), full_screen=True, style=_STYLE,
            mouse_support=False,
        )  # fmt: skip

    def _list_width(self) -> int:
        return min(48, max(20, self._app.output.get_size().columns * 2 // 5))

    def _note_width(self) -> int:
        return max(1, self._app.output.get_size().columns - self._list_width() - 1)

    def _list(self) -> StyleAndTextTuples:
        width, rows = self._list_width(), max(1, self._app.output.get_size().rows - 3) // 2
        begin = max(0, self._chosen - rows + 1)
        shown: StyleAndTextTuples = []
        for at, hit in enumerate(self._hits[begin : begin + rows], begin):
            line = self._lines[at]
            at_line = f":{line.number or hit.start_line}" if self._answered else ""
            place = visible_line(f"{hit.path}{at_line}")
            style = "class:chosen" if at == self._chosen else "bold"
            shown.append((style, set_cell_size(_end_of(place, width), width) + "\n"))
            text = visible_line(line.text.strip())
            shown.append(("class:muted", set_cell_size(text, width - 1) + "\n"))
        return shown

    def _note(self) -> StyleAndTextTuples:
        rows = self._app.output.get_size().rows
        return to_formatted_text(ANSI("".join(self._preview[self._scroll : self._scroll + rows])))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def move(by: int) -> None:
            self._chosen = max(0, min(len(self._hits) - 1, self._chosen + by))
            self._ask()

        def scroll(by: int) -> None:
            self._scroll = max(0, min(len(self._preview) - 1, self._scroll + by))

        for names, step in ((("up", "c-p"), -1), (("down", "c-n"), 1)):
            for name in names:
                keys.add(name)(lambda _, by=step: move(by))
        for name, step in (("pageup", -10), ("pagedown", 10)):
            keys.add(name)(lambda _, by=step: scroll(by))
        for name in ("escape", "c-c", "c-d", "c-q"):
            keys.add(name, eager=name == "escape")(lambda event: event.app.exit())
        keys.add("enter")(self._open)
        keys.add(Keys.BracketedPaste)(self._paste)
        return keys

    def _paste(self, event: KeyPressEvent) -> None:
        """Inserts the text as one line: there is room for one, and lines out of sight would be searched for, too."""
        self._query.insert_text(" ".join(event.data.splitlines()))

    def _open(self, _: KeyPressEvent) -> None:
        if self._hits and is_file(hit := self._hits[self._chosen]):
            line = self._lines[self._chosen].number or hit.start_line
            path = absolute_path(self._base, hit.path)
            run_in_terminal(lambda: self._edit(hit.path, path, line))

    def _edit(self, note: str, path: str, line: int) -> None:
        try:
            open_in_editor(path, line)
            self._answered, self._opened = None, note
            self._ask()
        except MemoryGatewayError as error:
            self._status = visible_line(str(error))


def _end_of(place: str, width: int) -> str:
    """Returns as much of the end as fits into `width` columns of the screen; some characters take two."""
    if cell_len(place) < width:
        return place
    while cell_len(place) > width - 2:
        place = place[1:]
    return f"…{place}"


def _summary(found: SearchAnswer, shown: int) -> str:
    if found.error:
        return visible_line(found.error)
    count = counted(shown, "passage")
    spent = sum(found.timings_ms.get(part, 0.0) for part in ("prepare", "search"))
    weak = f"  {visible_line(found.warning)}" if found.warning else ""
    return f"{count}, {spent:.0f} ms{weak}"
