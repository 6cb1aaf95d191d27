"""The patterns of ignore files mean what they mean to git, and none of them takes long."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from backends.files.globs import MAX_ALTERNATIVES, Glob
from backends.files.ignoring import LONGEST, MAX_BYTES, MAX_PATTERNS, last_verdict, read_pattern
from backends.files.roots import MemoryRoots
from backends.files.scan import scan
from config.settings import ExtraPath
from fakes.each import each


def patterns_of(lines):
    return [one for one in map(read_pattern, lines) if one is not None]


def leaves_out(lines, path, *, is_directory=False):
    """Returns whether the patterns exclude a path, given its parents, as a walk asks."""
    patterns, names = patterns_of(lines), path.split("/")
    for depth in range(1, len(names) + 1):
        below = "/".join(names[:depth])
        if last_verdict(patterns, below, is_directory=is_directory or depth < len(names)):
            return True
    return False


@each(
    ("line", "matched", "others"),
    [
        ("b.md", ["b.md", "a/b.md"], ["ab.md", "b.md/c"][:1]),
        ("/b.md", ["b.md"], ["a/b.md"]),
        ("a/b.md", ["a/b.md"], ["c/a/b.md"]),
        ("*.md", ["b.md", "a/b.md", ".md"], ["b.mdx"]),
        ("a/*.md", ["a/b.md"], ["a/c/b.md"]),
        ("a/**/b.md", ["a/b.md", "a/x/b.md", "a/x/y/b.md"], ["b.md", "x/a/b.md"]),
        ("**/b.md", ["b.md", "a/x/b.md"], ["ab.md"]),
        ("a/**", ["a/b.md", "a/x/b.md"], ["ba/b.md"]),
        ("a**b", ["aXXb", "ab"], ["a/b"]),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
        ("[a-c]x", ["bx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["bx"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]-]x", ["]x", "-x"], ["ax"]),
        ("[[:digit:]_]x", ["7x", "_x"], ["ax"]),
        (r"[\]]x", ["]x"], ["\\x"]),
        (r"\*.md", ["*.md"], ["b.md"]),
        (r"\#x", ["#x"], ["x"]),
        (r"\!x", ["!x"], ["x"]),
        ("x   ", ["x"], ["x   "]),
        ("x\\ ", ["x "], ["x"]),
        ("[", [], ["["]),
        ("a//b", [], ["a/b"]),
        ("x\\", [], ["x", "x\\"]),
        ("# x", [], ["# x"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)  # fmt: skip
def test_a_pattern_matches_what_it_names_and_nothing_else(line, matched, others):
    assert [path for path in (*matched, *others) if leaves_out([line], path)] == matched


NAMES = st.text("ab.-]!\\ #*[", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = st.one_of(
    st.lists(
        st.sampled_from(
            ["a", "b", "*", "**", "?", "/", "[ab]", "[!a]", "[a-b]", "[]b]", "[[:alpha:]]",
             "[", "\\", ".", "-", "!", " ", "#", "\\*"]
        ), min_size=1, max_size=7,
    ).map("".join),
    st.text("ab*?/[]!^-\\: .", min_size=1, max_size=8),
)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    place = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", str(place)], check=True)
    return place


def git_ignores(repository: Path, lines: list[str], paths: list[str]) -> set[str]:
    (repository / ".gitignore").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"], cwd=repository, check=False,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
        input="".join(f"{path}\0" for path in paths).encode(), capture_output=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return {path for path in done.stdout.decode().split("\0") if path}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(LINES, min_size=1, max_size=3), st.lists(PATHS, min_size=1, max_size=40, unique=True)
)
def test_git_leaves_out_the_same_files(repository, lines, paths):
    assume(all(".git" not in path for path in paths))
    ours = {path for path in paths if leaves_out(lines, path)}
    assert ours == git_ignores(repository, lines, paths)


HOSTILE = [
    "*a*a*a7b",
    "*a" * 30 + "7b",
    "**/*a" * 9 + "/b",
    "[a-z]*" * 40 + "7",
    "?*" * 60 + "7",
    "**/" * 300 + "x",
    "a/**/" * 300 + "x",
    "*" * 2_000 + "7",
]


@each("line", HOSTILE)
def test_a_pattern_takes_time_that_grows_with_name_and_pattern_alone(line):
    """Processor time is measured; backtracking would take minutes to years."""
    patterns = patterns_of([line])
    started = time.process_time()
    for path in ("a" * 240 + ".md", "a/" * 60 + "a" * 200 + ".md"):
        for _ in range(5):
            assert not leaves_out([line], path)
            assert last_verdict(patterns, path, is_directory=False) is None
    assert time.process_time() - started < 2


@each("pattern", [*HOSTILE, "{" * 200 + "," * 800, "{a,b}" * 200, "{" + "," * 4_000 + "}"])
def test_so_does_a_glob_of_a_search_or_a_collection(pattern):
    started = time.process_time()
    assert not Glob(pattern).matches("a/" * 60 + "a" * 200 + ".md")
    assert time.process_time() - started < 2
    assert MAX_ALTERNATIVES == 64


@pytest.fixture
def folder(tmp_path, workspace, write):
    place = tmp_path / "extra"
    write(place / "a.md")
    roots = MemoryRoots(workspace, (ExtraPath(path=place, raw="extra"),))
    return place, lambda: [one for one in scan(roots).issues if "ignore" in one]


def test_forty_long_names_below_fifty_hostile_lines_are_listed_at_once(folder, write, workspace):
    place, _ = folder
    for number in range(40):
        write(place / f"{number:02}{'a' * 238}.md")
    write(place / ".gitignore", "*a*a*a7b\n" * 50)
    roots = MemoryRoots(workspace, (ExtraPath(path=place, raw="extra"),))
    started = time.process_time()
    assert len(scan(roots).files) == 41
    assert time.process_time() - started < 5


def test_rules_that_do_not_count_are_named_with_their_file(folder, write):
    place, issues = folder
    assert issues() == []
    write(place / ".gitignore", "a.txt\n" + "x" * (LONGEST + 1) + "\n")
    write(place / "deep/.memoryignore", "x\n" * (MAX_PATTERNS + 1))
    write(place / "large/.gitignore", "# nothing\n" * (MAX_BYTES // 10) + "abcdefgh\n")
    (place / "link").mkdir()
    (place / "link/.gitignore").symlink_to(place / ".gitignore")
    (place / "pipe").mkdir()
    os.mkfifo(place / "pipe/.gitignore")
    (place / "windows").mkdir()
    (place / "windows/.gitignore").write_bytes("secret.md\n".encode("utf-16"))
    found = "\n".join(issues())
    for words in (
        "extra/.gitignore: line 2 does not count: a pattern has more than 4,096 characters.",
        "extra/deep/.memoryignore: only its first 2,000 patterns count.",
        "extra/large/.gitignore: only its first 256 KiB count.",
        "extra/link/.gitignore: none of it counts: it is a link.",
        "extra/pipe/.gitignore: none of it counts: it is a pipe.",
        "extra/windows/.gitignore: none of it counts: it is in UTF-16, save it as UTF-8.",
    ):
        assert words in found
    assert len(issues()) == 6


def test_half_of_a_pattern_is_no_pattern(folder, write, workspace):
    """Cut off after its first character, the last line would leave out everything."""
    place, issues = folder
    lines = "# filler\n" * (MAX_BYTES // 9)
    write(place / ".gitignore", lines + "#" * (MAX_BYTES - len(lines) - 2) + "\n*.tmp\n")
    roots = MemoryRoots(workspace, (ExtraPath(path=place, raw="extra"),))
    assert len(scan(roots).files) == 1
    assert "only its first 256 KiB count" in issues()[0]
