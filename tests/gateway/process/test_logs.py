"""Logs on standard error: one form for our own records and those of libraries."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress

from gateway.process.log_output import LONGEST_TRACEBACK_CHARS

SCRIPT = """
import logging
from config.runtime.logs import bind
from gateway.process.log_output import configure_logs
configure_logs("info")
bind(request="7")
logging.getLogger("some.library").warning("%s is odd", "this")
logging.getLogger("some.library").info("not told")
"""


def test_what_a_library_logs_is_a_record_like_ours_with_the_id_of_the_request():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, encoding="utf-8", check=True
    )
    (record,) = map(json.loads, done.stderr.splitlines())
    assert (record["event"], record["level"]) == ("this is odd", "warning")
    assert record["request"] == "7"


QUIET = """
import sys
from config.runtime.logs import Log
from gateway.process.log_output import configure_logs
configure_logs("warning")
Log().info("not told")
print("structlog" in sys.modules)
Log().warning("told", place="here")
print("structlog" in sys.modules, "rich" in sys.modules)
"""


def test_structlog_is_loaded_with_the_first_record_and_without_rich():
    done = subprocess.run(
        [sys.executable, "-c", QUIET], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split() == ["False", "True", "False"]
    (record,) = map(json.loads, done.stderr.splitlines())
    assert (record["event"], record["place"], record["level"]) == ("told", "here", "warning")


def test_a_record_is_told_without_form_where_structlog_cannot_be_loaded():
    """A process that may open no more files cannot load it."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            QUIET.replace("import sys", "import sys; sys.modules['structlog'] = None"),
        ],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == "warning: told {'place': 'here'}\n"


FAULT = """
from config.runtime.logs import Log
from gateway.process.log_output import configure_logs
def sink(depth):
    memory_text = "kestrel-canary"
    if depth:
        return sink(depth - 1)
    raise ValueError("the cause" + " of it all" * 2000)
configure_logs("info")
try:
    sink(5)
except ValueError:
    Log().exception("fault")
"""


def test_a_fault_is_one_record_of_bounded_length_without_the_values_of_variables():
    done = subprocess.run(
        [sys.executable, "-c", FAULT], capture_output=True, encoding="utf-8", check=True
    )
    (record,) = map(json.loads, done.stderr.splitlines())
    assert record["exception"].startswith("Traceback (most recent call last):")
    assert "characters left out" in record["exception"]
    assert record["exception"].endswith("of it all")
    assert len(record["exception"]) < LONGEST_TRACEBACK_CHARS + 100
    assert "kestrel-canary" not in done.stderr


def test_for_people_a_record_is_a_plain_line_also_when_it_goes_into_a_file():
    script = SCRIPT.replace('("info")', '("info", for_people=True)').replace(
        "%s is", "\\x1b[31m%s is"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True
    )
    (line,) = done.stderr.splitlines()
    assert "\\x1b[31mthis is odd" in line
    assert "\x1b" not in line
    assert line.endswith("request=7")


def read_terminal(descriptor):
    shown = b""
    with os.fdopen(descriptor, "rb", buffering=0) as terminal, suppress(OSError):  # EIO is its end
        while piece := terminal.read(65_536):
            shown += piece
    return shown


def test_a_fault_on_a_terminal_is_as_plain():
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-Werror", "-c", FAULT], stderr=theirs) as process:
        os.close(theirs)
        shown = read_terminal(ours)
        assert process.wait(60) == 0
    assert b"characters left out" in shown
    assert b"kestrel-canary" not in shown
