"""Several gateways at work: paid work is done by one at a time, and a gateway that lost its lease writes nothing."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest
from msgspec.structs import replace

from backends.builtin.store.port import (
    START,
    Checkpoint,
    LeaseLostError,
    OvertakenError,
    TranscriptPiece,
)
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.store.postgres.transactions import CLAIM_S
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing.planning import Change
from backends.builtin.syncing.preparing import Preparer
from backends.chunking import ChunkLimits
from backends.files.roots import MemoryRoots
from fakes.indexing import indexer_of
from fakes.settings import make_settings

from .conftest import Shelf

LONG_S = 600


def pytest_generate_tests(metafunc):
    if "postgres_settings" in metafunc.fixturenames:
        metafunc.parametrize("postgres_settings", ["direct", "pooled"], indirect=True)


@pytest.fixture
def gateways(postgres_settings):
    """Two gateways of one agent on different hosts."""
    with (
        closing(PostgresStore(postgres_settings, "main", viewpoint="test")) as first,
        closing(PostgresStore(postgres_settings, "main", viewpoint="test")) as second,
    ):
        yield first, second


def lapse(store, work="embedding"):
    """Makes the lease expire."""
    with store._transaction(read_only=False) as transaction:
        transaction.end("UPDATE leases SET until = now() WHERE work = %(work)s", {"work": work})


def test_of_two_gateways_one_gets_the_work_and_the_other_when_it_is_given_back(gateways):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    assert lease is not None
    assert second.lease("embedding", LONG_S) is None
    assert first.lease("embedding", LONG_S) is None  # a lease belongs to one turn
    first.give_back(lease)
    next_one = second.lease("embedding", LONG_S)
    assert next_one is not None
    assert next_one != lease


def test_a_lease_runs_out_by_the_clock_of_the_server(gateways):
    first, second = gateways
    lease = first.lease("embedding", 0.001)
    deadline = time.monotonic() + 30
    while (taken := second.lease("embedding", LONG_S)) is None:
        assert time.monotonic() < deadline
    assert taken != lease


def test_who_renews_in_time_keeps_the_work_and_who_comes_late_does_not_get_it_back(gateways):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    assert first.renew(lease, LONG_S)
    lapse(first)
    assert first.renew(lease, LONG_S)  # nobody else wanted it
    lapse(first)
    second.lease("embedding", LONG_S)
    assert not first.renew(lease, LONG_S)
    first.give_back(lease)  # no effect on the other's
    assert first.lease("embedding", LONG_S) is None


def test_a_writer_whose_lease_was_taken_over_writes_nothing(gateways):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    lapse(first)
    newer = second.lease("embedding", LONG_S)
    with pytest.raises(LeaseLostError, match="taken over"), first.writer(lease=lease) as writer:
        writer.remember("who", "the one that was stopped")
    with second.writer(lease=newer) as writer:
        assert writer.remembered("who") is None
        writer.remember("who", "the one at work")
    with first.view() as view:
        assert view.remembered("who") == "the one at work"


def test_while_somebody_publishes_nobody_takes_the_work_though_its_time_is_over(gateways):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    with first.writer(lease=lease) as writer:
        writer.remember("who", "the first")
        lapse(second)
        assert second.lease("embedding", LONG_S) is None
        assert first.renew(lease, 0)  # nobody has to wait for it
    assert second.lease("embedding", LONG_S) is not None


def pending(store, fingerprint):
    with store.view() as view:
        return {text for _, text in view.embeddings.pending(fingerprint, limit=10)}


@pytest.fixture
def texts(gateways, fingerprint):
    """The hashes of two notes that the gateways share, by text."""
    shelf = Shelf(gateways[0])
    for text in ("boiler", "pump"):
        shelf.write(f"memory/{text}.md", text)
    with gateways[0].view() as view:
        return {text: key for key, text in view.embeddings.pending(fingerprint, limit=10)}


def test_what_one_gateway_has_sent_is_left_alone_by_others_until_it_is_stored(
    gateways, fingerprint, texts
):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    first.claim(lease, [texts["boiler"]])
    assert pending(first, fingerprint) == {"boiler", "pump"}
    assert pending(second, fingerprint) == {"pump"}
    with second.view() as view:
        assert view.embeddings.backlog(fingerprint) == [(texts["pump"], len("pump"))]
        assert 0 < view.embeddings.claims_end_s() <= CLAIM_S
    with first.view() as view:
        assert view.embeddings.claims_end_s() is None
    with first.writer() as writer:
        writer.embeddings.put(fingerprint, [(texts["boiler"], np.array([1.0, 0.0], np.float32))])
    with second.view() as view:
        assert view.embeddings.claims_end_s() is None


def test_who_lost_the_lease_may_send_nothing(gateways, fingerprint, texts):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    lapse(first)
    second.lease("embedding", LONG_S)
    with pytest.raises(LeaseLostError):
        first.claim(lease, [texts["boiler"]])
    assert pending(second, fingerprint) == {"boiler", "pump"}


def test_a_claim_lasts_while_its_gateway_is_heard_of_and_some_time_after(
    gateways, fingerprint, texts
):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    first.claim(lease, [texts["boiler"]])

    def wait(seconds):
        with second._transaction(read_only=False) as transaction:
            transaction.end(
                "UPDATE claims SET until = until - make_interval(secs => %(s)s)", {"s": seconds}
            )

    for hears_of_it in (
        lambda: first.renew(lease, LONG_S),
        lambda: first.lease("embedding", LONG_S),  # it waits for its turn
    ):
        wait(CLAIM_S - 1)
        hears_of_it()
        wait(CLAIM_S - 1)
        assert pending(second, fingerprint) == {"pump"}
        first.renew(lease, LONG_S)
    wait(CLAIM_S)
    assert pending(second, fingerprint) == {"boiler", "pump"}
    first.renew(lease, LONG_S)  # too late
    assert pending(second, fingerprint) == {"boiler", "pump"}


def test_what_was_sent_in_vain_or_refused_is_claimed_no_longer(gateways, fingerprint, texts):
    first, second = gateways
    lease = first.lease("embedding", LONG_S)
    first.claim(lease, list(texts.values()))
    assert pending(second, fingerprint) == set()
    second.release(list(texts.values()))  # not its own
    assert pending(second, fingerprint) == set()
    first.release([texts["boiler"]])
    assert pending(second, fingerprint) == {"boiler"}
    with first.writer() as writer:
        writer.embeddings.record_failures(fingerprint, [(texts["pump"], "refused")])
    with second.view() as view:
        assert view.embeddings.claims_end_s() is None


def test_works_are_independent_and_each_view_of_the_files_is_verified_for_itself(
    postgres_settings,
):
    with (
        closing(PostgresStore(postgres_settings, "main", viewpoint="here")) as here,
        closing(PostgresStore(postgres_settings, "main", viewpoint="there")) as there,
        closing(PostgresStore(postgres_settings, "main", viewpoint="here")) as beside,
    ):
        assert here.lease("verify", LONG_S)
        assert there.lease("verify", LONG_S)
        assert beside.lease("verify", LONG_S) is None
        assert here.lease("embedding", LONG_S)
        assert there.lease("batch", LONG_S)
        with there.view() as view:
            leases = view.details().leases
        assert set(leases) == {"verify here", "verify there", "embedding", "batch"}


def test_agents_do_not_share_leases(postgres_settings):
    with (
        closing(PostgresStore(postgres_settings, "main", viewpoint="test")) as main,
        closing(PostgresStore(postgres_settings, "other", viewpoint="test")) as other,
    ):
        assert main.lease("embedding", LONG_S)
        assert other.lease("embedding", LONG_S)


def test_leases_are_no_change_of_the_index(gateways):
    first, second = gateways
    with first.writer() as writer:
        writer.remember("some", "thing")
    with second.view() as view:
        before = view.version()
    lease = first.lease("embedding", LONG_S)
    first.renew(lease, LONG_S)
    first.give_back(lease)
    with second.view() as view:
        assert view.version() == before


def test_a_status_tells_who_works(gateways):
    first, _ = gateways

    def role():
        with first.view() as view:
            return view.details().role

    assert role() == "idle"
    lease = first.lease("embedding", LONG_S)
    assert role() == "leader"
    with first._transaction(read_only=False) as transaction:
        transaction.end("UPDATE leases SET holder = 'another host (7)'", {})
    assert role() == "follower"
    first.give_back(lease)
    assert role() == "idle"


def test_the_owner_of_a_file_has_every_lease_for_ever(tmp_path):
    with closing(SqliteStore(tmp_path / "index.sqlite")) as store:
        lease = store.lease("embedding", 0)
        assert not store.is_shared
        assert store.renew(lease, 0)
        with store.writer(lease=lease) as writer:
            writer.remember("some", "thing")
        store.give_back(lease)
        with store.view() as view:
            assert view.details().role == "owner"


@pytest.fixture
def sharing(postgres_settings):
    """Two gateways that look at the same shared volume."""
    with (
        closing(PostgresStore(postgres_settings, "main", viewpoint="volume")) as first,
        closing(PostgresStore(postgres_settings, "main", viewpoint="volume")) as second,
    ):
        yield first, second


def text_of(store):
    """Returns the text of the only file."""
    with store.view() as view:
        rows = view._transaction.run(
            "SELECT text FROM chunks WHERE agent_id = %(agent)s ORDER BY start"
        )
        return b"".join(text for (text,) in rows).decode().rstrip("\n")


def revision_of(store):
    with store.view() as view:
        return view.files.revision("memory", "memory/a.md")


@pytest.mark.parametrize("was_there", [True, False], ids=["changed", "new"])
def test_what_was_read_earlier_is_never_published_over_what_was_read_later(sharing, was_there):
    first, second = sharing
    if was_there:
        Shelf(first).write("memory/a.md", "The boiler is new.\n")
    slow = replace(Shelf(first).read("memory/a.md", "Older.\n"), revision=revision_of(first))
    Shelf(second).write("memory/a.md", "Newer.\n", at=2)
    with pytest.raises(OvertakenError), first.writer() as writer:
        writer.files.publish(slow, "test", Shelf(first).prepare("memory/a.md", "Older.\n"))
    assert text_of(first) == "Newer."
    with first.view() as view:  # nor are its stamps those of the older one
        assert view.files.indexed()["memory/a.md"].mtime_ns == 2


def test_what_was_removed_meanwhile_does_not_come_back(sharing):
    first, second = sharing
    Shelf(first).write("memory/a.md", "The boiler is new.\n")
    slow = replace(Shelf(first).read("memory/a.md", "Older.\n"), revision=revision_of(first))
    with second.writer() as writer:
        assert writer.files.remove("memory", "memory/a.md")
    with pytest.raises(OvertakenError), first.writer() as writer:
        writer.files.publish(slow, "test", Shelf(first).prepare("memory/a.md", "Older.\n"))
    with first.view() as view:
        assert view.files.indexed() == {}


def indexer(store, workspace):
    settings = make_settings(workspace.parent)
    preparer = Preparer(ChunkLimits())
    roots = MemoryRoots.of(replace(settings, workspace=workspace))
    return indexer_of(store, roots, preparer)


def test_a_gateway_that_waited_for_another_one_reads_the_file_again(
    sharing, tmp_path, postgres_server, postgres_settings
):
    """It had checked that the disk is still as it was read, but that was before it waited."""
    first, second = sharing
    note = tmp_path / "workspace" / "memory" / "a.md"
    note.parent.mkdir(parents=True)
    note.write_text("Older.\n", encoding="utf-8")
    slow = indexer(first, tmp_path / "workspace")
    (task,) = slow.surveyor.survey().plan.to_read
    outcomes = []
    with ExitStack() as stack:
        publishing = stack.enter_context(second.writer())
        Shelf(second).put(publishing, "memory/a.md", "Newer.\n", at=2)
        thread = threading.Thread(target=lambda: outcomes.append(slow.apply(task)), daemon=True)
        thread.start()
        wait_for_a_lock(postgres_server, postgres_settings)
        note.write_text("Newer.\n", encoding="utf-8")
    thread.join(60)
    assert text_of(first) == "Newer."
    (outcome,) = outcomes
    assert outcome.change in (Change.SAME, Change.WRITTEN)


def wait_for_a_lock(server, settings):
    database = settings.url.reveal().partition("@/")[2].partition("?")[0]
    deadline = time.monotonic() + 30
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while not server.sql(waiting, database=database):
        assert time.monotonic() < deadline


def test_who_publishes_a_transcript_looks_again_when_another_one_has_published(
    sharing, postgres_server, postgres_settings
):
    """Otherwise it would replace everything that the other one indexed with its own part."""
    first, second = sharing
    text = "The boiler leaks.\n"
    piece = TranscriptPiece(
        path="sessions/a.jsonl",
        stamps=(100, 1, 1, 7),
        pipeline="test",
        read_at_ns=1,
        begin=START,
        end=Checkpoint(100, 4, 1, len(text), b"tail", b"digest"),
        numbers=(4,),
        prepared=Shelf(second).prepare("a", text),
        is_last=True,
        is_rewritten=False,
    )
    seen = []

    def look() -> None:
        with first.writer() as writer:
            seen.append(writer.transcripts.one("sessions/a.jsonl"))

    with second.writer() as publishing:
        publishing.transcripts.publish(piece)
        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        wait_for_a_lock(postgres_server, postgres_settings)
    thread.join(60)
    assert seen[0].stamps == (100, 1, 1, 7)
