"""Duration strings."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.keys.kinds import MILLISECONDS, format_duration, parse_duration
from fakes.each import each


@each(
    ("text", "milliseconds"),
    [
        ("5m", 300_000),
        ("60m", 3_600_000),
        ("1h", 3_600_000),
        ("90s", 90_000),
        ("250ms", 250),
        ("2d", 172_800_000),
        ("0", 0),
        ("0s", 0),
        ("5", 300_000),
        ("1.5h", 5_400_000),
        ("0.5s", 500),
        ("0.0005s", 1),
        ("0.0004s", 0),
        ("2.5ms", 3),
        ("  5M \n", 300_000),
        ("10MS", 10),
        ("007s", 7000),
        ("0.1m", 6000),
    ],
)
def test_a_duration_is_read(text, milliseconds):
    assert parse_duration(text, "m") == milliseconds


@each(("unit", "milliseconds"), list(MILLISECONDS.items()))
def test_a_missing_unit_is_the_one_of_the_caller(unit, milliseconds):
    assert parse_duration("3", unit) == 3 * milliseconds


@each(
    "text",
    [
        "",
        " ",
        "m",
        "-5m",
        "+5m",
        "5 m",
        "1h30m",
        "5min",
        "5w",
        ".5s",
        "5.",
        "5.s",
        "1,5s",
        "1e3s",
        "five",
        "0x5",
        "\u0665m",
        "5\u1d50",
        "5m;",
        "NaN",
        "Infinity",
        "9" * 100,
        "5m\n5m",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text, "m")


@each(
    ("milliseconds", "text"),
    [
        (300_000, "5m"),
        (3_600_000, "1h"),
        (86_400_000, "1d"),
        (90_000, "90s"),
        (1500, "1500ms"),
        (0, "0"),
    ],
)
def test_a_length_is_written_in_its_largest_whole_unit(milliseconds, text):
    assert format_duration(milliseconds) == text


@given(st.integers(0, 10**15))
def test_what_is_written_is_read_back(milliseconds):
    assert parse_duration(format_duration(milliseconds), "d") == milliseconds


@given(st.text(max_size=80))
def test_any_text_is_a_length_or_refused(text):
    with contextlib.suppress(ValueError):
        assert parse_duration(text, "s") >= 0


@each("text", ["9" * 400, "9" * 300 + "tb"])
def test_a_size_beyond_all_numbers_is_refused(machine, text):
    (problem,) = machine.problems(
        f"{{plugins: {{entries: {{'memory-gateway': {{config: {{compaction: "
        f"{{maxActiveTranscriptBytes: '{text}'}}}}}}}}}}}}"
    )
    assert "allowed is a number of bytes, or a size" in problem.message
