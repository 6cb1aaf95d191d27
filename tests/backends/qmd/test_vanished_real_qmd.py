"""A place of notes that vanishes removes nothing from QMD's index, either."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from backends.builtin.backend import open_builtin
from backends.fallback import open_with_fallback
from backends.interface import FileUnreadableError, ReadRequest, SearchRequest, SyncRequest
from backends.qmd import backend as qmd_backend
from backends.qmd import engine
from config.settings import QmdPath
from fakes.qmd import qmd_settings, until, write

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("notes")]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    for module in (engine, qmd_backend):
        monkeypatch.setattr(module, "AWAY_PAUSE_S", 0.1)


@pytest.fixture
def settings(tmp_path, qmd_command):
    write(tmp_path / "extra/ladder.md", "# Ladder\n\n- The ladder is behind the shed.\n")
    paths = (QmdPath(path=tmp_path / "extra", name="extra", pattern="**/*.md"),)
    return qmd_settings(tmp_path, qmd_command, paths=paths)


async def answered_by(backend, who):
    async def ask():
        answer = await backend.search(SearchRequest(query="boiler"))
        return answer if answer.backend == who else None

    return await until(ask, f"{who} answers")


def documents(root):
    """Returns the number of QMD's documents: the rows of its index that are not deleted."""
    (index,) = root.rglob("index.sqlite")
    with closing(apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return db.execute("SELECT count(*) FROM documents WHERE active").get


@pytest.mark.parametrize("gone", ["workspace", "extra"])
async def test_while_a_place_is_away_qmd_keeps_its_documents_and_the_builtin_index_answers(
    tmp_path, environment, settings, gone
):
    place, moved = tmp_path / gone, tmp_path / "moved"
    async with open_with_fallback(settings, open_builtin, environment) as backend:
        await backend.sync(SyncRequest(reason="manual"))
        await answered_by(backend, "qmd")
        before = documents(tmp_path)
        assert before == 3
        place.rename(moved)
        answer = await answered_by(backend, "builtin")
        assert [hit.path for hit in answer.hits] == ["MEMORY.md"]
        assert f"{place} is missing" in answer.fallback.reason
        assert f"{place} is missing" in answer.stale.reason
        report = await backend.sync(SyncRequest(reason="manual"))
        assert "QMD is not updated" in report.error
        assert any("is missing" in one for one in await backend.weaknesses())
        assert any("is missing" in one for one in (await backend.status()).weaknesses)
        path = "MEMORY.md" if gone == "workspace" else "qmd/extra/ladder.md"
        with pytest.raises(FileUnreadableError, match="is missing"):
            await backend.read(ReadRequest(path=path))
        assert documents(tmp_path) == before
        moved.rename(place)
        answer = await answered_by(backend, "qmd")
        assert answer.stale is None
        assert (await backend.read(ReadRequest(path=path))).status == "ok"
        assert (await backend.read(ReadRequest(path="memory/none.md"))).status == "not_found"
    assert documents(tmp_path) == before


async def test_qmd_is_not_started_before_the_workspace_is_there(tmp_path, environment, settings):
    workspace, moved = tmp_path / "workspace", tmp_path / "moved"
    async with open_with_fallback(settings, open_builtin, environment) as backend:
        await backend.sync(SyncRequest(reason="manual"))
        await answered_by(backend, "qmd")
    before = documents(tmp_path)
    workspace.rename(moved)
    async with open_with_fallback(settings, open_builtin, environment, wait_s=60) as backend:
        answer = await answered_by(backend, "builtin")
        assert f"{workspace} is missing" in answer.stale.reason
        assert documents(tmp_path) == before
        moved.rename(workspace)
        assert (await answered_by(backend, "qmd")).stale is None
    assert documents(tmp_path) == before
