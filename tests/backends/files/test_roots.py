from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from backends.files.roots import MemoryRoots, Root, is_below
from config.settings import ExtraPath
from fakes.each import each

WORKSPACE = Path("/home/user/workspace")
ROOTS = MemoryRoots(WORKSPACE)


def extra_of(path, pattern=None):
    return MemoryRoots(WORKSPACE, (ExtraPath(path=Path(path), pattern=pattern, raw=path),))


def names_of(roots, path):
    return [location.path for location in roots.locate(path)]


@each(
    ("path", "name"),
    [
        ("MEMORY.md", "MEMORY.md"),
        ("memory.md", "memory.md"),
        ("USER.md", "USER.md"),
        ("  memory/a.md\n", "memory/a.md"),
        ("memory/deep/er/a.md", "memory/deep/er/a.md"),
        ("memory/.hidden/a.md", "memory/.hidden/a.md"),
        ("./memory//a.md", "memory/a.md"),
        ("memory/../MEMORY.md", "MEMORY.md"),
        ("memory\\deep\\a.md", "memory/deep/a.md"),
        ("/home/user/workspace/memory/a.md", "memory/a.md"),
        ("//home/user/workspace/MEMORY.md", "MEMORY.md"),
        ("memory/.md", "memory/.md"),
    ],
)
def test_memory_is_found_under_every_spelling(path, name):
    assert names_of(ROOTS, path) == [name]


@each(
    "path",
    [
        "",
        "   ",
        ".",
        "memory",
        "memory/",
        "memory.md/a.md",
        "MEMORY.md/a.md",
        "Memory.md",
        "user.md",
        "memory/../users/USER.md",
        "memories/a.md",
        ".memory/a.md",
        ".MEMORY.md",
        "..memory/a.md",
        "/memory/a.md",
        "notes.md",
        "memory/a.MD",
        "memory/a.txt",
        "memory/../secret.md",
        "memory/../../secret.md",
        "memory\\..\\..\\secret.md",
        "../workspace-of-another/MEMORY.md",
        "/etc/passwd.md",
        "~/workspace/MEMORY.md",
        "memory/a\0.md",
        "memory/\udcff.md",
    ],
)
def test_nothing_else_is_permitted(path):
    assert names_of(ROOTS, path) == []


def test_a_backslash_may_be_part_of_a_name_and_is_tried_so_first():
    assert names_of(ROOTS, "memory/a\\b.md") == ["memory/a\\b.md", "memory/a/b.md"]


def test_an_extra_directory_permits_what_is_below_it():
    roots = extra_of("/home/user/vault")
    assert names_of(roots, "../vault/deep/a.md") == ["../vault/deep/a.md"]
    assert names_of(roots, "/home/user/vault/a.md") == ["../vault/a.md"]
    assert names_of(roots, "../vault-of-another/a.md") == []
    assert names_of(roots, "../vault/../secret.md") == []


def test_the_pattern_of_an_extra_directory_narrows_it():
    roots = extra_of("/home/user/vault", "daily/*.md")
    assert names_of(roots, "../vault/daily/a.md") == ["../vault/daily/a.md"]
    assert names_of(roots, "../vault/private/a.md") == []


def test_an_extra_file_permits_itself_only():
    roots = extra_of("/home/user/todo.md")
    assert names_of(roots, "../todo.md") == ["../todo.md"]
    assert names_of(roots, "../todo.markdown") == []
    assert names_of(extra_of("/home/user/todo.md", "daily-*.md"), "../todo.md") == []


def test_an_extra_path_inside_the_workspace_trusts_nothing_below_the_workspace():
    (location,) = extra_of("/home/user/workspace/notes/deep").locate("notes/deep/a.md")
    assert location.anchor == "/home/user/workspace"
    assert location.names == ("notes", "deep", "a.md")


def test_an_extra_path_outside_trusts_its_parent_and_no_more():
    (location,) = extra_of("/home/user/vault").locate("../vault/a.md")
    assert location.anchor == "/home/user"
    assert location.names == ("vault", "a.md")


def test_the_workspace_itself_and_the_root_of_the_disk_may_be_extra_paths():
    assert names_of(extra_of("/home/user/workspace"), "notes/a.md") == ["notes/a.md"]
    assert names_of(extra_of("/"), "/etc/a.md") == ["../../../etc/a.md"]


def test_a_root_of_its_own_can_be_made_for_another_backend():
    root = Root.at(Path("/data/collection"), pattern="**/*.md")
    assert root.permits("/data/collection/a.md")
    assert not root.permits("/data/other.md")
    location = root.location("/data/collection/x/a.md", "qmd/collection/x/a.md")
    assert location.path == "qmd/collection/x/a.md"
    assert location.names == ("collection", "x", "a.md")


PARTS = st.sampled_from(
    ["..", ".", "", "memory", "MEMORY.md", "a.md", "vault", "a\\b.md", "\\", " ", "é.md"]
)


@given(st.lists(PARTS, max_size=8))
def test_every_located_file_lies_below_a_root_without_dots_in_its_way(parts):
    roots = extra_of("/home/user/vault")
    for location in roots.locate("/".join(parts)):
        assert not {"", ".", ".."} & set(location.names)
        assert location.anchor in {"/home/user", "/home/user/workspace"}
        assert location.names[0] in {"vault", "memory", "MEMORY.md", "memory.md"}


@given(st.lists(PARTS, max_size=8))
def test_an_index_path_leads_back_to_its_place(parts):
    absolute = ROOTS.absolute("/".join(parts))
    assert ROOTS.absolute(ROOTS.index_path(absolute)) == absolute


def test_a_relative_workspace_is_taken_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert MemoryRoots(Path("workspace")).base == str(tmp_path / "workspace")


def test_below_means_whole_names():
    assert is_below("/a/b", "/a")
    assert is_below("/a", "/a")
    assert is_below("/a", "/")
    assert not is_below("/ab", "/a")
