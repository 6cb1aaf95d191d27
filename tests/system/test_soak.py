"""The short form of ./scripts/soak, by rounds instead of minutes; and the figures that it uses."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from endurance.soak import FAULTS, Plan, quarters, slope, soak, summary
from endurance.soak_clients import NOTE_OPERATIONS, OPERATOR_OPERATIONS, Pace

pytestmark = pytest.mark.anyio

SCRIPTS = Path(__file__).parents[2] / "scripts"
NOTE_ROUNDS = 2 * len(NOTE_OPERATIONS)
OPERATOR_ROUNDS = len(OPERATOR_OPERATIONS)
PLAN = Plan(
    pace=Pace(rounds=NOTE_ROUNDS, pause_s=0.02),
    talking=Pace(rounds=OPERATOR_ROUNDS, pause_s=0.02),
    operating=Pace(rounds=OPERATOR_ROUNDS, pause_s=0.02),
    provider_faults=Pace(rounds=4 * len(FAULTS), pause_s=0.05),
    samples=Pace(rounds=20, pause_s=0.05),
    memories=16,  # entries are forgotten while others are in use
    quiet_notes=20,
)


async def test_everything_at_once_gives_no_error_no_wrong_answer_and_leaves_nothing_open(tmp_path):
    found = summary(await soak(tmp_path, PLAN))
    assert found["errors"] == []
    assert found["wrong"] == []
    assert found["exitCode"] == 0
    assert set(NOTE_OPERATIONS) | set(OPERATOR_OPERATIONS) <= set(found["activities"])
    assert found["searches"] > NOTE_ROUNDS
    # Connections come and go, so the number moves a little; a leak of one a round would be dozens.
    descriptors = found["descriptors"]
    assert descriptors["lastQuarter"] - descriptors["warmQuarter"] < 15
    assert found["childrenMax"] == 0
    assert found["walMiBMax"] < 32
    assert found["databaseMiB"]["end"] < 3 * found["databaseMiB"]["fresh"]


def test_a_slope_is_that_of_the_line_that_was_drawn():
    hours = [number / 60 for number in range(60)]
    found = slope([hour * 3600 for hour in hours], [100 + 7 * hour for hour in hours])
    assert found.value == pytest.approx(7)
    rng = random.Random(3)
    noisy = slope([hour * 3600 for hour in hours], [100 + rng.gauss(0, 1) for _ in hours])
    assert noisy.low < 0 < noisy.high


def test_samples_that_resemble_their_neighbours_count_for_less():
    seconds = [60.0 * number for number in range(60)]
    waves = [math.sin(number / 5) for number in range(60)]
    shuffled = random.Random(1).sample(waves, len(waves))
    smooth, rough = slope(seconds, waves), slope(seconds, shuffled)
    assert smooth.high - smooth.low > 2 * (rough.high - rough.low)


def test_quarters_are_medians_that_one_spike_does_not_move():
    assert quarters([1, 1, 99, 5, 5, 5, 5, 5, 5, 3, 3, 99]) == (1, 3)


def test_memories_that_are_divided_forget_as_much_earlier():
    held = """
from config.runtime.remembered import Remembered
from endurance.small_memories import divide_memories

def held():
    memory = Remembered(1 << 20, lambda key, value: 1000)
    for number in range(2000):
        memory.put(number, number)
    return len(memory)

before = held()
divide_memories(16)
print(before / held())
"""
    done = subprocess.run(
        [sys.executable, "-c", held], env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert 10 < float(done.stdout) < 25
