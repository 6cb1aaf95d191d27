"""A spread of the fault matrix, each cell once: the short form of ./scripts/torture --all."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from fakes.hub import Seen
from torturing import models
from torturing.activities import ACTIVITIES
from torturing.matrix import Cell, Plan, cells, run_cell
from torturing.oracle import Truth
from torturing.playing import Outcome
from torturing.report import BEGIN, END, document, keep, kept, tallies, write_into
from torturing.scene import Scene
from torturing.subject import MODEL, Subject

pytestmark = pytest.mark.anyio

SPREAD = (
    ("kill", "rebuild"), ("kill", "transcripts"), ("stop", "search"), ("parent", "re-sync"),
    ("two-owners", "search"), ("descriptors", "first-index"), ("inotify", "re-sync"),
    ("kill", "download"), ("damage", "search"), ("sidecars", "re-sync"), ("provider", "search"),
    ("mute-client", "rebuild"),
)  # fmt: skip


@pytest.mark.parametrize(("fault", "activity"), SPREAD)
async def test_nothing_is_lost_wrong_silent_or_left_behind(fault, activity):
    (cell,) = cells(Plan((fault,), (activity,)))
    if cell.impossible:
        pytest.skip(cell.impossible)
    (outcome,) = await run_cell(cell, Plan(runs=1), say=lambda _: None)
    assert outcome.failures == []
    assert outcome.recovery_s is not None


def test_every_cell_is_run_or_says_why_not():
    for cell in cells(Plan()):
        assert isinstance(cell, Cell)
        assert cell.fault.runs > 0
        assert cell.impossible is None or len(cell.impossible) > 10


async def test_the_oracle_finds_a_missing_chunk_a_foreign_vector_and_a_damaged_page(tmp_path):
    subject = Subject(tmp_path, None, 1)
    truth = Truth(subject.settings)
    await truth._make(subject.index)
    assert await truth.faults(subject.index) == []
    (subject.workspace / "memory/new.md").write_text("# New\n\n- A kestrel.\n", encoding="utf-8")
    assert "differ" in (await truth.faults(subject.index))[0]
    (subject.workspace / "memory/new.md").unlink()
    data = bytearray(subject.index.read_bytes())
    data[-2000] ^= 8
    subject.index.write_bytes(data)
    assert await truth.faults(subject.index)


def test_a_download_that_leaves_something_or_fetches_it_twice_is_found(tmp_path):
    with models.open_hub() as hub:
        subject = Subject(tmp_path, None, 1, hub)
        scene, size = Scene(subject, Random(1), 0), len(models.model())
        subject.model.parent.mkdir(parents=True)
        subject.model.write_bytes(models.model())
        subject.model.with_name(f"{MODEL}.json").write_bytes(b"{}")
        hub.requests += [
            Seen("GET", "localhost", "/", {}, sent=sent) for sent in (size // 2, size // 2)
        ]
        assert list(models.faults_at_the_end(scene)) == []
        subject.model.write_bytes(models.model()[:-1])
        subject.model.with_name(f"{MODEL}.part").write_bytes(b"")
        hub.requests.append(Seen("GET", "localhost", "/", {}, sent=size))
        spoilt, left, twice = models.faults_at_the_end(scene)
        assert "is not the model" in spoilt
        assert f"['{MODEL}.part']" in left
        assert f"fetched {2 * size:,} bytes" in twice
        models.forget(subject)
        assert hub.sent() == 0
        assert not subject.model.exists()


def test_runs_are_counted_and_shown_cell_by_cell(tmp_path):
    make = partial(
        Outcome, fault="kill", activity="rebuild", recovery_s=0.5, kills=1, answers=3, honest=1
    )
    file, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    keep(file, [make(number=0, failures=[]), make(number=1, failures=["lost"])])
    assert tallies(kept(file))["kill", "rebuild"].failed == 1
    page.write_text(f"before\n{BEGIN}\nobsolete text\n{END}\nafter\n", encoding="utf-8")
    write_into(page, kept(file))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "obsolete" not in text
    assert "**1 of 2 failed** · 0.5 s" in text
    row = next(line for line in text.splitlines() if line.startswith("| kill |"))
    # Also of those that were not there yet when the runs were kept.
    assert row.count("|") == len(ACTIVITIES) + 2
    assert document(kept(file)) in text
