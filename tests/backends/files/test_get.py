import tracemalloc

import pytest

from backends.files.reading import MAX_SCANNED_BYTES, MAX_TEXT_BYTES, read_lines
from backends.interface import FileUnreadableError, PathNotAllowedError, ReadAnswer, ReadRequest

PATH = "memory/a.md"


@pytest.fixture
def note(workspace, write):
    return lambda content: write(workspace / PATH, content)


@pytest.fixture
def get(workspace, roots_of):
    """Reads from the workspace: `get(first_line, line_count, path)`."""

    def read(first=None, count=None, path=PATH):
        request = ReadRequest(path=path, first_line=first, line_count=count)
        return read_lines(roots_of(workspace), request)

    return read


def test_without_lines_the_whole_file_comes_as_it_is(note, get):
    note("one\r\ntwo\n\n")
    assert get() == ReadAnswer(
        path=PATH, text="one\r\ntwo\n\n", status="ok", first_line=1, line_count=4
    )
    assert get(0, 0) == get()


@pytest.mark.parametrize(
    ("first", "count", "text", "lines"),
    [
        (1, 1, "one", 1),
        (2, 1, "two\r", 1),
        (2, None, "two\r\nthree\n", 3),
        (3, 2, "three\n", 2),
        (None, 2, "one\ntwo\r", 2),
        (0, 2, "one\ntwo\r", 2),
        (-5, 1, "one", 1),
        (1, -3, "one", 1),
        (3, 0, "three\n", 2),
        (2, 1000, "two\r\nthree\n", 3),
        (4, 1, "", 1),
    ],
)
def test_lines_are_chosen_as_documented(note, get, first, count, text, lines):
    note("one\ntwo\r\nthree\n")
    answer = get(first, count)
    assert (answer.text, answer.line_count, answer.status) == (text, lines, "ok")
    assert answer.first_line == max(1, first or 1)
    assert not answer.truncated


def test_beyond_the_end_the_text_is_empty_and_that_is_no_error(note, get):
    note("one\n")
    assert get(50, 10) == ReadAnswer(path=PATH, text="", status="ok", first_line=50, line_count=0)
    assert get(10**30).status == "ok"


def test_an_empty_file_is_one_empty_line(note, get):
    note("")
    assert get() == ReadAnswer(path=PATH, text="", status="ok", first_line=1, line_count=1)


def test_a_permitted_file_that_is_not_there_is_not_found(workspace, get):
    expected = ReadAnswer(path=PATH, text="", status="not_found", first_line=7, line_count=0)
    assert get(7, path="./memory//a.md") == expected
    assert get(path="MEMORY.md").status == "not_found"
    assert get(path=f"memory/{'n' * 300}.md").status == "not_found"


def test_a_missing_workspace_has_no_files_and_that_is_no_error(tmp_path, roots_of):
    roots = roots_of(tmp_path / "none")
    assert read_lines(roots, ReadRequest(path="MEMORY.md")).status == "not_found"


def test_the_mark_of_byte_order_is_left_out_and_bad_bytes_are_shown_as_such(note, get):
    note(b"\xef\xbb\xbfcaf\xe9 \0 end\n")
    assert get().text == "caf\ufffd \0 end\n"
    assert get(1, 1).text == "caf\ufffd \0 end"


def test_a_file_without_permission_is_unreadable(public_workspace, write, roots_of, unprivileged):
    write(public_workspace / PATH).chmod(0)
    with unprivileged(), pytest.raises(FileUnreadableError, match="Permission denied"):
        read_lines(roots_of(public_workspace), ReadRequest(path=PATH))


def test_a_long_file_is_given_in_parts_that_make_up_the_whole(note, get):
    text = "".join(f"Line {number} of many.\n" for number in range(120_000))
    note(text)
    parts, first = [], None
    while True:
        answer = get(first)
        parts.append(answer.text)
        assert len(answer.text.encode()) <= MAX_TEXT_BYTES
        if not answer.truncated:
            break
        assert answer.next_line == answer.first_line + answer.line_count
        first = answer.next_line
    assert len(parts) == 3
    assert "\n".join(parts) == text


def test_a_line_of_five_megabytes_is_cut_between_characters(note, get):
    note("first\n" + "xx" + "語" * 1_700_000 + "\nlast\n")
    answer = get(2)
    assert answer.text == "xx" + "語" * ((MAX_TEXT_BYTES - 2) // 3)
    assert (answer.truncated, answer.line_count, answer.next_line) == (True, 1, 3)
    assert get(2, 1).next_line is None
    assert get(3).text == "last\n"


def test_a_file_that_is_one_line_of_five_megabytes_has_nothing_to_go_on_with(note, get):
    note("x" * 5_000_000)
    answer = get()
    assert len(answer.text) == MAX_TEXT_BYTES
    assert (answer.truncated, answer.next_line) == (True, None)


def test_a_line_deep_in_a_large_file_is_found_without_holding_the_file(note, get):
    line = "An agent's long memory, of which one line is wanted.\n"
    count = 50 * 1024 * 1024 // len(line)
    note(line * count + "the wanted line\n")
    tracemalloc.start()
    try:
        answer = get(count + 1, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.text == "the wanted line"
    assert peak < 4 * 1024 * 1024


def test_a_line_is_not_looked_for_without_end(workspace, note, get):
    with note("first\n").open("r+b") as file:
        file.truncate(MAX_SCANNED_BYTES + 1024 * 1024)  # a sparse file: no disk is filled
    assert get(1, 1).text == "first"
    with pytest.raises(FileUnreadableError, match="256 MiB"):
        get(3)


def test_a_refusal_does_not_repeat_a_path_of_any_length(get):
    with pytest.raises(PathNotAllowedError) as caught:
        get(path="x" * 1_000_000)
    assert len(str(caught.value)) < 1000
