import pytest

from backends.files.reading import BROKEN, UNKNOWN, decode, encoding_of, read_lines
from backends.interface import ReadRequest
from fakes.each import each

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
    assert decode(data) == text
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory/a.md").write_bytes(data)
    whole = read_lines(roots_of(workspace), ReadRequest(path="memory/a.md"))
    assert whole.text == text
    second = ReadRequest(path="memory/a.md", first_line=2, line_count=2)
    lines = text.split("\n")
    assert read_lines(roots_of(workspace), second).text == "\n".join(lines[1:3])


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("damage", [b"\0", b"\n"])
def test_a_note_that_a_mark_names_utf16_is_read_as_that_with_an_odd_byte_at_its_end(
    workspace, write, roots_of, codec, damage
):
    data = f"\ufeff{GERMAN}".encode(codec) + damage
    assert decode(data) == f"{GERMAN}\N{REPLACEMENT CHARACTER}"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory/a.md").write_bytes(data)
    whole = read_lines(roots_of(workspace), ReadRequest(path="memory/a.md"))
    assert whole.text == f"{GERMAN}\N{REPLACEMENT CHARACTER}"


@each(
    "data",
    [
        "Grüße, schön, für alle".encode() + b"\xe9",
        b"a\x81b",
        b"\xff\xfea",
        b"caf\xe9 \0 end\n",
    ],
)
def test_what_may_be_anything_is_not_taken_for_something(data):
    assert encoding_of(data) == BROKEN


def test_a_zero_byte_alone_is_no_other_encoding():
    assert encoding_of(b"a\0b\n") == "utf-8"


@each(
    "data",
    [
        "价格是三百元，供应商同意了。".encode("gbk"),
        "# 价格\n\n- tea: 三百元，供应商同意了\n- OK\n".encode("gbk"),
        "お茶の値段は三百円です。".encode("shift_jis"),
        "Цена согласована с поставщиком".encode("cp1251"),
        bytes(range(256)),
        bytes(4096),
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(0, 256, 3)) * 4,
    ],
)
def test_what_is_no_text_that_can_be_read_gives_nothing_to_index(data):
    assert encoding_of(data) == UNKNOWN


def test_damaged_utf8_is_still_utf8():
    text = "今天和供应商谈了茶叶的价格。明天再说。".encode()
    assert encoding_of(text[:-1]) == encoding_of(text[:10] + b"\xff\xff" + text[10:]) == BROKEN
