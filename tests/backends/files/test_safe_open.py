import os
import socket
import stat

import pytest

from backends.files.roots import Location
from backends.files.safe_open import (
    BEHIND_LINK,
    IS_LINK,
    NOT_REGULAR,
    RefusedFileError,
    fault_of,
    listing,
    opened,
    walked,
)
from backends.interface import FileUnreadableError, PathNotAllowedError


def read(anchor, *names):
    with opened(Location(path="/".join(names), anchor=str(anchor), names=names)) as descriptor:
        return os.read(descriptor, 100)


def reason_for(anchor, *names):
    with pytest.raises(RefusedFileError) as caught:
        read(anchor, *names)
    assert str(caught.value) == str(PathNotAllowedError("/".join(names)))
    return caught.value.reason


def test_a_regular_file_is_opened_at_its_beginning(workspace, write):
    write(workspace / "memory/a.md", "text")
    assert read(workspace, "memory", "a.md") == b"text"


def test_a_descriptor_is_not_inherited_by_children(workspace, write):
    write(workspace / "a.md")
    with opened(Location("a.md", str(workspace), ("a.md",))) as descriptor:
        assert not os.get_inheritable(descriptor)


def test_nothing_there_is_a_missing_file(workspace):
    for names in (("a.md",), ("memory", "a.md"), ("n" * 300 + ".md",)):
        with pytest.raises(FileNotFoundError):
            read(workspace, *names)


def test_a_missing_anchor_is_a_missing_file(workspace, write):
    write(workspace / "plain")
    for anchor in (workspace / "none", workspace / "plain"):
        with pytest.raises(FileNotFoundError):
            read(anchor, "a.md")


def test_the_anchor_may_be_a_link(tmp_path, workspace, write):
    write(workspace / "a.md", "text")
    (tmp_path / "link").symlink_to(workspace)
    assert read(tmp_path / "link", "a.md") == b"text"


def test_a_link_is_refused_wherever_it_leads(tmp_path, workspace, write):
    write(tmp_path / "secret.md")
    write(workspace / "inside.md")
    for name, target in {
        "out.md": tmp_path / "secret.md",
        "in.md": workspace / "inside.md",
        "dangling.md": tmp_path / "none.md",
        "loop.md": workspace / "loop.md",
    }.items():
        (workspace / name).symlink_to(target)
        assert reason_for(workspace, name) == IS_LINK


def test_a_directory_behind_a_link_is_refused(tmp_path, workspace, write):
    write(tmp_path / "outside/deep/secret.md")
    (workspace / "linked").symlink_to(tmp_path / "outside")
    (workspace / "loop").symlink_to(workspace / "loop")
    assert reason_for(workspace, "linked", "deep", "secret.md") == BEHIND_LINK
    assert reason_for(workspace, "linked", "none.md") == BEHIND_LINK
    assert reason_for(workspace, "loop", "a.md") == BEHIND_LINK


def test_a_directory_is_listed_only_if_it_is_one(workspace, write):
    write(workspace / "memory/a.md")
    (workspace / "link").symlink_to(workspace / "memory")
    with walked(str(workspace), ()) as parent:
        with listing("memory", parent) as descriptor:
            assert [entry.name for entry in os.scandir(descriptor)] == ["a.md"]
        for name in ("link", "memory/a.md"):
            with pytest.raises(OSError) as caught, listing(name, parent):
                pass
            assert fault_of(caught.value) == "refused"


def test_below_a_file_nothing_is_found(workspace, write):
    write(workspace / "a.md")
    assert reason_for(workspace, "a.md", "b.md") == BEHIND_LINK


def test_a_directory_and_a_fifo_and_a_socket_are_refused_without_waiting(workspace, monkeypatch):
    (workspace / "directory.md").mkdir()
    os.mkfifo(workspace / "fifo.md")
    monkeypatch.chdir(workspace)  # the path of a socket is limited
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.md")
        for name in ("directory.md", "fifo.md", "socket.md"):
            assert reason_for(workspace, name) == NOT_REGULAR


def test_a_device_is_refused(workspace):
    device = workspace / "device.md"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make a device node")
    assert reason_for(workspace, "device.md") == NOT_REGULAR


def test_a_file_without_permission_is_unreadable_with_a_remedy(
    public_workspace, write, unprivileged
):
    write(public_workspace / "a.md").chmod(0)
    with (
        unprivileged(),
        pytest.raises(
            FileUnreadableError, match=r"Permission denied: .*a\.md belongs to user .*Give the user"
        ),
    ):
        read(public_workspace, "a.md")


def test_a_directory_without_permission_makes_its_files_unreadable(
    public_workspace, write, unprivileged
):
    write(public_workspace / "memory/a.md")
    (public_workspace / "memory").chmod(0)
    with unprivileged(), pytest.raises(FileUnreadableError):
        read(public_workspace, "memory", "a.md")
    with unprivileged(), pytest.raises(FileUnreadableError):
        read(public_workspace / "memory" / "deep", "a.md")


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="needs O_PATH")
def test_a_directory_that_may_only_be_searched_is_passed_through(
    public_workspace, write, unprivileged
):
    write(public_workspace / "memory/a.md", "text")
    (public_workspace / "memory").chmod(0o111)
    with unprivileged():
        assert read(public_workspace, "memory", "a.md") == b"text"


def test_a_fault_while_reading_is_told_as_an_unreadable_file(workspace, write):
    write(workspace / "a.md")
    with (
        pytest.raises(FileUnreadableError, match="Bad file descriptor"),
        opened(Location("a.md", str(workspace), ("a.md",))) as descriptor,
    ):
        os.write(descriptor, b"not opened for writing")
