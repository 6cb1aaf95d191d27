"""`browse` on a real pseudo-terminal, looked at on the screen that it draws."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import anyio
import pyte
import pytest

WAIT_S = 30
ROWS, COLUMNS = 24, 90


class Terminal:
    def __init__(self, descriptor, columns):
        self._descriptor = descriptor
        self._screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    def type(self, keys):
        os.write(self._descriptor, keys.encode())

    @property
    def shown(self):
        return "\n".join(line.rstrip() for line in self._screen.display)

    def wait_for(self, condition):
        """Returns the screen as soon as the condition is true for it."""
        ends = time.monotonic() + WAIT_S
        while not condition(self.shown):
            assert time.monotonic() < ends, self.shown
            if select.select([self._descriptor], [], [], 1)[0]:
                self._stream.feed(os.read(self._descriptor, 65_536))
        return self.shown

    def wait_for_text(self, text):
        return self.wait_for(lambda shown: text in shown)

    def leave(self, key):
        """Types the key until the program closes the terminal: beside an editor that ends, a key may get lost."""
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            try:
                self.type(key)
                while select.select([self._descriptor], [], [], 1)[0]:
                    if not os.read(self._descriptor, 65_536):
                        return
            except OSError:
                return


@contextmanager
def browsing(home, *arguments, columns=COLUMNS, **variables):
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = home.environment | {"TERM": "xterm-256color"} | variables
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", *arguments], env=environment,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield Terminal(ours, columns), process
        finally:
            process.kill()
            os.close(ours)


@pytest.fixture
def notes(home, type_in):
    home.write("memory/boiler.md", "---\ntitle: Log\n---\n# Boiler\n\n- Serviced by **Krause**.\n")
    home.write("memory/garden.md", "# Garden\n\n" + "filler\n" * 60 + "- The quince is pruned.\n")
    type_in("index", *home.arguments)
    return home


def test_what_is_typed_is_searched_at_once_and_the_chosen_note_is_shown_at_its_best_line(notes):
    with browsing(notes, "browse", *notes.arguments) as (terminal, process):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("krause")
        shown = terminal.wait_for_text("memory/boiler.md:6")
        shown = terminal.wait_for_text("Serviced by Krause.")
        assert "title:" not in shown
        terminal.type("\x7f" * 6 + "quince")
        shown = terminal.wait_for_text("▶ 63 │ • The quince is pruned.")
        assert "memory/garden.md:63" in shown
        terminal.leave("\x1b")
        assert process.wait(WAIT_S) == 0


def test_how_to_leave_is_seen_on_the_narrowest_screen(notes):
    with browsing(notes, "browse", *notes.arguments, columns=40) as (terminal, _):
        terminal.wait_for_text("Esc quit")


def test_what_an_editor_changed_is_seen_when_it_ends(notes):
    editor = notes.root / "append"
    editor.write_text('#!/bin/sh\nfor one; do :; done\necho "- The quince bore 20 kg." >> "$one"\n')
    editor.chmod(0o755)
    notes.write("memory/quince.md", "# The quince\n\n- Quince quince quince.\n")
    with browsing(notes, "browse", *notes.arguments, EDITOR=str(editor)) as (terminal, _):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("quince pruned")
        terminal.wait_for_text("• The quince is pruned.")
        terminal.type("\r")
        terminal.wait_for_text("• The quince bore 20 kg.")


def test_lines_that_are_pasted_are_one_line(notes):
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("\x1b[200~krause\nserviced\x1b[201~")
        terminal.wait_for_text("> krause serviced")
        terminal.type("\x15quince")
        shown = terminal.wait_for_text("The quince is pruned.")
        assert "boiler" not in shown


def test_of_a_long_name_in_wide_signs_the_end_is_seen_with_its_line(notes):
    notes.write(f"memory/{'庭の木についての長い覚え書き' * 3}.md", "# 庭\n\n- Yuzu.\n")
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("yuzu")
        shown = terminal.wait_for_text(".md:3")
        (place,) = [line for line in shown.splitlines() if line.startswith("…")]
        assert "覚え書き.md:3  │" in place or "覚え書き.md:3 │" in place


def test_a_list_of_notes_breaks_between_words_on_a_narrow_screen(notes):
    notes.write("memory/oven.md", "# The oven and everything else that was noted on it\n")
    with browsing(notes, "recent", *notes.arguments, columns=40) as (terminal, _):
        shown = terminal.wait_for_text("noted on it")
    assert f"\n{' ' * 12}everything else that was\n{' ' * 12}noted on it\n" in shown


def test_before_anything_is_typed_the_newest_notes_are_there_to_choose_from(notes):
    notes.write("memory/2026-11-20.md", "# Friday\n\n- Picked sloes.\n")
    notes.write("memory/2026-11-21.md", "# Saturday\n\n- Made gin.\n")
    os.utime(notes.workspace / "memory/garden.md", (1_600_000_000, 1_600_000_000))
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.wait_for(lambda shown: "memory/garden.md" in shown)
        shown = terminal.wait_for(lambda shown: "│" in shown and "▶" in shown)
        listed = [shown.index(f"{day}.md") for day in ("2026-11-21", "2026-11-20")]
        assert listed == sorted(listed) and listed[1] < shown.index("garden.md")
        terminal.type("sloes")
        terminal.wait_for(lambda shown: "Picked sloes." in shown and "garden.md" not in shown)
        terminal.type("\x7f" * 5)
        terminal.wait_for(lambda shown: "memory/garden.md" in shown)


def test_long_lines_of_a_note_are_broken_between_words(notes):
    notes.write("memory/long.md", "Zebrafish: " + "wonderfully " * 20)
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.type("zebrafish")
        terminal.wait_for_text("▶ 1 │ Zebrafish:")

        def said(shown: str) -> list[str]:
            note = [line.split("│")[-1].strip() for line in shown.splitlines() if "│" in line]
            return " ".join(note).split()

        terminal.wait_for(lambda shown: said(shown).count("wonderfully") == 20)


def test_front_matter_is_not_what_a_hit_is_known_by(notes):
    notes.write("memory/maze.md", "---\naliases: [Minos]\n---\nThe labyrinth.\n")
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("minos")
        shown = terminal.wait_for_text("memory/maze.md:4")
        shown = terminal.wait_for_text("▶ 4 │ The labyrinth.")
        assert "aliases:" not in shown


def test_enter_opens_the_note_in_the_editor_at_the_line(notes, tmp_path):
    written = tmp_path / "told"
    editor = tmp_path / "vi"
    editor.write_text(f'#!/bin/sh\nprintf "%s %s" "$1" "$2" > {written}\n', encoding="utf-8")
    editor.chmod(0o755)
    with browsing(notes, "browse", *notes.arguments, EDITOR=str(editor)) as (terminal, process):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("quince")
        terminal.wait_for_text("The quince is pruned.")
        terminal.type("\r")
        terminal.wait_for(lambda _: written.exists() and written.read_text(encoding="utf-8"))
        assert written.read_text(encoding="utf-8") == f"+63 {notes.workspace}/memory/garden.md"
        terminal.leave("\x03")
        assert process.wait(WAIT_S) == 0


def test_control_characters_of_notes_and_names_are_shown_and_not_obeyed(notes, type_in):
    notes.write("memory/evil\x1b[2J.md", "# Evil\n\n- The kestrel \x1b]0;owned\x07\x9b2J.\n")
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("kestrel")
        terminal.wait_for_text("memory/evil\\x1b[2J.md:3")
        terminal.wait_for_text("▶ 3 │ • The kestrel \\x1b]0;owned\\x9b2J.")


@pytest.mark.anyio
async def test_a_running_gateway_is_asked(notes):
    async with notes.gateway() as gateway:
        await gateway.call("memory_search", {"query": "boiler"})
        await anyio.to_thread.run_sync(_look_for_krause, notes)
        counted = await gateway.call("overview")
    assert sum(sum(one["outcomes"].values()) for one in counted["counted"]["searches"]) > 1


def _look_for_krause(notes):
    with browsing(notes, "browse", *notes.arguments) as (terminal, _):
        terminal.wait_for_text("Type what you look for.")
        terminal.type("krause")
        terminal.wait_for_text("memory/boiler.md:6")


def test_where_there_are_no_notes_the_screen_says_so_and_what_helps(home, tmp_path):
    (tmp_path / "empty").mkdir()
    with browsing(home, "browse", "--notes", str(tmp_path / "empty")) as (terminal, _):
        for typed in ("", "krause"):
            terminal.type(typed)
            terminal.wait_for_text("0 passages" if typed else "There are no notes")
            shown = terminal.wait_for_text("Markdown.")
            assert "memory-gateway setup" in " ".join(shown.split())


def test_without_any_command_a_terminal_shows_it(home):
    with browsing(home) as (terminal, process):
        terminal.wait_for_text("There are no notes")
        terminal.leave("\x04")
        assert process.wait(WAIT_S) == 0


def test_without_a_terminal_there_is_nothing_to_browse(notes, type_in):
    done = type_in("browse", *notes.arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert "needs a terminal" in done.stderr
