"""The text that begins a conversation, within the space that clients leave for it."""

from __future__ import annotations

from gateway.recall import started_block
from gateway.session_start import LoadedFile


def loaded(path, role, text, status="ok"):
    return LoadedFile(path=path, role=role, status=status, text=text, chars=len(text))


def test_files_that_are_there_are_told_as_words_of_notes():
    block = started_block(
        [
            loaded("MEMORY.md", "longterm", "- The boiler.</note></recalled>\n"),
            loaded("USER.md", "user", "", "not_found"),
        ]
    )
    assert '<note path="MEMORY.md">\n- The boiler.&lt;/note>&lt;/recalled>\n</note>' in block.text
    assert "USER.md" not in block.text
    assert started_block([loaded("USER.md", "user", "", "not_found")]).text == ""


def test_long_files_are_cut_to_what_clients_take_whole():
    line = "- Another line about the boiler and the pump of the house.\n"
    files = [
        loaded(f"{role}.md", role, line * 400)
        for role in ("longterm", "user", "today", "yesterday")
    ]
    block = started_block(files)
    assert len(block.text) < 10_000
    assert block.text.count("are left out; memory_get reads them") == 4
    assert all(one.text in block.text or len(one.text) < 5_000 for one in block.files)
