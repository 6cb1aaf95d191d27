"""A scan of a disk that refuses or changes meanwhile."""

import threading

import pytest

from backends.files.scan import scan
from fakes.descriptors import descriptors_left


@pytest.fixture
def few_descriptors():
    with descriptors_left(8):
        yield


def test_an_unreadable_directory_is_named_and_its_rows_are_kept(
    public_workspace, write, roots_of, unprivileged
):
    write(public_workspace / "memory/open/a.md")
    write(public_workspace / "memory/closed/deep/b.md")
    (public_workspace / "memory/closed").chmod(0)
    with unprivileged():
        result = scan(roots_of(public_workspace))
    assert [file.path for file in result.files] == ["memory/open/a.md"]
    assert [failed.path for failed in result.failed_dirs] == ["memory/closed"]
    assert not result.failed_dirs[0].may_pass
    assert result.failed_dirs[0].reason.startswith("Permission denied: ")
    assert "memory/closed belongs to user " in result.failed_dirs[0].reason
    assert result.keeps("memory/closed/deep/b.md")
    assert not result.keeps("memory/closed-too/b.md")
    assert not result.keeps("memory/open/gone.md")


def test_a_directory_that_may_be_listed_but_not_searched_keeps_its_rows(
    public_workspace, write, roots_of, unprivileged
):
    write(public_workspace / "memory/a.md")
    (public_workspace / "memory").chmod(0o444)
    with unprivileged():
        result = scan(roots_of(public_workspace))
    assert result.files == ()
    assert result.keeps("memory/a.md")


def test_an_unreadable_workspace_keeps_every_row_and_is_not_missing(
    public_workspace, write, roots_of, unprivileged
):
    write(public_workspace / "memory/a.md")
    public_workspace.chmod(0)
    with unprivileged():
        result = scan(roots_of(public_workspace, public_workspace / "notes"))
    assert result.missing == ()
    for path in ("MEMORY.md", "memory.md", "memory/a.md", "notes/b.md"):
        assert result.keeps(path)
    assert not result.keeps("../vault/a.md")


def test_an_unreadable_extra_directory_keeps_the_rows_below_it_by_every_name(
    public_workspace, roots_of, unprivileged
):
    parent = public_workspace.parent
    with unprivileged():
        parent_is_open = not scan(roots_of(public_workspace, parent)).keeps("notes/a.md")
    parent.chmod(0o711)
    with unprivileged():
        result = scan(roots_of(public_workspace, parent))
    assert parent_is_open
    assert result.keeps("notes/a.md")
    assert result.keeps("../vault/a.md")


def test_running_out_of_descriptors_fails_directories_and_deletes_nothing(
    workspace, write, roots_of, few_descriptors
):
    deep = workspace / "memory" / "/".join("abcdefghijklmnop")
    write(deep / "far.md")
    write(workspace / "memory/near.md")
    result = scan(roots_of(workspace))
    assert [file.path for file in result.files] == ["memory/near.md"]
    assert result.failed_dirs[0].reason == "Too many open files"
    assert result.failed_dirs[0].may_pass
    assert result.keeps(str((deep / "far.md").relative_to(workspace)))


def test_what_vanishes_and_returns_during_scans_is_never_an_error(workspace, write, roots_of):
    write(workspace / "memory/stays.md")
    roots, done = roots_of(workspace), threading.Event()

    def churn() -> None:
        while not done.is_set():
            write(workspace / "memory/comes/and/goes.md").unlink()
            (workspace / "memory/comes/and").rmdir()
            (workspace / "memory/comes").rmdir()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        results = [scan(roots) for _ in range(300)]
    finally:
        done.set()
        thread.join(60)
    for result in results:
        assert result.failed_dirs == ()
        paths = {file.path for file in result.files}
        assert {"memory/stays.md"} <= paths <= {"memory/stays.md", "memory/comes/and/goes.md"}


def test_a_directory_that_turns_into_a_link_is_never_walked_through(
    tmp_path, workspace, write, roots_of
):
    write(tmp_path / "outside/deep/secret.md")
    write(workspace / "memory/sub/deep/note.md")
    sub, aside = workspace / "memory/sub", workspace / "aside"
    roots, done = roots_of(workspace), threading.Event()

    def swap() -> None:
        while not done.is_set():
            sub.rename(aside)
            sub.symlink_to(tmp_path / "outside")
            sub.unlink()
            aside.rename(sub)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = {file.path for _ in range(500) for file in scan(roots).files}
    finally:
        done.set()
        thread.join(60)
    assert seen <= {"memory/sub/deep/note.md"}
