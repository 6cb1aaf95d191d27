"""A selection of the fault matrix, each cell once: the short form of ./scripts/torture --all."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from random import Random

import apsw
import pytest

from endurance import local_model
from endurance.activities import ACTIVITIES, BACKLOG
from endurance.agent import MODEL, Agent
from endurance.database import Database
from endurance.matrix import Cell, Outcome, Plan, cells, run_cell
from endurance.oracle import Oracle
from endurance.run import Run
from endurance.torture import BEGIN, END, document, keep, kept, tallies, write_into
from fakes.each import each
from fakes.embedding import embedded
from fakes.hub import Seen
from fakes.vendors import FakeVendor
from fakes.wire import Seen as Request
from fakes.wire import embedding

pytestmark = pytest.mark.anyio

SPREAD = (
    ("kill", "conversations"), ("stop", "search"),
    ("two-owners", "search"), ("descriptors", "first-index"), ("inotify", "re-sync"),
    ("kill", "download"), ("damage", "search"), ("sidecars", "re-sync"), ("provider", "search"),
    ("mute-client", "rebuild"), ("denied", "re-sync"), ("db-kill", "search"), ("two-leaders", "re-sync"),
    ("saving-editor", "search"), ("deleted", "re-sync"), ("openclaw", "re-sync"),
)  # fmt: skip


async def outcomes_of(fault, activity, **plan):
    (cell,) = cells(Plan((fault,), (activity,)))
    if cell.impossible:
        pytest.skip(cell.impossible)
    return await run_cell(cell, Plan(**plan), say=lambda _: None)


@each(("fault", "activity"), SPREAD)
async def test_nothing_is_lost_wrong_silent_or_left_behind(fault, activity):
    (outcome,) = await outcomes_of(fault, activity, runs=1)
    assert outcome.failures == []
    assert outcome.recovery_s is not None


async def test_no_gateway_is_left_of_a_parent_that_is_killed_while_it_starts_or_when_it_has_answered():
    for outcome in await outcomes_of("parent", "re-sync", runs=2):
        assert outcome.failures == []


async def test_a_process_killed_at_any_instant_pays_for_no_text_twice():
    stored = 0
    for seed in range(1, 9):  # a text that was paid for may not be stored before the kill
        for outcome in await outcomes_of("kill", "rebuild", runs=1, seed=seed):
            assert outcome.failures == []
            stored += outcome.stored
        if stored:
            break
    assert stored > 0


def test_a_text_that_is_paid_for_twice_is_found(tmp_path):
    with FakeVendor("openai") as host:
        run = Run(Agent(tmp_path, host, 1), Random(1), 0)
        run.note_what_is_stored(frozenset({"a text"}))
        for text in ("another text", "a text"):
            assert run.paid_again() == set()
            host.requests.append(Request("POST", "/v1/embeddings", {}, None, (text,), answered=200))
        assert run.paid_again() == {"a text"}


def test_every_cell_is_run_or_says_why_not():
    for cell in cells(Plan()):
        assert isinstance(cell, Cell)
        assert cell.fault.runs > 0
        assert cell.impossible is None or len(cell.impossible) > 10


async def test_the_oracle_finds_a_missing_chunk_a_foreign_vector_and_a_damaged_page(tmp_path):
    agent = Agent(tmp_path, None, 1)
    oracle = Oracle(agent.settings)
    await oracle.make_fresh(agent.index)
    assert await oracle.faults(agent.index) == []
    (agent.workspace / "memory/new.md").write_text("# New\n\n- A kestrel.\n", encoding="utf-8")
    assert "differ" in (await oracle.faults(agent.index))[0]
    (agent.workspace / "memory/new.md").unlink()
    data = bytearray(agent.index.read_bytes())
    data[-2000] ^= 8
    agent.index.write_bytes(data)
    assert await oracle.faults(agent.index)


async def test_rows_in_another_order_are_no_fault_to_the_oracle(tmp_path):
    agent = Agent(tmp_path, None, 2)  # one of whose words is in 1,002 of 1,173 chunks
    agent.write_backlog(BACKLOG)
    oracle = Oracle(agent.settings)
    await oracle.make_fresh(agent.index)
    agent.edit()
    await oracle.make_fresh(agent.index)
    assert await oracle.faults(agent.index) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("UPDATE chunk_terms_data SET block = x'010203' WHERE id = 1", "FTS5 counts [1, 2, 3]"),
        ("INSERT INTO file_languages SELECT 'welsh', min(id) FROM files", "languages differ"),
    ],
)
async def test_the_oracle_names_what_a_score_depends_on_beside_the_texts(tmp_path, changed, told):
    agent = Agent(tmp_path, None, 1)
    oracle = Oracle(agent.settings)
    await oracle.make_fresh(agent.index)
    with closing(apsw.Connection(str(agent.index))) as db:
        db.execute(changed)
    assert told in (await oracle.faults(agent.index))[0]


def test_a_download_that_leaves_something_or_fetches_it_twice_is_found(tmp_path):
    with local_model.open_hub() as hub:
        agent = Agent(tmp_path, None, 1, hub)
        run, size = Run(agent, Random(1), 0), local_model.size()
        for name, data in local_model.files().items():
            path = agent.model.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.with_name(f"{path.name}.json").write_bytes(b"{}")
        hub.requests += [
            Seen("GET", "localhost", "/", {}, sent=sent) for sent in (size // 2, size - size // 2)
        ]
        assert list(local_model.faults_at_the_end(run)) == []
        agent.model.write_bytes(local_model.files()[MODEL][:-1])
        agent.model.with_name(f"{MODEL}.part").write_bytes(b"")
        hub.requests.append(Seen("GET", "localhost", "/", {}, sent=size))
        spoilt, left, twice = local_model.faults_at_the_end(run)
        assert f"{MODEL} is not that file" in spoilt
        assert f"['{MODEL}.part']" in left
        assert f"fetched {2 * size:,} bytes" in twice
        local_model.forget(agent)
        assert hub.sent() == 0
        assert not agent.model.exists()


def test_runs_are_counted_and_shown_cell_by_cell(tmp_path):
    make = partial(
        Outcome, fault="kill", activity="rebuild", recovery_s=0.5, kills=1, answers=3, incomplete=1
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
    # The row also has columns for activities that did not exist when the runs were recorded.
    assert row.count("|") == len(ACTIVITIES) + 2
    assert document(kept(file)) in text


async def test_the_oracle_finds_a_missing_chunk_a_lost_word_and_a_foreign_vector_in_a_database(
    tmp_path, postgres_server
):
    with FakeVendor("openai") as host:
        database = Database(postgres_server)
        agent = Agent(tmp_path, host, 1, database=database)
        agent.configure(embeds=True)
        expected = partial(embedding, dimensions=host.dimensions)
        async with agent.gateway() as client:
            await client.call("sync", {}, timeout_s=60)
            await embedded(client)

        async def faults():
            return await database.faults(agent.settings, expected)

        assert await faults() == []
        new = agent.workspace / "memory/new.md"
        new.write_text("# New\n\n- A kestrel.\n", encoding="utf-8")
        assert "differ" in (await faults())[0]
        new.unlink()
        assert await faults() == []
        database.rows(
            "UPDATE {0}.embeddings SET vector = (SELECT vector FROM {0}.embeddings AS o"
            " WHERE o.agent_id = {1} ORDER BY text_hash LIMIT 1) WHERE agent_id = {1}"
        )
        assert any("vector of another text" in fault for fault in await faults())
        database.rows("DELETE FROM {0}.postings WHERE agent_id = {1} AND term = 'stabl'")
        assert any("words" in fault for fault in await faults())
