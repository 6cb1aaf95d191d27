import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.files.globs import MAX_ALTERNATIVES, Glob
from fakes.each import each


@each(
    ("pattern", "path", "fits"),
    [
        ("**/*.md", "a.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("*.md", "a.md", True),
        ("*.md", "a/b.md", False),
        ("*.md", ".hidden.md", True),
        ("notes/**", "notes/a/b.md", True),
        ("notes/**/x.md", "notes/x.md", True),
        ("notes/**/x.md", "other/x.md", False),
        ("**/**/x.md", "a/x.md", True),
        ("a?.md", "ab.md", True),
        ("a?.md", "a/.md", False),
        ("[ab].md", "b.md", True),
        ("[!ab].md", "b.md", False),
        ("[^ab].md", "b.md", False),
        ("[^ab].md", "c.md", True),
        ("{a,b}/*.md", "b/x.md", True),
        ("{a,b}/*.md", "c/x.md", False),
        ("**/*.{md,markdown}", "x/y.md", True),
        ("{a/b,c}/*.md", "a/b/x.md", True),
        ("./a/*.md", "a/x.md", True),
        ("*.MD", "a.md", False),
        ("a.md", "axmd", False),
        ("*.md", "line\nbreak.md", True),
        ("caf\u00e9.md", "cafe\u0301.md", False),
        ("../*.md", "x.md", False),
        ("a/[[link]].md", "a/[[link]].md", True),
        ("a/{b,c}.md", "a/{b,c}.md", True),
    ],
)
def test_a_pattern_fits_what_its_reader_expects(pattern, path, fits):
    assert Glob(pattern).matches(path) is fits


def test_braces_that_would_multiply_without_end_are_taken_literally():
    pattern = "{a,b}" * 40 + ".md"
    assert MAX_ALTERNATIVES < 2**40
    assert not Glob(pattern).matches("ab" * 20 + ".md")


@pytest.mark.promises_seconds
def test_a_hostile_pattern_costs_no_time():
    started = time.monotonic()
    assert not Glob("*a" * 60 + "/x.md").matches("a" * 250 + "b/x.md")
    assert not Glob("**/a/" * 40 + "b").matches("a/" * 1000 + "c")
    assert time.monotonic() - started < 2


NAMES = st.text(alphabet="ab.[]{}!*?", min_size=1, max_size=6)


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_any_depth_fits_every_path(names):
    assert Glob("**").matches("/".join(names))


@given(st.text(alphabet="ab/.*?[]{},!", max_size=20), st.text(alphabet="ab/.", max_size=20))
def test_every_pattern_gives_an_answer(pattern, path):
    assert Glob(pattern).matches(path) in (True, False)
