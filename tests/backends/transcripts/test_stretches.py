"""Stretches contain whole lines, start where the last one ended, and never contain the whole file."""

from __future__ import annotations

import os
import tracemalloc
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

from backends.transcripts.jsonl import (
    MAX_LINE_BYTES,
    TAIL_BYTES,
    count_lines,
    digest_of,
    read_stretch,
    tail_of,
)


@contextmanager
def descriptor_of(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@given(data=st.lists(st.binary(max_size=9), max_size=12).map(b"\n".join), step=st.integers(1, 30))
def test_stretches_in_a_row_give_every_complete_line_once(tmp_path_factory, data, step):
    file = tmp_path_factory.mktemp("t") / "t.jsonl"
    file.write_bytes(data)
    lines, end, last = [], 0, False
    with descriptor_of(file) as descriptor:
        while not last:
            stretch = read_stretch(descriptor, end, end + step)
            assert stretch.digest == digest_of(descriptor, end, stretch.end)
            assert stretch.end >= end + step or stretch.is_last
            lines += stretch.lines
            end, last = stretch.end, stretch.is_last
        assert count_lines(descriptor, 0, len(data)) == len(lines)
    assert lines == data.split(b"\n")[:-1]
    assert end == data.rfind(b"\n") + 1


def test_half_a_line_at_the_end_waits_for_its_rest(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"a": 1}\n{"b"')
    with descriptor_of(file) as descriptor:
        first = read_stretch(descriptor, 0, 100)
        assert (first.lines, first.end, first.is_last) == ((b'{"a": 1}',), 9, True)
        assert read_stretch(descriptor, 9, 100).lines == ()
        with file.open("ab") as more:
            more.write(b": 2}\n")
        assert read_stretch(descriptor, 9, 100).lines == (b'{"b": 2}',)


def test_a_line_that_is_too_long_counts_and_is_left_out_without_being_held(tmp_path):
    file = tmp_path / "t.jsonl"
    with file.open("wb") as out:
        out.write(b"first\n")
        for _ in range(4):
            out.write(b"x" * MAX_LINE_BYTES)
        out.write(b"\nlast\n")
    tracemalloc.start()
    with descriptor_of(file) as descriptor:
        stretch = read_stretch(descriptor, 0, file.stat().st_size)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert stretch.lines == (b"first", None, b"last")
        assert stretch.end == file.stat().st_size
        assert stretch.digest == digest_of(descriptor, 0, stretch.end)
    assert most < 2.5 * MAX_LINE_BYTES


def test_the_tail_tells_a_change_just_before_a_place_and_no_other(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"a" * (TAIL_BYTES + 10))

    def tail():
        with descriptor_of(file) as descriptor:
            return tail_of(descriptor, TAIL_BYTES + 10)

    before = tail()
    for offset, differs in ((0, False), (9, False), (10, True), (TAIL_BYTES + 9, True)):
        changed = bytearray(b"a" * (TAIL_BYTES + 10))
        changed[offset] = ord("b")
        file.write_bytes(bytes(changed) + b"appended")
        assert (tail() != before) is differs
