"""The collections that are wanted, their names, and the files that they permit."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from backends.qmd.collections import plan_collections, sanitise
from config.settings import QmdPath
from fakes.each import each
from fakes.settings import make_settings

ROOT = Path("/home/agent")


def plan(*paths: QmdPath, files: tuple[str, ...] = (), default: bool = True):
    made = make_settings(ROOT)
    qmd = msgspec.structs.replace(made.qmd, paths=paths, include_default_memory=default)
    settings = msgspec.structs.replace(made, qmd=qmd)
    return plan_collections(settings, is_file=lambda path: str(path) in files)


def test_the_default_memory_has_the_documented_names():
    assert [(one.name, str(one.path), one.pattern) for one in plan()] == [
        ("memory-root", "/home/agent/workspace", "MEMORY.md"),
        ("memory-alt", "/home/agent/workspace", "memory.md"),
        ("memory-user", "/home/agent/workspace", "USER.md"),
        ("memory-dir", "/home/agent/workspace/memory", "**/*.md"),
    ]


def test_the_default_memory_can_be_left_out():
    assert plan(default=False) == ()


@each(
    ("name", "safe"),
    [("My Notes!", "my-notes"), ("---", "collection"), ("été", "t"), ("memory-dir", "memory-dir")],
)
def test_names_are_made_safe(name, safe):
    assert sanitise(name) == safe


def test_equal_names_get_numbers_and_equal_places_are_one():
    planned = plan(
        QmdPath(path=Path("/a"), name="Notes"),
        QmdPath(path=Path("/b"), name="notes"),
        QmdPath(path=Path("/a"), name="again"),
        default=False,
    )
    assert [(one.name, str(one.path)) for one in planned] == [("notes", "/a"), ("notes-2", "/b")]


def test_a_single_file_is_its_directory_and_its_literal_name():
    planned = plan(
        QmdPath(path=Path("/a/[x] y.md"), name="one"), files=("/a/[x] y.md",), default=False
    )
    assert (str(planned[0].path), planned[0].pattern) == ("/a", "\\[x\\] y.md")
    assert planned[0].root.permits("/a/[x] y.md")
    assert not planned[0].root.permits("/a/x.md")


def test_only_markdown_inside_root_and_pattern_is_permitted():
    (one,) = plan(QmdPath(path=Path("/a"), name="n", pattern="log/*.md,top.md"), default=False)
    assert one.root.permits("/a/log/x.md")
    assert one.root.permits("/a/top.md")
    for path in ("/a/x.md", "/a/log/deep/x.md", "/b/log/x.md", "/a/log/x.txt", "/a"):
        assert not one.root.permits(path)


def test_inside_the_workspace_only_the_workspace_is_trusted():
    (one,) = plan(QmdPath(path=ROOT / "workspace/deep/notes", name="n"), default=False)
    assert (one.root.anchor, one.root.names) == ("/home/agent/workspace", ("deep", "notes"))


@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["/a", "/b", "/c"])), max_size=6))
def test_names_are_always_unique_and_safe(wishes):
    planned = plan(*(QmdPath(path=Path(path), name=name) for name, path in wishes))
    names = [one.name for one in planned]
    assert len(set(names)) == len(names)
    assert all(name == sanitise(name) for name in names)
