import pytest

from backends.files.encodings import BROKEN, encoding_of
from backends.files.reading import decode, read_lines
from backends.interface import ReadRequest

GERMAN = "# Müller\n\nDie Heizung läuft – für 20 € geprüft.\n"
SHORT = "Käse\n"


@pytest.mark.parametrize("text", [GERMAN, SHORT])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "windows-1252", "utf-16", "utf-16-le", "utf-16-be"]
)
def test_a_note_gives_the_same_text_and_lines_in_the_usual_encodings(
    workspace, write, roots_of, text, encoding
):
    data = text.encode(encoding)
    assert decode(data) == (text, ())
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory/a.md").write_bytes(data)
    whole = read_lines(roots_of(workspace), ReadRequest(path="memory/a.md"))
    assert whole.text == text
    second = ReadRequest(path="memory/a.md", first_line=2, line_count=2)
    lines = text.split("\n")
    assert read_lines(roots_of(workspace), second).text == "\n".join(lines[1:3])


@pytest.mark.parametrize(
    "data",
    [
        "价格是三百元，供应商同意了。".encode("gbk"),
        "Цена согласована с поставщиком".encode("cp1251"),
        "Grüße, schön, für alle".encode() + b"\xe9",
        b"a\x81b",
        b"\xff\xfea",
        b"caf\xe9 \0 end\n",
        bytes(range(256)),
    ],
)
def test_what_may_be_anything_is_not_taken_for_something(data):
    assert encoding_of(data) == BROKEN


def test_a_zero_byte_alone_is_no_other_encoding():
    assert encoding_of(b"a\0b\n") == "utf-8"
