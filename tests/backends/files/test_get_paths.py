"""The paths that may be read; nothing else ever is."""

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.files.reading import read_lines
from backends.files.roots import MAX_DEPTH, MemoryRoots
from backends.files.scan import scan
from backends.interface import PathNotAllowedError, ReadRequest
from config.settings import ExtraPath
from fakes.each import each

SECRET = "the secret"


def read(roots, path):
    return read_lines(roots, ReadRequest(path=path))


def refused(roots, path):
    with pytest.raises(PathNotAllowedError) as caught:
        read(roots, path)
    assert str(caught.value) == str(PathNotAllowedError(path))
    return True


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """A workspace and a vault, with secrets and traps around and inside them."""
    base = tmp_path_factory.mktemp("base")
    workspace, vault = base / "workspace", base / "vault"
    for name in (
        "workspace/MEMORY.md",
        "workspace/memory/a.md",
        "workspace/memory/deep/b.md",
        "workspace/memory/back\\slash.md",
        "vault/daily/c.md",
    ):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(f"allowed: {name}", encoding="utf-8")
    for name in (
        "secret.md",
        "outside/secret.md",
        "vault/private.md",
        "vault-two/secret.md",
        "workspace/notes.md",
        "workspace/.memory/x.md",
        "workspace/.MEMORY.md",
        "workspace/memory/secret.txt",
        "workspace/memories/secret.md",
    ):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(SECRET, encoding="utf-8")
    (workspace / "memory/link.md").symlink_to(base / "secret.md")
    (workspace / "memory/dangling.md").symlink_to(base / "none.md")
    (workspace / "memory/linked").symlink_to(base / "outside")
    (workspace / "memory.md").symlink_to(base / "secret.md")
    (workspace / "memory/directory.md").mkdir()
    os.mkfifo(workspace / "memory/fifo.md")
    extra = ExtraPath(path=vault, pattern="daily/*.md", raw="vault")
    return MemoryRoots(workspace, (extra,))


@each(
    ("path", "name"),
    [
        ("MEMORY.md", "MEMORY.md"),
        (" memory/a.md ", "memory/a.md"),
        ("memory/../memory/./a.md", "memory/a.md"),
        ("memory\\deep\\b.md", "memory/deep/b.md"),
        ("memory/back\\slash.md", "memory/back\\slash.md"),
        ("../vault/daily/c.md", "../vault/daily/c.md"),
        ("memory/none.md", "memory/none.md"),
        ("../vault/daily/none.md", "../vault/daily/none.md"),
    ],
)
def test_permitted_paths_are_read_and_named_relative_to_the_workspace(roots, path, name):
    for spelling in (path, str(roots.workspace / path.strip())):
        answer = read(roots, spelling)
        assert answer.path == name
        assert answer.status == ("not_found" if "none" in name else "ok")


@each(
    "path",
    [
        "",
        " ",
        "memory",
        "notes.md",
        ".memory/x.md",
        ".MEMORY.md",
        "./.memory/x.md",
        "memories/secret.md",
        "memory/secret.txt",
        "../secret.md",
        "../vault/private.md",
        "../vault-two/secret.md",
        "memory/../../secret.md",
        "memory\\..\\..\\secret.md",
        "..\\secret.md",
        "memory.md",
        "memory/link.md",
        "memory/dangling.md",
        "memory/linked/secret.md",
        "memory/linked/none.md",
        "memory/directory.md",
        "memory/fifo.md",
        "memory/a.md/b.md",
        "memory/a.md\0",
        "memory/\ud800.md",
        "/etc/passwd",
        "/etc/hostname.md",
        "/",
    ],
)
def test_everything_else_is_refused_with_one_message(roots, path):
    assert refused(roots, path)


def test_the_real_path_of_a_linked_workspace_is_understood(tmp_path, workspace, write, roots_of):
    write(workspace / "memory/a.md", "text")
    write(workspace / "notes.md", SECRET)
    (tmp_path / "link").symlink_to(workspace)
    roots = roots_of(tmp_path / "link")
    answer = read(roots, str(workspace / "memory/a.md"))
    assert (answer.path, answer.text) == ("memory/a.md", "text")
    assert refused(roots, str(workspace / "notes.md"))
    assert refused(roots, str(tmp_path / "secret.md"))


def test_an_extra_path_that_is_a_link_is_not_read_through(tmp_path, workspace, write, roots_of):
    write(tmp_path / "outside/secret.md", SECRET)
    (tmp_path / "vault").symlink_to(tmp_path / "outside")
    (workspace / "notes").symlink_to(tmp_path / "outside")
    roots = roots_of(workspace, tmp_path / "vault", workspace / "notes")
    assert refused(roots, "../vault/secret.md")
    assert refused(roots, "notes/secret.md")


def test_another_root_may_give_what_the_first_refuses(tmp_path, workspace, write, roots_of):
    """A linked workspace is trusted as configured, but not on the way from an extra path."""
    write(workspace / "memory/a.md", "text")
    (tmp_path / "link").symlink_to(workspace)
    roots = roots_of(tmp_path / "link", tmp_path)
    assert read(roots, "memory/a.md").text == "text"


def test_an_extra_file_is_read_by_its_name_only(tmp_path, workspace, write, roots_of):
    write(tmp_path / "todo.md", "text")
    write(tmp_path / "other.md", SECRET)
    roots = roots_of(workspace, tmp_path / "todo.md")
    assert read(roots, "../todo.md").text == "text"
    assert refused(roots, "../other.md")


def outcomes_while(change, roots):
    """Returns the results of reading `memory/sub/a.md` while another thread keeps changing the disk."""
    done, outcomes = threading.Event(), set()

    def keep_changing() -> None:
        while not done.is_set():
            change()

    thread = threading.Thread(target=keep_changing)
    thread.start()
    try:
        for _ in range(5000):
            try:
                answer = read(roots, "memory/sub/a.md")
                outcomes.add(answer.text if answer.status == "ok" else answer.status)
            except PathNotAllowedError:
                outcomes.add("refused")
    finally:
        done.set()
        thread.join(60)
    return outcomes


def test_a_directory_that_turns_into_a_link_never_gives_away_what_is_behind(
    tmp_path, workspace, write, roots_of
):
    write(tmp_path / "outside/a.md", SECRET)
    write(workspace / "memory/sub/a.md", "note")
    sub, aside = workspace / "memory/sub", workspace / "aside"

    def swap() -> None:
        sub.rename(aside)
        sub.symlink_to(tmp_path / "outside")
        sub.unlink()
        aside.rename(sub)

    assert outcomes_while(swap, roots_of(workspace)) <= {"note", "not_found", "refused"}


def test_a_file_that_turns_into_a_link_or_a_fifo_is_refused_in_that_moment(
    tmp_path, workspace, write, roots_of
):
    secret = write(tmp_path / "secret.md", SECRET)
    path = write(workspace / "memory/sub/a.md", "note")

    def swap() -> None:
        path.with_suffix(".link").symlink_to(secret)
        path.with_suffix(".link").replace(path)
        write(path.with_suffix(".new"), "note").replace(path)
        os.mkfifo(path.with_suffix(".fifo"))
        path.with_suffix(".fifo").replace(path)
        write(path.with_suffix(".new"), "note").replace(path)

    assert outcomes_while(swap, roots_of(workspace)) <= {"note", "refused"}


PARTS = st.sampled_from(
    [
        "..", ".", "", "~", " ", "\\", "\0", "memory", "MEMORY.md", "memory.md", "workspace", "vault",
        "daily", "private.md", "c.md", "a.md", "deep", "b.md", "linked", "secret.md", "link.md",
        "outside", "notes.md", ".memory", "x.md", "..\\..", "secret.txt", "fifo.md", "\udcff.md",
        "%2e%2e", "file:", "C:",
    ]
)  # fmt: skip
PATHS = st.lists(PARTS, max_size=9).map("/".join) | st.lists(PARTS, max_size=9).map("\\".join)


@given(PATHS | st.text(max_size=40))
def test_no_path_reads_anything_outside_and_each_has_a_documented_outcome(roots, path):
    for spelling in (path, f"{roots.workspace}/{path}", f"{roots.workspace.parent}/{path}"):
        try:
            answer = read(roots, spelling)
        except PathNotAllowedError:
            continue
        assert answer.status in {"ok", "not_found"}
        assert SECRET not in answer.text
        if answer.status == "ok":
            assert answer.text == f"allowed: {os.path.normpath('workspace/' + answer.path)}"


def test_a_name_that_begins_with_a_blank_is_another_note(tmp_path):
    for name, text in (("lead.md", "the other"), (" lead.md", "the one")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    notes = MemoryRoots(tmp_path, (ExtraPath(path=tmp_path, raw="."),))
    assert read(notes, " lead.md").text == "the one"
    assert read(notes, "lead.md").text == "the other"


def test_a_name_is_read_in_either_form_of_unicode_and_each_form_may_have_its_file(tmp_path):
    apart, composed = "Cafe\u0301.md", "Caf\u00e9.md"
    roots = MemoryRoots(tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / apart).write_text("apart", encoding="utf-8")
    assert read(roots, f"memory/{composed}").path == f"memory/{apart}"
    (tmp_path / "memory" / composed).write_text("composed", encoding="utf-8")
    assert read(roots, f"memory/{composed}").text == "composed"
    assert read(roots, f"memory/{apart}").text == "apart"


def test_what_is_too_deep_to_be_indexed_cannot_be_read(tmp_path):
    notes = MemoryRoots(tmp_path, (ExtraPath(path=tmp_path, raw="."),))
    for depth in (MAX_DEPTH, MAX_DEPTH + 1):
        note = tmp_path / "/".join(["d"] * depth) / "a.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("deep", encoding="utf-8")
        is_indexed = str(note.relative_to(tmp_path)) in {one.path for one in scan(notes).files}
        assert is_indexed == (depth == MAX_DEPTH)
        if is_indexed:
            assert read(notes, str(note)).text == "deep"
        else:
            with pytest.raises(PathNotAllowedError):
                read(notes, str(note))
