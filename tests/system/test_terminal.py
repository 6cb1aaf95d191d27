"""Escape sequences, line breaks and reversed text in notes, file names and settings: shown by commands, not obeyed."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest

WAIT_S = 60
ESCAPES = {
    "colour": "\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;b3duZWQ=\x1b\\",
    "C1": "\x9b2J\x9d",
    "backspaces": "\b\b\b\x7f",
    "carriage return": "\rowned",
}
EVIL = "".join(ESCAPES.values())
NAME = "memory/kettle\x1b]0;owned\x07\x9b2J.md"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def evil(home):
    """A home with escape sequences in everything that does not come from the operator."""
    home.write(NAME, f"# Kettle {EVIL}\n\n- The kettle {EVIL} is descaled.\n")
    (home.workspace / "memory/link\x1b[31m.md").symlink_to("nowhere")
    (home.workspace / "memory/large\x9b2J.md").touch()
    os.truncate(home.workspace / "memory/large\x9b2J.md", 65 << 20)
    home.configure({"agents": {"defaults": {"memorySearch": {"unknown\x1b[31m": 1}}}})
    return home


def on_terminal(home, *arguments):
    """Returns what a command writes where both of its streams are a terminal that knows no colours."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gateway", arguments[0], *home.arguments, *arguments[1:]]
    with subprocess.Popen(
        command, env=home.environment | {"NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, suppress(OSError):  # EIO is its end
            while piece := terminal.read(65_536):
                shown += piece
        process.wait(WAIT_S)
    return shown.decode().replace("\r\n", "\n")  # the terminal's own line ends


COMMANDS = {
    "index": ("index", "--log-level", "debug"),
    "search": ("search", "kettle descaled"),
    "search that explains": ("search", "kettle descaled", "--explain"),
    "search for it": ("search", f"zzz{EVIL}", "--min-score", "1"),
    "search as JSON": ("search", "kettle descaled", "--json"),
    "get": ("get", NAME),
    "get as JSON": ("get", NAME, "--json"),
    "get of nothing": ("get", NAME + "x.md"),
    "get of what is forbidden": ("get", f"../{EVIL}"),
    "status": ("status",),
    "status as JSON": ("status", "--json"),
    "health": ("health",),
    "doctor": ("doctor",),
    "config": ("config",),
    "an unknown option": ("search", f"--{EVIL}"),
    "an unknown workspace": ("status", "--config", f"/nowhere/{EVIL}"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_control_character_reaches_a_terminal(evil, name):
    shown = on_terminal(evil, *COMMANDS[name])
    assert shown.strip()
    assert CONTROLS.findall(shown) == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if "JSON" in name])
def test_json_with_escape_sequences_is_valid_and_says_the_name_as_it_is(evil, type_in, name):
    type_in("index", *evil.arguments)
    command, *words = COMMANDS[name]
    done = type_in(command, *evil.arguments, *words)
    said = json.dumps(json.loads(done.stdout), ensure_ascii=False)
    assert json.dumps(NAME, ensure_ascii=False)[1:-1] in said or "status" in name


def test_a_file_that_is_read_by_a_program_stays_as_it_is(evil):
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "get", *evil.arguments, NAME],
        env=evil.environment, capture_output=True, check=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.stdout.replace(b"\r", b"") == (evil.workspace / NAME).read_bytes().replace(
        b"\r", b""
    )


LYING = "memory/kettle\nFix: run rm -rf\u202edm.md"
SHOWN = "memory/kettle\\x0aFix: run rm -rf\\u202edm.md"
TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def lying(home):
    """A home with a note whose name breaks the line and reverses the text after it, and notes that link to it."""
    home.write(LYING, "# Kettle \u202edelacsed\n\n- The kettle is descaled. [[Boiler]] #house\n")
    home.write("memory/boiler.md", "---\ntags: [house]\n---\n# Boiler\n\nAn [[kettle]].\n")
    (home.workspace / "memory/link\nError: \u202e.md").symlink_to("nowhere")
    home.configure({"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    return home


NAMING = {
    "search": ("search", "kettle descaled"),
    "search that explains": ("search", "kettle descaled", "--explain"),
    "search for files": ("search", "kettle descaled", "--files"),
    "search in a form": ("search", "kettle descaled", "--format", "{path}:{line}"),
    "recent": ("recent",),
    "links": ("links", LYING),
    "recall": ("recall", "When is the kettle descaled?"),
    "get of nothing": ("get", f"{LYING}x.md"),
    "get of what ends before": ("get", LYING, "--from", "900"),
    "open of nothing": ("open", f"{LYING}x"),
    "open without its editor": ("open", LYING, "--editor", "/nowhere/\n\u202eeditor"),
    "forget of what is there": ("forget", LYING),
    "status": ("status",),
    "index": ("index",),
}


@pytest.mark.parametrize("name", NAMING)
@pytest.mark.parametrize("reader", ["terminal", "pipe"])
def test_no_name_makes_a_line_of_its_own_or_turns_one(lying, type_in, name, reader):
    type_in("index", *lying.arguments)
    command, *words = NAMING[name]
    if reader == "terminal":
        shown = on_terminal(lying, command, *words)
    else:
        done = type_in(command, *lying.arguments, *words)
        shown = done.stdout + done.stderr
    assert shown.strip()
    assert [line for line in shown.splitlines() if line.startswith(("Fix:", "Error:"))] == []
    assert TURNED.findall(shown) == []
    assert name == "open without its editor" or "\\x0a" in shown


@pytest.mark.parametrize("reader", ["terminal", "pipe"])
def test_json_says_such_a_name_as_it_is_and_shows_no_turned_text(lying, type_in, reader):
    type_in("index", *lying.arguments)
    if reader == "terminal":
        shown = on_terminal(lying, "search", "kettle descaled", "--json")
    else:
        shown = type_in("search", *lying.arguments, "kettle descaled", "--json").stdout
    assert TURNED.findall(shown) == []
    (hit, *_) = json.loads(shown[shown.index("{") :])["results"]
    assert hit["path"] == LYING
    assert "\u202e" in hit["snippet"]
