"""Leases in PostgreSQL: which process does which work, by the server's clock, each time with a new number.

A process that publishes under a lease locks its row until the transaction ends (KEY SHARE): the lease may be renewed
meanwhile, but not taken over. Texts that were sent to a provider under a lease are claimed by the process that awaits
the answer. It may have lost the lease by then, but the next holder leaves these texts alone for a while, so that nobody
pays for them twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from backends.builtin.store.port import Lease, LeaseLostError, Work
from backends.builtin.store.postgres.transactions import new_number

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentTransaction

CLAIM_S: Final = 60
"""Longer than a lease: a process that was stopped or cut off for a shorter time has not lost what it paid for."""

# No lease or claim lasts longer: one that does was given while the clock of the server was ahead.
IS_AHEAD: Final = "until > clock_timestamp() AND until < clock_timestamp() + interval '1 hour'"
# Each view of the files has to be verified separately.
_WORK: Final = "CASE %(work)s::text WHEN 'verify' THEN 'verify ' || %(viewpoint)s::text ELSE %(work)s::text END"
_KEY: Final = f"agent_id = %(agent)s AND work = {_WORK}"
_UNTIL: Final = "clock_timestamp() + make_interval(secs => %(ttl)s::float8)"
# A process that is about to publish has locked the row: the lease is not free then, and nobody waits for it.
# A process that asks for a lease, or renews one, is alive, so its claims are extended.
_CLAIMED_UNTIL: Final = f"clock_timestamp() + interval '{CLAIM_S} seconds'"
_CLAIMS_GO_ON: Final = f"""
    claimed AS (
        UPDATE claims SET until = {_CLAIMED_UNTIL}
        WHERE agent_id = %(agent)s AND claimant = %(claimant)s AND {IS_AHEAD}
    )
"""
_TAKE: Final = f"""
    WITH {_CLAIMS_GO_ON}, free AS (
        SELECT token FROM leases WHERE {_KEY} AND NOT ({IS_AHEAD}) FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE leases SET token = %(new)s, holder = %(holder)s, until = {_UNTIL}
        WHERE {_KEY} AND EXISTS (SELECT 1 FROM free) RETURNING token
    ), made AS (
        INSERT INTO leases (agent_id, work, holder, token, until)
        SELECT %(agent)s, {_WORK}, %(holder)s, %(new)s, {_UNTIL}
        WHERE NOT EXISTS (SELECT 1 FROM leases WHERE {_KEY})
        ON CONFLICT DO NOTHING RETURNING token
    )
    SELECT token FROM taken UNION ALL SELECT token FROM made
"""
_RENEW: Final = (
    f"WITH {_CLAIMS_GO_ON} UPDATE leases SET until = {_UNTIL} WHERE {_KEY} AND token = %(token)s"
)
_GIVE_BACK: Final = f"UPDATE leases SET until = '-infinity' WHERE {_KEY} AND token = %(token)s"
_CHECK: Final = f"SELECT 1 FROM leases WHERE {_KEY} AND token = %(token)s FOR KEY SHARE"
# All insert in one order, so that two never wait for each other.
_CLAIM: Final = f"""
    INSERT INTO claims (agent_id, text_hash, claimant, until)
    SELECT %(agent)s, text_hash, %(claimant)s, {_CLAIMED_UNTIL}
    FROM unnest(%(hashes)s::bytea[]) AS h (text_hash) ORDER BY text_hash
    ON CONFLICT (agent_id, text_hash) DO UPDATE SET claimant = excluded.claimant, until = excluded.until
"""
_RELEASE: Final = """
    DELETE FROM claims
    WHERE agent_id = %(agent)s AND text_hash = ANY(%(hashes)s::bytea[]) AND claimant = %(claimant)s
"""
_HELD: Final = f"""
    SELECT work, holder FROM leases WHERE agent_id = %(agent)s AND {IS_AHEAD} ORDER BY work
"""


def holder() -> str:
    """Returns the name of this process in a lease, for people."""
    return f"{os.uname().nodename} ({os.getpid()})"


def take(transaction: AgentTransaction, work: Work, ttl_s: float) -> Lease | None:
    wanted = {"work": work, "ttl": ttl_s, "holder": holder(), "new": new_number()}
    row = transaction.end(_TAKE, wanted).fetchone()
    return Lease(work, row[0]) if row else None


def renew(transaction: AgentTransaction, lease: Lease, ttl_s: float) -> bool:
    return transaction.end(_RENEW, {**msgspec.structs.asdict(lease), "ttl": ttl_s}).rowcount > 0


def give_back(transaction: AgentTransaction, lease: Lease) -> None:
    transaction.end(_GIVE_BACK, msgspec.structs.asdict(lease))


def claim(transaction: AgentTransaction, lease: Lease, text_hashes: Sequence[bytes]) -> None:
    """Claims the texts for this process. Raises LeaseLostError."""
    check(transaction, lease)
    transaction.end(_CLAIM, {"hashes": list(text_hashes)})


def release(transaction: AgentTransaction, text_hashes: Sequence[bytes]) -> None:
    transaction.end(_RELEASE, {"hashes": list(text_hashes)})


def check(transaction: AgentTransaction, lease: Lease) -> None:
    """Keeps others from taking the lease until the transaction ends. Raises LeaseLostError."""
    if transaction.run(_CHECK, msgspec.structs.asdict(lease)).fetchone() is None:
        raise LeaseLostError(lease.work)


def held(transaction: AgentTransaction) -> dict[str, str]:
    """Returns the holders of all leases that are held at this moment, by their work."""
    return dict(transaction.run(_HELD).fetchall())
