"""Between QMD's names and real files."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from backends.files.scan import scan
from backends.interface import PathNotAllowedError, ReadRequest
from backends.qmd.collections import CollectionPlaces, Exports, plan_collections
from backends.transcripts.agent_transcripts import AgentTranscripts
from config.settings import QmdPath, QmdSessionsSettings
from fakes.qmd import qmd_settings, write
from fakes.transcripts import Transcript


@pytest.fixture
def places(tmp_path: Path, notes: Path) -> CollectionPlaces:
    write(tmp_path / "shelf/My File (draft) v1.2.md", "first\n")
    write(tmp_path / "shelf/no_title.md", "second\n")
    paths = (
        QmdPath(path=tmp_path / "shelf", name="shelf"),
        QmdPath(path=notes / "projects", name="projects"),
    )
    settings = qmd_settings(tmp_path, "qmd", paths=paths)
    exports = Exports(AgentTranscripts.of(settings), settings.qmd.sessions, tmp_path / "exports")
    return CollectionPlaces(settings, plan_collections(settings), exports)


def test_inside_the_workspace_files_have_their_usual_names(places, notes):
    write(notes / "projects/server.md", "Moved.\n")
    assert places.locate("projects", "server.md").path == "projects/server.md"
    assert places.read(ReadRequest(path="projects/server.md")).text == "Moved.\n"
    assert places.read(ReadRequest(path="qmd/projects/server.md")).path == "projects/server.md"


def test_names_of_the_builtin_index_are_translated(places):
    assert places.shown_path("../shelf/no_title.md") == "qmd/shelf/no_title.md"
    assert places.shown_path("../elsewhere/x.md") == "../elsewhere/x.md"
    assert places.shown_path("memory/x.md") == "memory/x.md"


@pytest.mark.parametrize(
    ("collection", "path"),
    [
        ("shelf", "../workspace/MEMORY.md"),
        ("shelf", "/etc/passwd.md"),
        ("shelf", "x\0.md"),
        ("unknown", "x.md"),
        ("memory-root", "other.md"),
    ],
)
def test_nothing_outside_root_and_pattern_is_located(places, collection, path):
    assert places.locate(collection, path) is None


def test_links_are_not_followed(places, tmp_path):
    write(tmp_path / "outside.md", "hidden\n")
    (tmp_path / "shelf/link.md").symlink_to(tmp_path / "outside.md")
    with pytest.raises(PathNotAllowedError):
        places.read(ReadRequest(path="qmd/shelf/link.md"))


def test_a_missing_file_of_a_collection_is_not_found(places):
    assert places.read(ReadRequest(path="qmd/shelf/missing.md")).status == "not_found"


def test_what_qmd_never_looks_at_is_not_waited_for(places, tmp_path):
    for name in ("a/.hidden/x.md", "node_modules/x.md", "a/build/x.md", ".x.md", "builds/x.md"):
        write(tmp_path / "shelf" / name, "text\n")
    write(tmp_path / "shelf/empty.md", "")
    seen = places.seen_by_qmd(scan(places.roots).files)
    assert "qmd/shelf/builds/x.md" in seen
    assert {name for name in seen if name.endswith("x.md")} == {"qmd/shelf/builds/x.md"}
    assert "qmd/shelf/empty.md" not in seen


def test_an_export_is_read_by_the_name_that_tells_a_conversation_alone(tmp_path, notes):
    settings = qmd_settings(tmp_path, "qmd")
    Transcript(settings.sessions_dir, "talk").say("Where is the ladder?")
    sessions = QmdSessionsSettings(enabled=True, export_dir=tmp_path / "exports")
    settings = replace(settings, qmd=replace(settings.qmd, sessions=sessions))
    exports = Exports(AgentTranscripts.of(settings), sessions, tmp_path / "ledger")
    exports.refresh()
    places = CollectionPlaces(settings, plan_collections(settings), exports)
    assert "ladder" in places.read(ReadRequest(path="qmd/sessions/talk.md")).text
    for path in (f"{tmp_path}/exports/talk.md", "../exports/talk.md"):
        with pytest.raises(PathNotAllowedError):
            places.read(ReadRequest(path=path))
