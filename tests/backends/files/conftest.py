"""A real workspace on disk, and a check of descriptors for every test."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.files.roots import MemoryRoots
from config.settings import ExtraPath


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open():
    before = sorted(Path("/dev/fd").iterdir())
    yield
    assert sorted(Path("/dev/fd").iterdir()) == before


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace; files beside it are outside."""
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def write():
    """Writes text or bytes to a file and makes its directories."""

    def write_file(path: Path, content: str | bytes = "# Note\n") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def roots_of():
    """Roots of a workspace and extra paths, each a path or a pair of path and pattern."""

    def make(workspace: Path, *extras: Path | tuple[Path, str]) -> MemoryRoots:
        pairs = [extra if isinstance(extra, tuple) else (extra, None) for extra in extras]
        return MemoryRoots(
            workspace,
            tuple(ExtraPath(path=path, pattern=pattern, raw=str(path)) for path, pattern in pairs),
        )

    return make


@pytest.fixture
def public_workspace() -> Iterator[Path]:
    """A workspace that another user can reach, unlike pytest's own temporary directories."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    path = base / "workspace"
    path.mkdir()
    yield path
    for directory, _, _ in os.walk(base):
        Path(directory).chmod(0o755)
    shutil.rmtree(base)
