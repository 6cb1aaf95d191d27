import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.files.reading import (
    BROKEN,
    HASH_BYTES,
    MAX_FILE_BYTES,
    UNKNOWN,
    FileChanging,
    FileContent,
    FileGone,
    FileUnreadable,
    content_hash,
    decode,
    encoding_of,
    read_for_index,
)
from backends.files.safe_open import BEHIND_LINK, IS_LINK, NOT_REGULAR
from backends.files.scan import FoundFile, scan
from backends.interface import SkippedFile


@pytest.fixture
def listed(workspace, write, roots_of):
    """Writes `memory/sub/a.md`, lists it, and returns a function that reads the listed file."""

    def write_and_list(content: str | bytes = "text\n"):
        write(workspace / "memory/sub/a.md", content)
        roots = roots_of(workspace)
        (found,) = scan(roots).files
        return lambda: read_for_index(roots, found)

    return write_and_list


@pytest.fixture
def note(workspace):
    return workspace / "memory/sub/a.md"


def test_a_file_is_read_with_its_hash_and_the_stamps_of_what_was_read(listed, note):
    content = listed("# Title\n\nBody\n")()
    status = note.stat()
    assert content == FileContent(
        found=FoundFile(
            path="memory/sub/a.md",
            root=3,
            size=14,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            inode=status.st_ino,
        ),
        text="# Title\n\nBody\n",
        content_hash=content_hash(b"# Title\n\nBody\n"),
    )
    assert len(content.content_hash) == HASH_BYTES


def test_an_extra_file_outside_is_read_where_it_was_found(tmp_path, workspace, write, roots_of):
    write(tmp_path / "vault/deep/a.md", "outside")
    roots = roots_of(workspace, (tmp_path / "vault", "**/*.md"))
    (found,) = scan(roots).files
    assert read_for_index(roots, found).text == "outside"


def test_an_empty_file_is_empty_text(listed):
    assert listed(b"")().text == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbf# Title\n", "# Title\n"),
        (b"\xef\xbb\xbf", ""),
        (b"a\xef\xbb\xbfb", "a\ufeffb"),
        (b"one\r\ntwo\rthree\n", "one\ntwo\rthree\n"),
        (b"one\r\r\n\rtwo\r", "one\n\rtwo\r"),
        (b"a\0b\n", "a\ufffdb\n"),
        (b"the end\n" + bytes(4096), "the end\n\ufffd"),
        (b"caf\xe9\n", "caf\u00e9\n"),
        (b"caf\xe9 \x07\n", "caf\ufffd \x07\n"),
        (b"\xff\0", "\ufffd\ufffd"),
        ("日本語 и кириллица\n".encode(), "日本語 и кириллица\n"),
    ],
)
def test_odd_bytes_become_text_that_later_stages_can_bear(listed, data, text):
    assert listed(data)().text == text


@pytest.mark.parametrize("codec", ["utf-16", "utf-32", "utf-16-be", "utf-32-be"])
def test_what_begins_with_a_byte_order_mark_is_read_as_that_says(listed, codec):
    data = (
        "\ufeffThe kettle, 日本語\n".encode(codec.removesuffix("-le"))
        if "-be" in codec
        else "The kettle, 日本語\n".encode(codec)
    )
    assert listed(data)().text == "The kettle, 日本語\n"


def test_damage_in_what_a_byte_order_mark_names_is_reported(listed):
    content = listed("The kettle is descaled.\n".encode("utf-16") + b"\0")()
    assert (content.text, content.encoding) == ("The kettle is descaled.\n\ufffd", BROKEN)


@pytest.mark.parametrize("codec", ["utf-32-le", "utf-32-be"])
def test_damaged_utf32_is_no_text_and_no_fault(listed, codec):
    content = listed("\ufeffThe kettle is descaled.\n".encode(codec) + b"x")()
    assert content.encoding in {BROKEN, UNKNOWN}


@given(st.binary(max_size=60) | st.text(alphabet="a\r\n\0\ufeff").map(str.encode))
def test_decoding_never_moves_a_line(data):
    text = decode(data)
    if not encoding_of(data).startswith(("utf-16", "utf-32")):
        assert text.count("\n") == data.count(b"\n")
    assert "\0" not in text
    assert "\r\n" not in text
    text.encode()


def test_a_large_file_is_read_whole(listed):
    line = b"A line of an agent's long, long memory.\n"
    data = line * (50 * 1024 * 1024 // len(line))
    content = listed(data)()
    assert content.found.size == len(data)
    assert content.text.count("\n") == len(data) // len(line)


def test_a_file_beyond_the_limit_is_skipped_and_the_limit_named(listed, note):
    read = listed()
    os.truncate(note, MAX_FILE_BYTES)
    assert isinstance(read(), FileContent)
    os.truncate(note, MAX_FILE_BYTES + 1)
    assert read() == SkippedFile(
        path="memory/sub/a.md", reason="too large: 67,108,865 bytes, the limit is 67,108,864"
    )


def test_a_file_that_vanished_since_it_was_listed_is_gone(listed, note):
    read = listed()
    note.unlink()
    assert read() == FileGone()
    note.parent.rmdir()
    assert read() == FileGone()


def test_a_file_that_became_a_link_is_skipped(tmp_path, listed, note, write):
    read = listed()
    note.unlink()
    note.symlink_to(write(tmp_path / "secret.md"))
    assert read() == SkippedFile(path="memory/sub/a.md", reason=IS_LINK)


def test_a_directory_that_became_a_link_is_not_followed(tmp_path, workspace, listed, note, write):
    read = listed()
    write(tmp_path / "outside/a.md", "secret")
    note.parent.rename(workspace / "aside")
    note.parent.symlink_to(tmp_path / "outside")
    assert read() == SkippedFile(path="memory/sub/a.md", reason=BEHIND_LINK)


def test_a_file_that_became_a_fifo_is_skipped_without_waiting(listed, note):
    read = listed()
    note.unlink()
    os.mkfifo(note)
    assert read() == SkippedFile(path="memory/sub/a.md", reason=NOT_REGULAR)


def test_a_file_without_permission_is_unreadable_with_cause_and_remedy(
    public_workspace, write, roots_of, unprivileged
):
    write(public_workspace / "MEMORY.md").chmod(0)
    roots = roots_of(public_workspace)
    (found,) = scan(roots).files
    with unprivileged():
        outcome = read_for_index(roots, found)
    assert isinstance(outcome, FileUnreadable)
    assert "Permission denied" in outcome.reason
    assert " belongs to user " in outcome.reason


def test_a_file_replaced_by_another_is_read_as_one_of_the_two(listed, note, write):
    read = listed("a" * 100_000)
    done = threading.Event()

    def replace() -> None:
        while not done.is_set():
            for letter in "ab":
                write(note.with_suffix(".new"), letter * 100_000).replace(note)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        outcomes = [read() for _ in range(200)]
    finally:
        done.set()
        thread.join(60)
    for outcome in outcomes:
        # Unlinking the old file while it is read changes its stamps.
        assert isinstance(outcome, FileContent | FileChanging)
        assert isinstance(outcome, FileChanging) or outcome.text in {"a" * 100_000, "b" * 100_000}


def append(file):
    file.seek(0, os.SEEK_END)
    file.write(b"y")


def overwrite(file):
    file.seek(0)
    file.write(b"z")


@pytest.mark.parametrize("change", [append, overwrite])
def test_a_file_that_is_being_written_is_changing_and_is_read_whole_when_it_rests(
    listed, note, change
):
    read = listed(b"x" * 32_000_000)
    started, done = threading.Event(), threading.Event()

    def keep_changing() -> None:
        with note.open("r+b", buffering=0) as file:
            while not done.is_set():
                change(file)
                started.set()

    thread = threading.Thread(target=keep_changing)
    thread.start()
    try:
        assert started.wait(60)
        deadline = time.monotonic() + 60
        while read() != FileChanging():
            assert time.monotonic() < deadline
    finally:
        done.set()
        thread.join()
    content = read()
    assert content.text == note.read_text(encoding="utf-8")
    assert content.text[0] + content.text[-1] in {"xy", "zx"}
