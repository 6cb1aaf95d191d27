"""QMD's configuration: our part of it changes, everything else stays."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from backends.qmd.collections import plan_collections
from backends.qmd.process import QmdUnavailableError
from backends.qmd.sidecar import (
    Binding,
    Ledger,
    open_sidecar,
    read_document,
    read_ledger,
    reconcile,
    register,
    write_ledger,
)
from config.settings import QmdPath
from fakes.qmd import qmd_settings, wrapper, write
from fakes.settings import make_settings

WRITTEN_BY_QMD = """\
collections:
  memory-dir:
    path: /w/memory
    pattern: "**/*.md"
    context:
      /: what the agent noted
      /old: "a \\"quoted\\" word: two"
  mine:
    path: /home/me/my notes
    pattern: '*.md'
    ignore:
      - drafts/**
      - "#x"
    includeByDefault: false
models:
  embed: hf:ggml-org/embed/embed.gguf
global_context: ""
"""


def planned(*paths: QmdPath):
    made = make_settings(Path("/base"))
    qmd = msgspec.structs.replace(made.qmd, paths=paths, include_default_memory=False)
    return plan_collections(msgspec.structs.replace(made, qmd=qmd), is_file=lambda _: False)


UNDERSTOOD = {
    "collections": {
        "memory-dir": {
            "path": "/w/memory",
            "pattern": "**/*.md",
            "context": {"/": "what the agent noted", "/old": 'a "quoted" word: two'},
        },
        "mine": {
            "path": "/home/me/my notes",
            "pattern": "*.md",
            "ignore": ["drafts/**", "#x"],
            "includeByDefault": False,
        },
    },
    "models": {"embed": "hf:ggml-org/embed/embed.gguf"},
    "global_context": "",
}


@pytest.fixture
async def sidecar(tmp_path, environment, qmd_command, anyio_backend):
    return await open_sidecar(qmd_settings(tmp_path, qmd_command), environment)


@pytest.mark.anyio
async def test_what_qmd_writes_is_read_by_its_own_parser(sidecar):
    write(sidecar.home.config_file, WRITTEN_BY_QMD)
    assert await read_document(sidecar, timeout_s=60) == UNDERSTOOD


@pytest.mark.anyio
async def test_no_file_is_an_empty_configuration(sidecar):
    assert await read_document(sidecar, timeout_s=60) == {}


@pytest.mark.anyio
@pytest.mark.parametrize("text", ['{"broken": ', "a: [b\n", "just text\n", "[1]\n", "1", "\xff"])
async def test_a_file_that_is_not_understood_is_not_overwritten(text, sidecar):
    file = sidecar.home.config_file
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(QmdUnavailableError) as caught:
        await register(sidecar, planned(), timeout_s=60)
    assert caught.value.cause == "broken"
    assert str(file) in caught.value.message
    assert file.read_bytes() == text.encode("latin-1")


@pytest.mark.anyio
async def test_without_qmds_own_parser_its_yaml_is_left_alone_and_the_remedy_is_told(
    tmp_path, environment, qmd_command
):
    settings = qmd_settings(tmp_path, wrapper(tmp_path / "bin/qmd", qmd_command))
    sidecar = await open_sidecar(settings, environment)
    write(sidecar.home.config_file, WRITTEN_BY_QMD)
    with pytest.raises(QmdUnavailableError, match="written by a QMD command as YAML") as caught:
        await register(sidecar, planned(), timeout_s=60)
    assert "launcher that npm installed" in (caught.value.remedy or "")
    assert sidecar.home.config_file.read_text(encoding="utf-8") == WRITTEN_BY_QMD


@pytest.mark.anyio
async def test_what_others_wrote_survives_and_the_file_becomes_json(sidecar):
    file = sidecar.home.config_file
    write(file, WRITTEN_BY_QMD)
    wanted = planned(QmdPath(path=Path("/ü"), name="notes"))
    registered = await register(sidecar, wanted, timeout_s=60)
    assert (registered.names, registered.issues) == ({"notes"}, ())
    assert registered.models["embed"] == "hf:ggml-org/embed/embed.gguf"
    document = json.loads(file.read_bytes())
    assert document["collections"] == {
        **UNDERSTOOD["collections"],
        "notes": {"path": "/ü", "pattern": "**/*.md"},
    }
    assert document["models"]["embed"] == "hf:ggml-org/embed/embed.gguf"
    assert document["global_context"] == ""
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.stat()
    await register(sidecar, wanted, timeout_s=60)
    assert file.stat().st_ino == before.st_ino, "written again without a change"


@pytest.mark.anyio
async def test_what_is_not_wanted_any_more_is_removed_through_qmd_and_nothing_else(sidecar, notes):
    wanted = planned(QmdPath(path=notes, name="notes"), QmdPath(path=notes / "memory", name="old"))
    await register(sidecar, wanted, timeout_s=60)
    adding = ("collection", "add", str(notes.parent), "--name", "mine")
    assert (await sidecar.run(*adding, timeout_s=60)).returncode == 0
    registered = await register(sidecar, wanted[:1], timeout_s=60)
    assert registered.names == {"notes"}
    document = await read_document(sidecar, timeout_s=60)
    assert set(document["collections"]) == {"notes", "mine"}
    assert read_ledger(sidecar.home.ledger).collections.keys() == {"notes"}


@pytest.mark.anyio
async def test_qmd_itself_leaves_the_file_as_it_was_written(sidecar, notes):
    await register(sidecar, planned(QmdPath(path=notes, name="notes")), timeout_s=60)
    written = sidecar.home.config_file.read_bytes()
    for command in ("update", "status", "cleanup"):
        await sidecar.change(command, timeout_s=60)
    assert sidecar.home.config_file.read_bytes() == written


def test_foreign_collections_contexts_and_models_stay():
    document = UNDERSTOOD
    wanted = planned(QmdPath(path=Path("/n"), name="notes"))
    done = reconcile(document, Ledger(), wanted, {"embed": "ours", "rerank": "r"}, {})
    assert done.document["collections"]["mine"] == document["collections"]["mine"]
    assert done.document["collections"]["memory-dir"] == document["collections"]["memory-dir"]
    assert done.document["models"] == {"embed": "hf:ggml-org/embed/embed.gguf", "rerank": "r"}
    assert (done.dropped, done.conflicts) == ((), ())


def test_a_model_that_the_operator_names_wins_over_the_file():
    done = reconcile({"models": {"embed": "old"}}, Ledger(), (), {}, {"embed": "/new.gguf"})
    assert done.document["models"] == {"embed": "/new.gguf"}


def test_our_own_collection_is_bound_anew_and_keeps_its_context():
    entry = {"path": "/old", "pattern": "**/*.md", "context": {"/": "kept"}}
    ledger = Ledger({"notes": Binding("/old", "**/*.md")})
    wanted = planned(QmdPath(path=Path("/new"), name="notes"))
    done = reconcile({"collections": {"notes": entry}}, ledger, wanted, {}, {})
    assert done.document["collections"]["notes"] == {**entry, "path": "/new"}
    assert done.ours == {"notes": Binding("/new", "**/*.md")}


def test_a_name_that_somebody_else_uses_is_left_alone():
    entry = {"path": "/theirs", "pattern": "*.md"}
    wanted = planned(QmdPath(path=Path("/n"), name="notes"))
    done = reconcile({"collections": {"notes": entry}}, Ledger(), wanted, {}, {})
    assert done.conflicts == ("notes",)
    assert done.ours == {}
    assert done.document["collections"]["notes"] == entry


def test_only_what_is_certainly_ours_is_dropped():
    document = {
        "collections": {
            "gone": {"path": "/a", "pattern": "x"},
            "rebound": {"path": "/elsewhere", "pattern": "x"},
            "foreign": {"path": "/c", "pattern": "x"},
        }
    }
    ledger = Ledger({"gone": Binding("/a", "x"), "rebound": Binding("/b", "x")})
    assert reconcile(document, ledger, (), {}, {}).dropped == ("gone",)


def test_a_document_that_is_no_configuration_is_refused():
    for document in ({"collections": [1]}, {"collections": {"a": "b"}}, {"models": [1]}):
        with pytest.raises(QmdUnavailableError, match="not mappings"):
            reconcile(document, Ledger(), (), {}, {})


def test_a_lost_or_broken_ledger_owns_nothing(tmp_path):
    path = tmp_path / "gateway.json"
    assert read_ledger(path) == Ledger()
    ledger = Ledger({"a": Binding("/a", "x")})
    write_ledger(path, ledger)
    assert read_ledger(path) == ledger
    path.write_text('{"version": "2.5.3", "collections": {}}', encoding="utf-8")
    assert read_ledger(path) == Ledger(), "that of an earlier release"
    path.write_text("{", encoding="utf-8")
    assert read_ledger(path) == Ledger()
