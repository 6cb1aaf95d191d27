"""A cache keeps to a number of bytes, and entries in use stay."""

from __future__ import annotations

import threading
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from config.runtime.remembered import ENTRY_BYTES, Remembered, size_of

KIB = 1024


def memory(most_bytes=16 * KIB):
    return Remembered(most_bytes, size_of)


@given(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=3 * KIB))))
def test_it_never_holds_more_than_its_bytes_and_counts_what_it_holds(puts):
    known, last = memory(), {}
    for key, value in puts:
        known.put(key, value)
        last[key] = value
        assert known.bytes_used <= 16 * KIB
        kept = {key: known.get(key) for key in last}
        assert all(value in (None, last[key]) for key, value in kept.items())
        assert known.get(key) == value
    entries = {key: value for key in last if (value := known.get(key)) is not None}
    assert len(known) == len(entries)
    counted = sum(size_of(key, value) + ENTRY_BYTES for key, value in entries.items())
    assert counted == known.bytes_used


def test_what_is_asked_for_stays_and_what_nobody_asks_for_is_forgotten():
    known = memory()
    known.put("in use", b"x")
    known.put("not in use", b"y")
    for number in range(1_000):
        known.put(number, b"z" * 50)
        assert known.get("in use") == b"x"
    assert known.get("not in use") is None


def test_what_would_fill_half_of_it_is_not_remembered_and_drives_nothing_out():
    known = memory()
    known.put("small", b"x")
    known.put("large", b"y" * 8 * KIB)
    assert known.get("large") is None
    assert known.get("small") == b"x"
    known.put("small", b"y" * 8 * KIB)  # its former value is not valid any more
    assert known.get("small") is None
    assert known.bytes_used == 0


def test_nothing_is_left_after_clearing():
    known = memory()
    for number in range(200):
        known.put(number, b"z" * 50)
    known.clear()
    assert (known.bytes_used, len(known), known.get(199)) == (0, 0, None)


def test_the_bytes_that_it_counts_are_those_that_it_takes():
    tracemalloc.start()
    try:
        known = memory(8 * KIB * KIB)
        for number in range(100_000):
            known.put(f"word{number}", f"stem{number}")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * taken < known.bytes_used < 1.5 * taken


def test_threads_that_put_at_the_same_time_leave_a_right_count():
    known = memory(64 * KIB)

    def put(thread):
        for number in range(3_000):
            known.put(number % 700, f"{thread} {number}")
            known.get(number * 7 % 700)

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = {key: known.get(key) for key in range(700)}
    counted = sum(
        size_of(key, value) + ENTRY_BYTES for key, value in values.items() if value is not None
    )
    assert counted == known.bytes_used <= 64 * KIB
