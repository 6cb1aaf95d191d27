"""Text is read and written even if the process can open no more files."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = r"""
import resource

from backends.files.reading import encoding_of
from backends.text.units import utf16_length
from gateway.escaping import escape_in_json
from gateway.process.beginning import load_codecs
from gateway.rpc.wire import replace_lone_surrogates

load_codecs()
resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(utf16_length("é\U0001f600"))
print(escape_in_json('"\u202e"'))
print(ascii(replace_lone_surrogates("\ud800")))
print(*(encoding_of(data) for data in (b"\xff\xfea\0", b"\xfe\xff\0a", b"\xef\xbb\xbfa", b"caf\xe9")))
"""


def test_a_process_without_descriptors_measures_escapes_and_decodes_text():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "3",
        '"\\u202e"',
        "'\\ufffd'",
        "utf-16-le utf-16-be utf-8 windows-1252",
    ]
