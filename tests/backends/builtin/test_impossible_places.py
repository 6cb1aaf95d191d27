"""Places where no index can be: opening one there gives the reason and a remedy."""

import errno

import pytest

from backends.builtin.store.port import IndexDamagedError
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import IndexUnavailableError
from config.errors import ErrorKind


def test_a_place_that_cannot_be_made_is_a_typed_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(IndexUnavailableError) as caught:
        SqliteStore(tmp_path / "file" / "main.sqlite")
    assert caught.value.kind is ErrorKind.INDEX_UNAVAILABLE
    assert str(tmp_path) in caught.value.message
    assert "Errno" not in caught.value.message
    assert "--state-dir" in str(caught.value.remedy)
    assert not isinstance(caught.value, IndexDamagedError)


def test_a_name_that_is_too_long_is_a_typed_error(tmp_path):
    with pytest.raises(IndexUnavailableError) as caught:
        SqliteStore(tmp_path / ("x" * 400))
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_that_may_not_be_written_is_a_typed_error(public_home, unprivileged, exists):
    directory = public_home.root / "index"
    directory.mkdir()
    directory.chmod(0o777)
    with unprivileged():
        if exists:
            SqliteStore(directory / "main.sqlite").close()
    directory.chmod(0o555)
    with unprivileged(), pytest.raises(IndexUnavailableError) as caught:
        SqliteStore(directory / "main.sqlite")
    assert caught.value.remedy
    assert not isinstance(caught.value, IndexDamagedError)
    assert [file.suffix for file in directory.iterdir()] == ([".sqlite"] if exists else [])
