"""JSON on standard output is always whole, valid and UTF-8."""

from __future__ import annotations

import json

import msgspec

from gateway.cli import output


class Found(msgspec.Struct, rename="camel"):
    start_line: int
    text: str


def test_json_has_the_names_of_the_wire_and_two_spaces_of_indentation(capfd):
    output.write_json(Found(3, "茶"))
    output.flush()
    assert capfd.readouterr().out == '{\n  "startLine": 3,\n  "text": "茶"\n}\n'


def test_names_of_files_that_are_no_text_do_not_break_json(capfd):
    output.write_json({"path": "caf\udce9.md"})
    output.flush()
    assert json.loads(capfd.readouterr().out) == {"path": "caf\N{REPLACEMENT CHARACTER}.md"}


def test_notes_never_stand_on_standard_output(capsys):
    output.note("beware")
    assert capsys.readouterr() == ("", "beware\n")
