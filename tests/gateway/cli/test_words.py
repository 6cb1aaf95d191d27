"""Numbers and paths as people read them."""

from __future__ import annotations

from fakes.each import each
from gateway.cli.terminal import counted, duration, short_path, size


@each(("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (12_000, "12,000 files")])
def test_things_are_counted_in_the_singular_and_the_plural(number, text):
    assert counted(number, "file") == text


@each(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (5e15, "5000.0 TB")],
)
def test_sizes_have_a_unit_that_suits_them(number, text):
    assert size(number) == text


@each(
    ("milliseconds", "text"),
    [(0.4, "0 ms"), (42.4, "42 ms"), (420, "0.42 s"), (99_000, "99.00 s"), (185_000, "3 min 5 s")],
)
def test_durations_have_a_unit_that_suits_them(milliseconds, text):
    assert duration(milliseconds) == text


@each(
    ("path", "text"),
    [
        ("/home/ines", "~"),
        ("/home/ines/notes", "~/notes"),
        ("/home/inessa/notes", "/home/inessa/notes"),
        ("/srv/home/ines", "/srv/home/ines"),
    ],
)
def test_only_what_is_below_the_home_directory_is_shortened(path, text):
    assert short_path(path, home="/home/ines") == text


def test_a_home_directory_that_is_the_root_shortens_nothing():
    assert short_path("/srv", home="/") == "/srv"
