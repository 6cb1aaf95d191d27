"""Logs on standard error: one form for our own records and those of libraries."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import logging
from structlog.contextvars import bind_contextvars
from gateway.logs import configure_logs
configure_logs("info")
bind_contextvars(request="7")
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
