"""`search` and `get` on a terminal, and on a pipe beside it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

WAIT_S = 60
BOILER = """---
title: Boiler log
tags: [house]
---
# Boiler

The boiler is a **Vitodens**, see [manual](https://example.org/m).

## Service

- [x] Serviced by Krause on 4 March
- The pressure is `1.5 bar`

| part | price |
|---|---|
| membrane | 34 € |
| anode | 120 € |

```sh
# no heading
```
"""

KICKOFF = """---
title: Kickoff Atlas
tags: [work, project/atlas]
aliases: [Atlas]
---
# Kickoff Atlas

Deadline is 15 March.

## Decisions

- Releases go out on Thursdays.

```python
def deploy(env: str) -> None:
    \"\"\"Rolls out Atlas.\"\"\"
    run("make", "deploy", env)
```
"""


@pytest.fixture
def vault(home, type_in):
    home.write("memory/boiler.md", BOILER)
    type_in("index", *home.arguments)
    return home


def on_terminal(home, *arguments, **variables):
    """Returns what a command writes on a terminal of 100 columns that knows colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    command = [sys.executable, "-m", "gateway", arguments[0], *home.arguments, *arguments[1:]]
    with subprocess.Popen(
        command, env=home.environment | {"TERM": "xterm-256color"} | variables,
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, suppress(OSError):  # EIO is its end
            while piece := terminal.read(65_536):
                shown += piece
        process.wait(WAIT_S)
    return shown.decode().replace("\r\n", "\n")


def words_of(shown):
    """Returns the text without colours and links."""
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", shown)


def test_a_hit_is_numbered_lines_of_rendered_markdown_with_the_best_one_marked(vault):
    shown = words_of(on_terminal(vault, "search", "serviced by Krause", "-n", "1"))
    lines = shown.splitlines()
    assert re.match(
        r"1  memory/boiler\.md:\d+  Boiler log  #house  (likely|maybe), 0\.\d{3}", shown
    )
    assert re.fullmatch(r" ▶ +\d+ │ .*[Ss]ervice.*", next(one for one in lines if "▶" in one))
    assert sum("▶" in one for one in lines) == 1
    assert "   Boiler › Service" in lines
    assert "☑ Serviced by Krause" in shown
    assert [one for one in ("**", "](", "- [x]", "title:") if one in shown] == []


def test_words_of_the_query_are_marked_and_those_that_only_ask_are_not(vault):
    shown = on_terminal(vault, "search", "what is the pressure", "-n", "1")
    marked = set(re.findall(r"\x1b\[1;33m([^\x1b]*)", shown))
    assert marked == {"pressure"}


def test_places_are_links_where_the_terminal_has_them_and_to_the_editor_that_is_named(vault):
    file = vault.workspace / "memory/boiler.md"
    shown = on_terminal(vault, "search", "anode", FORCE_HYPERLINK="1")
    assert f";file://{file}\x1b\\" in shown
    assert ";https://example.org/m\x1b\\" in on_terminal(
        vault, "get", "memory/boiler.md", FORCE_HYPERLINK="1"
    )
    shown = on_terminal(vault, "search", "anode", "--editor", "vscode")
    assert re.search(rf";vscode://file{re.escape(str(file))}:\d+\x1b\\", shown)
    assert "\x1b]8;" not in on_terminal(vault, "search", "anode", FORCE_HYPERLINK="0")


def test_so_many_lines_of_the_note_are_shown_around_the_best_one(vault):
    shown = words_of(on_terminal(vault, "search", "anode price", "-n", "1", "-C", "1"))
    numbered = [int(one) for one in re.findall(r"^ [▶ ] +(\d+) │", shown, re.MULTILINE)]
    assert len(numbered) == 3
    assert re.search(rf"▶ +{numbered[1]} │", shown)


def test_a_hit_in_front_matter_shows_how_its_note_begins(home, type_in):
    home.write("memory/untold.md", "---\naliases: [Minos]\n---\nThe labyrinth.\n")
    type_in("index", *home.arguments)
    shown = words_of(on_terminal(home, "search", "Minos"))
    assert shown.endswith(" ▶ 4 │ The labyrinth.\n\n")


def test_no_hit_is_a_heading_with_nothing_below(home, type_in):
    home.write("memory/kickoff.md", KICKOFF)
    type_in("index", *home.arguments)
    shown = words_of(on_terminal(home, "search", "atlas"))
    assert "tags:" not in shown
    assert "│ …" not in shown.splitlines()[1]
    assert all("│" in one for one in shown.strip().split("\n\n"))


def test_a_note_is_shown_without_its_front_matter_and_its_tables_are_aligned(vault):
    shown = words_of(on_terminal(vault, "get", "memory/boiler.md"))
    assert shown.startswith("Boiler log  #house\n    5 │ Boiler\n")
    assert "│ membrane │ 34 €\n" in shown
    assert "│ anode    │ 120 €\n" in shown
    assert "│ # no heading\n" in shown
    assert "manual (https://example.org/m)." in shown


def test_plain_output_is_that_of_a_pipe_and_a_pipe_gets_the_note_byte_for_byte(vault, type_in):
    for command in (("search", "anode price"), ("get", "memory/boiler.md")):
        piped = type_in(command[0], *vault.arguments, *command[1:]).stdout
        assert on_terminal(vault, *command, "--plain", NO_COLOR="1").startswith(piped)
    assert piped == BOILER


def test_paths_alone_and_lines_in_a_form_of_ones_own(vault, type_in):
    assert type_in("search", *vault.arguments, "anode", "--files").stdout == "memory/boiler.md\n"
    form = "{path}:{line}: {text}"
    shown = type_in("search", *vault.arguments, "Krause", "--format", form).stdout
    assert "memory/boiler.md:11: - [x] Serviced by Krause on 4 March\n" in shown
    form = '{"path": "{path}"} {path {} {0:x}'
    shown = type_in("search", *vault.arguments, "Krause", "--format", form).stdout
    assert shown == '{"path": "memory/boiler.md"} {path {} {0:x}\n'  # other braces are text
    refused = type_in("search", *vault.arguments, "Krause", "--format", "{nothing}")
    assert refused.returncode == 64
    assert "there is no {nothing}" in refused.stderr


def test_nothing_found_ends_with_one(vault, type_in):
    done = type_in("search", *vault.arguments, "xylophone")
    assert (done.returncode, done.stdout[:10]) == (1, "No matches")
