"""A gateway that is killed again and again: the short form of ./scripts/kill_test."""

import os

import pytest

from benchmarks.killing import kill_again_and_again

pytestmark = pytest.mark.anyio

ROUNDS = 10


async def test_a_process_killed_at_any_instant_loses_nothing_and_pays_nothing_twice(
    tmp_path, monkeypatch
):
    for name in [name for name in os.environ if name.startswith("OPENCLAW_")]:
        monkeypatch.delenv(name)
    kept = 0
    for seed in range(1, 6):  # a slow machine may store nothing before it is killed
        root = tmp_path / str(seed)
        losses = await kill_again_and_again(root, ROUNDS, seed=seed)
        assert losses.faults() == []
        assert losses.first_answers_s
        if kept := losses.kept:
            break
    assert kept > 0
