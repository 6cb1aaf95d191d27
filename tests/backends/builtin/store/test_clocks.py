"""A clock that was ahead, of a gateway or of the server: nothing waits for its time, and nothing is forgotten."""

from __future__ import annotations

import time

import pytest

from backends.builtin.store.port import ARRIVALS_TO_FORGET
from backends.builtin.store.postgres.store import PostgresStore

YEAR_S = 365 * 24 * 3600
OF_POSTGRES = ["postgres", "pooled"]


@pytest.fixture
def ahead(monkeypatch):
    """Sets the clock of the gateway ahead by a number of seconds."""
    true = time.time_ns

    def by(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: true() + int(seconds * 1e9))

    return by


def refuse(store, shelf, fingerprint):
    shelf.write("memory/a.md", "boiler\n")
    with store.writer() as writer:
        ((key, _),) = writer.embeddings.pending(fingerprint, limit=1)
        writer.embeddings.record_failures(fingerprint, [(key, "refused")])


def server_was_ahead(store, table, column):
    """Moves the times in the table a year ahead, as if the server's clock had been ahead when they were written."""
    more = "31536000000" if column == "retry_at_ms" else "interval '1 year'"
    with store._transaction(read_only=False) as transaction:
        transaction.end(f"UPDATE {table} SET {column} = {column} + {more}", {})


def test_a_refused_text_is_offered_again_though_the_clock_was_ahead_when_it_was_refused(
    store, shelf, fingerprint, ahead
):
    ahead(YEAR_S)
    refuse(store, shelf, fingerprint)
    ahead(0)
    if isinstance(store, PostgresStore):  # it uses its own clock
        with store.view() as view:
            assert 0 < view.embeddings.next_retry_s(fingerprint) < 60
        server_was_ahead(store, "embedding_failures", "retry_at_ms")
    with store.view() as view:
        assert view.embeddings.next_retry_s(fingerprint) == 0
        assert len(view.embeddings.pending(fingerprint, limit=1)) == 1


def test_one_that_was_refused_just_now_is_not_offered(store, shelf, fingerprint):
    refuse(store, shelf, fingerprint)
    with store.view() as view:
        assert 0 < view.embeddings.next_retry_s(fingerprint) <= 5
        assert view.embeddings.pending(fingerprint, limit=1) == []


def test_a_gateway_whose_clock_stays_40_days_ahead_forgets_no_other_that_is_in_use(opened, ahead):
    one, other = opened("one"), opened("other")
    for day in range(2 * ARRIVALS_TO_FORGET):
        for store, days_ahead in ((one, 0), (other, 40)):
            ahead((day + days_ahead) * 24 * 3600)
            with store.writer() as writer:
                writer.arrive()
    with other.view() as view:
        assert {seen.name for seen in view.viewpoints()} == {"one", "other"}


@pytest.mark.parametrize("opened", OF_POSTGRES, indirect=True)
class TestServers:
    def test_a_lease_that_was_given_by_a_clock_ahead_is_free(self, opened, shelf):
        store, other = opened("one"), opened("other")
        shelf.write("memory/a.md", "boiler\n")
        lease = store.lease("embedding", 60)
        assert other.lease("embedding", 60) is None
        server_was_ahead(store, "leases", "until")
        assert other.lease("embedding", 60) is not None
        assert not store.renew(lease, 60)

    def test_texts_that_were_claimed_by_a_clock_ahead_are_offered(self, opened, shelf, fingerprint):
        store, other = opened("one"), opened("other")
        shelf.write("memory/a.md", "boiler\n")
        with store.view() as view:
            ((key, _),) = view.embeddings.pending(fingerprint, limit=1)
        store.claim(store.lease("embedding", 60), [key])
        for is_offered in (False, True):
            with other.view() as view:
                assert len(view.embeddings.pending(fingerprint, limit=1)) == is_offered
                assert (view.embeddings.claims_end_s() is None) == is_offered
            server_was_ahead(store, "claims", "until")

    def test_a_gateway_whose_clock_is_40_days_ahead_forgets_no_other(self, opened, ahead):
        one, other = opened("one"), opened("other")
        for store in (one, other):
            with store.writer() as writer:
                writer.arrive()
        ahead(40 * 24 * 3600)
        for _ in range(2):
            with other.writer() as writer:
                writer.arrive()
        with other.view() as view:
            assert {seen.name for seen in view.viewpoints()} == {"one", "other"}
            assert all(
                seen.used_at_ms < (time.time_ns() // 1_000_000) - 39 * 24 * 3600 * 1000
                for seen in view.viewpoints()
            )
