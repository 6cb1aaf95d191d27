"""`setup` on a terminal, answered as a person does: each change is shown before it is made, and all of it is undone."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
WAIT_S = 120
CODEX = 'model = "x"  # mine\n'
CLAUDE = '{\n  "theme": "dark"   ,\n "x":1}'


class Conversation:
    """A terminal of 200 columns: its output, and the typed input."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self.shown = ""

    def until(self, text):
        """Returns the output since the last time, as soon as the text is in it."""
        ends = time.monotonic() + WAIT_S
        while text not in self.shown:
            assert time.monotonic() < ends, self.shown
            if select.select([self._descriptor], [], [], 1)[0]:
                self.shown += os.read(self._descriptor, 65_536).decode().replace("\r\n", "\n")
        output, self.shown = self.shown, ""
        return output

    def answer(self, text):
        os.write(self._descriptor, f"{text}\n".encode())

    def end(self):
        """Types Control-D."""
        os.write(self._descriptor, b"\x04")


@pytest.fixture
def home(tmp_path):
    """A home with two folders of notes, and two clients with files of their own."""
    for name, text in (
        ("vault/boiler.md", "The boiler is serviced by Hartmann."),
        ("notes/tea.md", "Sencha."),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"# Note\n\n{text}\n", encoding="utf-8")
    (tmp_path / "vault/.obsidian").mkdir()
    for name, text in ((".codex/config.toml", CODEX), (".claude.json", CLAUDE)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "bin").mkdir()
    return tmp_path


@contextmanager
def typing(home, *arguments):
    ours, theirs = pty.openpty()
    environment = {
        "HOME": str(home), "PATH": f"{home}/bin", "PYTHONPATH": str(REPOSITORY), "TERM": "dumb",
        "HF_HUB_OFFLINE": "1", "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", *arguments], env=environment, cwd=home,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield Conversation(ours), process
        finally:
            process.kill()
            os.close(ours)


def files(home):
    """Returns everything but the program's own cache."""
    found = (one for one in home.rglob("*") if one.is_file())
    return {
        str(one.relative_to(home)): one.read_bytes() for one in found if ".cache" not in one.parts
    }


def ask(home, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments], check=False, capture_output=True, encoding="utf-8",
        cwd=home, env={"HOME": str(home), "PATH": f"{home}/bin", "PYTHONPATH": str(REPOSITORY)}, timeout=WAIT_S,
    )  # fmt: skip
    return done.stdout


def test_each_change_is_seen_before_it_is_made_and_undo_brings_every_byte_back(home):
    before = files(home)
    with typing(home, "setup") as (person, process):
        output = person.until("A number or a folder [1]:")
        assert f"1  {home}/vault (Obsidian vault, 1 note)" in output
        assert f"{home}/notes (folder of notes, 1 note)" in output
        person.answer("1")
        output = person.until("Do this? [Y/n]:")
        assert f'"vault": "{home}/vault"' in output
        assert files(home) == before
        person.answer("y")
        output = person.until("[y/N]:")
        assert "granite-embedding" in output and "Apache-2.0" in output
        assert "RETRIEVAL" not in output and "embeddinggemma" not in output, (
            "one model, in a few lines"
        )
        assert set(files(home)) - set(before) == {".config/memory-gateway/config.json5"}
        person.answer("n")
        connected = set()
        while len(connected) < 2:
            output = person.until("Write this? [Y/n]:")
            name = ".codex/config.toml" if ".codex/config.toml" in output else ".claude.json"
            assert str(home / "vault") in output
            assert files(home)[name] == before[name]
            person.answer("y")
            connected.add(name)
        assert "search" in person.until("Ask: memory-gateway")
        assert process.wait(WAIT_S) == 0
    after = files(home)
    assert all(after[name] != before[name] for name in connected)
    assert "boiler.md" in ask(home, "search", "who services the boiler?")
    with typing(home, "setup", "--undo") as (person, process):
        output = person.until("Do this? [Y/n]:")
        assert all(name in output for name in connected)
        assert (
            files(home).keys() >= after.keys()
            and files(home)[".claude.json"] == after[".claude.json"]
        )
        person.answer("y")
        person.until("A model that was downloaded stays")
        assert process.wait(WAIT_S) == 0
    left = {name: text for name, text in files(home).items() if not name.startswith(".local/")}
    assert left == before


def test_who_says_no_changes_nothing(home):
    before = files(home)
    with typing(home, "setup") as (person, process):
        person.until("A number or a folder [1]:")
        person.answer(str(home / "notes"))
        person.until("Do this? [Y/n]:")
        person.answer("n")
        person.until("Nothing was written.")
        assert process.wait(WAIT_S) == 0
    assert files(home) == before


def test_yes_means_the_only_folder_that_was_found(home):
    shutil.rmtree(home / "notes")
    with typing(home, "setup", "--no-clients") as (person, process):
        person.until("A number or a folder [1]:")
        person.answer("y")
        person.until("Do this? [Y/n]:")
        person.answer("n")
        assert process.wait(WAIT_S) == 0


def test_who_goes_away_changes_nothing(home):
    before = files(home)
    with typing(home, "setup") as (person, process):
        person.until("A number or a folder [1]:")
        person.answer("1")
        person.until("Do this? [Y/n]:")
        person.end()
        assert process.wait(WAIT_S) != 0
    assert files(home) == before
