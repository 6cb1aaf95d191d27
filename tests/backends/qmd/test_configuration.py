"""QMD's configuration: what is ours in it changes, everything else stays."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.qmd.collections import plan_collections
from backends.qmd.configuration import (
    Binding,
    Ledger,
    read_document,
    read_ledger,
    reconcile,
    write_document,
    write_ledger,
)
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.yaml import UnknownYamlError, parse
from config.settings import QmdPath
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


def test_what_qmd_writes_is_understood_whole():
    assert parse(WRITTEN_BY_QMD) == {
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


@pytest.mark.parametrize(
    "text",
    [
        "a: >-\n  folded\n  text\n",
        "a: |\n  block\n",
        "a: &anchor b\n",
        "a: *alias\n",
        "a: {b: c}\n",
        "a: [b, c]\n",
        "a: !tag b\n",
        "a: b\n   c: d\n",
        "- - nested\n",
        "- a: b\n",
        "a: plain\n  continued\n",
        "a: 1\na: 2\n",
        "just text\n",
        '{"broken": ',
        'a: "open\n',
    ],
)
def test_what_is_not_surely_understood_is_refused(text):
    with pytest.raises(UnknownYamlError):
        parse(text)


def test_foreign_collections_contexts_and_models_stay():
    document = parse(WRITTEN_BY_QMD)
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
    ledger = Ledger("2.8.3", {"notes": Binding("/old", "**/*.md")})
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
    ledger = Ledger("2.8.3", {"gone": Binding("/a", "x"), "rebound": Binding("/b", "x")})
    assert reconcile(document, ledger, (), {}, {}).dropped == ("gone",)


def test_a_document_that_is_no_configuration_is_refused():
    for document in ({"collections": [1]}, {"collections": {"a": "b"}}, {"models": [1]}):
        with pytest.raises(UnknownYamlError):
            reconcile(document, Ledger(), (), {}, {})


def test_files_are_written_only_when_something_differs(tmp_path):
    path = tmp_path / "index.yml"
    document = {"collections": {"ü": {"path": "/ü", "pattern": "**/*.md"}}}
    assert read_document(path) == {}
    assert write_document(path, document)
    assert not write_document(path, document)
    assert read_document(path) == document
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["index.yml"]


def test_a_file_that_is_not_understood_is_not_overwritten(tmp_path):
    path = tmp_path / "index.yml"
    path.write_text("a: >-\n  folded\n", encoding="utf-8")
    with pytest.raises(QmdUnavailableError):
        write_document(path, {})
    assert path.read_text(encoding="utf-8") == "a: >-\n  folded\n"


def test_a_lost_or_broken_ledger_owns_nothing(tmp_path):
    path = tmp_path / "gateway.json"
    assert read_ledger(path) == Ledger()
    ledger = Ledger("2.8.3", {"a": Binding("/a", "x")})
    write_ledger(path, ledger)
    assert read_ledger(path) == ledger
    path.write_text("{", encoding="utf-8")
    assert read_ledger(path) == Ledger()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_what_we_write_reads_back_the_same(document):
    assert parse(json.dumps(document, indent=1, ensure_ascii=False)) == document


@settings(derandomize=True, max_examples=500, deadline=None)
@given(st.text(alphabet="ab: -\n\"'#{}[],|>&*!1~", max_size=40))
def test_any_text_is_read_or_refused(text):
    with suppress(UnknownYamlError):
        parse(text)
