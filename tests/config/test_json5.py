"""Reading files: values, places, and a typed error for everything that is not JSON5."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.errors import ConfigInvalidError, ConfigProblem, ErrorKind
from config.source.json5 import MAX_BYTES, MAX_DEPTH, read_json5, require_object


def problem_of(caught: pytest.ExceptionInfo[ConfigInvalidError]) -> ConfigProblem:
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert caught.value.remedy
    (problem,) = caught.value.problems
    return problem


def plain(node):
    """Returns the values of a located tree without their places."""
    if isinstance(node.value, dict):
        return {name: plain(member) for name, member in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def test_json5_syntax_is_read(parse):
    text = """
    // a comment
    {
      plain: 'single', "quoted": "dou\\
ble", /* inline */ list: [1, .5, +2, -0x1F, 1e3,], nested: {deep: null,},
      \u00fcnicode: true, $dollar: false,
    }
    """
    assert plain(parse(text)) == {
        "plain": "single",
        "quoted": "double",
        "list": [1, 0.5, 2, -31, 1000.0],
        "nested": {"deep": None},
        "\u00fcnicode": True,
        "$dollar": False,
    }


def test_every_member_knows_its_line_and_column(parse):
    root = parse('{\n  a: 1,\n  "b": {\n    c: [10,\n      20],\n  },\n}')
    b = root.value["b"]
    items = b.value["c"].value
    places = [(n.line, n.column) for n in (root.value["a"], b, b.value["c"], *items)]
    assert places == [(2, 3), (3, 3), (4, 5), (4, 9), (5, 7)]


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_break_counts_once(parse, line_break):
    root = parse(line_break.join(["{", "a: 1,", "", "b: 2", "}"]))
    assert (root.value["a"].line, root.value["b"].line) == (2, 4)
    assert root.value["b"].column == 1


def test_quotes_brackets_and_comments_inside_strings_do_not_move_places(parse):
    root = parse('{\n a: "} // \\" , [",\n b: \'/* " */\',\n // } ]\n c: 1 /* { */,\n d: 2}')
    assert [root.value[name].line for name in "abcd"] == [2, 3, 5, 6]


def test_names_with_escapes_are_found(parse):
    root = parse("{\n \"\\u0061\\n\": 1,\n \\u0062c: 2,\n 'it\\'s': 3 }")
    assert {name: node.line for name, node in root.value.items()} == {"a\n": 2, "bc": 3, "it's": 4}


def test_of_duplicate_members_the_last_counts_and_knows_of_the_earlier(parse):
    root = parse("{\n a: {x: 1},\n b: 0,\n a: {\n y: 2}\n}")
    node = root.value["a"]
    assert plain(node) == {"y": 2}
    assert (node.line, node.value["y"].line) == (4, 5)
    assert node.source.position(node.shadowed) == (2, 2)
    assert root.value["b"].shadowed is None


def test_a_byte_order_mark_is_skipped_and_does_not_count_as_a_column(parse):
    root = parse(b"\xef\xbb\xbf{a: 1}")
    assert (root.line, root.column, root.value["a"].column) == (1, 1, 2)


def test_astral_characters_count_as_one_column(parse):
    assert parse('{"\U0001f600": 0, b: 1}').value["b"].column == 10


@pytest.mark.parametrize(
    ("data", "line", "column", "found"),
    [
        (b"", 1, 1, "no JSON data"),
        (b"// only a comment", 1, 1, "no JSON data"),
        (b"{a: 1,\n b: 2", 1, 1, "unclosed object"),
        (b"{\n a: [1,\n 2", 2, 5, "unclosed array"),
        (b'{a: "x\n"}', 1, 5, "unclosed string"),
        (b"{\n a: 1\n b: 2}", 3, 2, 'expected comma or "}", found "b"'),
        (b"{a: 1,, b: 2}", 1, 7, "stray comma"),
        (b"{a = 1}", 1, 4, 'expected colon, found "="'),
        (b"{a: nil}", 1, 5, 'expected "u", found "i"'),
        (b"{a: 1.2.3}", 1, 5, "unclosed NumericLiteral"),
        (b"{a: 1" + b"0" * 5000 + b"}", 1, 5, "unclosed NumericLiteral"),
        (b"{a: 1}\n\n@", 1, 7, 'extra data "@"'),
        (b"{a: \x00}", 1, 5, "found U+0000"),
        (b'{a: "b" "c"}', 1, 9, "found a quotation mark"),
        (b"{1: 2}", 1, 2, "expected IdentifierStart"),
    ],
)
def test_a_syntax_error_has_line_column_and_the_reason_of_the_parser(
    parse, data, line, column, found
):
    with pytest.raises(ConfigInvalidError) as caught:
        parse(data)
    problem = problem_of(caught)
    assert (problem.line, problem.column) == (line, column)
    assert found in problem.message
    assert problem.file == "test.json5"


@pytest.mark.parametrize(
    ("data", "line", "column", "byte"),
    [
        (b'{a: "\xff"}', 1, 6, "0xff"),
        (b'{\n "\xc3\xa9": "\xe9"}', 2, 8, "0xe9"),
        (b'\xef\xbb\xbf{a: "\x80"}', 1, 6, "0x80"),
        (b'{a: "\xed\xa0\x80"}', 1, 6, "0xed"),
        (b"{a: 1}\n\xf0\x9f", 2, 1, "0xf0"),
    ],
)
def test_invalid_utf8_names_the_byte_and_its_place(parse, data, line, column, byte):
    with pytest.raises(ConfigInvalidError) as caught:
        parse(data)
    problem = problem_of(caught)
    assert (problem.line, problem.column) == (line, column)
    assert byte in problem.message
    assert "UTF-8" in str(caught.value.remedy)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf16_is_recognised_where_it_has_a_byte_order_mark(parse, codec):
    mark = {"utf-16": b"", "utf-16-be": b"\xfe\xff", "utf-16-le": b"\xff\xfe"}[codec]
    with pytest.raises(ConfigInvalidError, match=r"the text is UTF-16.*Save the file"):
        parse(mark + "{a: 1}".encode(codec))


@pytest.mark.parametrize("opening", [b"[", b"{a:", b"[{a:"])
def test_ten_thousand_levels_are_an_error_and_not_a_crash(parse, opening):
    with pytest.raises(ConfigInvalidError, match="maximum nesting level exceeded"):
        parse(opening * 10_000)


def test_too_deep_nesting_is_reported_where_it_becomes_too_deep(parse):
    with pytest.raises(ConfigInvalidError) as caught:
        parse("\n" + "[" * (MAX_DEPTH + 50))
    problem = problem_of(caught)
    assert (problem.line, problem.column) == (2, MAX_DEPTH + 1)


def test_a_reasonable_depth_is_fine(parse):
    node, depth = parse("[" * MAX_DEPTH + "]" * MAX_DEPTH), 1
    while node.value:
        (node,), depth = node.value, depth + 1
    assert depth == MAX_DEPTH


@pytest.mark.parametrize(
    ("text", "found"), [("[1]", "a list"), ("5", "a number"), ('"x"', "a string")]
)
def test_the_top_must_be_an_object(parse, text, found):
    with pytest.raises(ConfigInvalidError, match=f"line 2, column 3: found {found} at the top"):
        require_object(parse(f"\n  {text}"))


def test_null_is_no_object_either(parse):
    with pytest.raises(ConfigInvalidError, match="found null at the top"):
        require_object(parse("null"))


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "a.json5"
    path.write_text("{a: 1}", encoding="utf-8")
    root = read_json5(path)
    assert plain(root) == {"a": 1}
    assert root.source.path == path


def test_a_missing_file_is_not_an_invalid_one(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read_json5(tmp_path / "missing.json5")


def test_a_directory_cannot_be_read_as_a_file(tmp_path: Path):
    with pytest.raises(ConfigInvalidError, match="cannot be read: Is a directory") as caught:
        read_json5(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_file_without_permission_cannot_be_read(tmp_path: Path, unprivileged):
    path = tmp_path / "a.json5"
    path.write_text("{}", encoding="utf-8")
    path.chmod(0)
    with unprivileged(), pytest.raises(ConfigInvalidError) as caught:
        read_json5(path)
    assert "cannot be read: Permission denied" in str(caught.value)


def test_a_path_below_a_file_cannot_be_read(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigInvalidError, match="cannot be read: Not a directory"):
        read_json5(tmp_path / "file" / "openclaw.json")


def test_a_file_that_is_too_large_is_refused_without_reading_it_all(tmp_path: Path):
    path = tmp_path / "huge.json5"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 1000)
    with pytest.raises(ConfigInvalidError, match="is larger than 4 MiB"):
        read_json5(path)


def test_an_endless_device_is_refused():
    with pytest.raises(ConfigInvalidError, match="is larger than 4 MiB"):
        read_json5(Path("/dev/zero"))


def test_a_message_never_quotes_the_line_where_a_key_may_stand(parse):
    with pytest.raises(ConfigInvalidError) as caught:
        parse('{apiKey: "sk-very-secret-key" x}')
    assert "secret" not in str(caught.value)
