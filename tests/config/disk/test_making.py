"""Directories that belong to the user alone, under any umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from backends.interface import IndexUnavailableError
from config.runtime.files import (
    Denial,
    denial_of,
    give_to_owner,
    make_directories,
    name_of_user,
    open_lock,
    replace_file,
    try_lock_file,
)
from gateway.ownership.owner import OwnerLock


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_no_parent_is_made_more_open_than_the_directory(tmp_path, umask, mask):
    umask(mask)
    make_directories(tmp_path / "a/b/c")
    assert {mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")} == {0o700}


def test_what_exists_keeps_its_mode(tmp_path):
    (tmp_path / "a").mkdir(mode=0o755)
    make_directories(tmp_path / "a/b")
    make_directories(tmp_path / "a/b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == (0o755, 0o700)


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(OSError, match="file"):
            make_directories(tmp_path / path)


@pytest.fixture
def of_somebody(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root makes files for others")
    os.chown(tmp_path, 65534, 65534)
    return tmp_path


def test_what_root_makes_for_somebody_else_is_theirs(of_somebody):
    make_directories(of_somebody / "a/b")
    lock = try_lock_file(of_somebody / "a/b/lock")
    os.close(lock)
    replace_file(of_somebody / "a/record", b"{}")
    owners = {path.stat().st_uid for path in of_somebody.rglob("*")}
    assert owners == {65534}


def test_another_name_of_a_file_of_root_s_is_not_given_away(of_somebody, tmp_path_factory):
    secret = tmp_path_factory.mktemp("root") / "secret"
    secret.touch()
    (of_somebody / "lock").hardlink_to(secret)
    os.close(open_lock(of_somebody / "lock"))
    with (of_somebody / "lock").open("rb") as file:
        give_to_owner(file.fileno(), of_somebody)
    assert secret.stat().st_uid == 0


def test_who_owns_what_cannot_be_written_is_said_with_the_remedy(tmp_path, unprivileged):
    if os.geteuid() != 0:
        pytest.skip("only root makes files for others")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == 0 and parent.name.startswith(("pytest", "popen")):
            parent.chmod(0o755)
    (tmp_path / "memory").mkdir(mode=0o755)
    with unprivileged(), pytest.raises(IndexUnavailableError) as refused:
        OwnerLock.acquire(tmp_path / "memory/index.lock")
    assert "belongs to user root" in refused.value.message
    remedy = refused.value.remedy
    assert remedy.startswith("Name another place: --state-dir")
    assert remedy.endswith(f"have root permit it, or run `sudo chown nobody {tmp_path}/memory`.")


NOBODY = name_of_user(65534)


def denial(place, **more):
    known = {"is_own": False, "is_on_the_way": False, "is_open": False, "to_make": None}
    return Denial(place, "root", 0o755, **(known | more))


def test_nobody_is_told_to_take_the_root_of_the_file_system_or_a_directory_of_it_from_its_owner():
    assert denial("/").remedy == denial("/srv").remedy == "have root permit it"


def test_for_a_directory_that_is_missing_its_owner_is_to_make_it_and_keeps_the_one_above(
    unprivileged,
):
    if os.geteuid() != 0:
        pytest.skip("only root makes files for others")
    with unprivileged():
        found = denial_of(Path("/nonexistent/.local/index.sqlite"), os.R_OK | os.W_OK)
        assert found.place == "/"
        assert found.remedy == f"have root make /nonexistent for {NOBODY}"


def test_what_owner_and_mode_permit_already_is_forbidden_by_something_else(tmp_path, monkeypatch):
    note = tmp_path / "a note.md"
    note.touch(mode=0o600)
    monkeypatch.setattr(os, "access", lambda path, *_, **__: Path(path) != note)
    monkeypatch.setattr(os, "supports_effective_ids", {os.access})
    assert "immutable flag (`lsattr -d" in denial_of(note, os.R_OK | os.W_OK).remedy
    note.chmod(0o400)
    assert denial_of(note, os.R_OK | os.W_OK).remedy == f"chmod u+rwX '{note}'"


def test_nothing_keeps_anybody_from_the_root_of_the_file_system():
    assert denial_of(Path("/")) is None
