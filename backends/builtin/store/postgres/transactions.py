"""One agent's transaction: the parameters of each statement, the state, and the counts that are written last; and the
leases under which processes write: which does which work, by the server's clock, each time with a new number.

A process that publishes under a lease locks its row until the transaction ends (KEY SHARE): the lease may be renewed
meanwhile, but not taken over. Texts that were sent to a provider under a lease are claimed by the process that awaits
the answer. It may have lost the lease by then, but the next holder leaves these texts alone for a while, so that nobody
pays for them twice.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from psycopg.types.numeric import Int8

from backends.builtin.store.port import Corpus, Lease, LeaseLostError, Work
from config.settings import Source

if TYPE_CHECKING:
    from backends.builtin.store.port import FileCard, Word
    from backends.builtin.store.postgres.connections import Cursor, Transaction


# This steps from one language to the next: DISTINCT would read a row of each file.
_SELECT_STATE: Final = """
    SELECT a.version, a.documents,
        EXISTS (SELECT 1 FROM files AS f WHERE f.agent_id = a.agent_id AND f.source = 'memory'),
        EXISTS (SELECT 1 FROM files AS f WHERE f.agent_id = a.agent_id AND f.source = 'sessions'),
        ARRAY(
            WITH RECURSIVE found (language) AS (
                (SELECT min(language) FROM file_languages AS l WHERE l.agent_id = a.agent_id)
                UNION ALL
                SELECT (SELECT min(language) FROM file_languages AS l
                    WHERE l.agent_id = a.agent_id AND l.language > found.language)
                FROM found WHERE found.language IS NOT NULL
            )
            SELECT language FROM found WHERE language IS NOT NULL
        )
    FROM agents AS a WHERE a.agent_id = %(agent)s
"""
_SELECT_FINGERPRINTS: Final = """
    SELECT digest, fingerprint_id, dimensions, EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indisvalid
        AND i.indexrelid = to_regclass('embeddings_of_' || agent_id || '_' || fingerprint_id))
    FROM fingerprints WHERE agent_id = %(agent)s
"""
_COUNT_TERMS: Final = """
    INSERT INTO term_counts AS t (agent_id, term, chunks)
    SELECT %(agent)s, term, more FROM unnest(%(terms)s::text[], %(more)s::bigint[]) AS n (term, more)
    ON CONFLICT (agent_id, term) DO UPDATE SET chunks = t.chunks + excluded.chunks
"""
_FORGET_TERMS: Final = """
    DELETE FROM term_counts
    WHERE agent_id = %(agent)s AND term = ANY(%(gone)s::text[]) AND chunks <= 0
"""
_COUNT_CHUNKS: Final = """
    UPDATE agents SET version = %(new)s, documents = documents + %(documents)s,
        tokens = tokens + %(tokens)s
    WHERE agent_id = %(agent)s
"""
_REMEMBER: Final = """
    INSERT INTO meta (agent_id, viewpoint, key, value) VALUES (%(agent)s, %(of)s, %(key)s, %(value)s)
    ON CONFLICT (agent_id, viewpoint, key) DO UPDATE SET value = excluded.value
"""


_STEP_TERMS: Final = 10_000


NOW_MS: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The time by the server's clock, which is the same for all gateways."""


def new_number() -> int:
    """Returns a random number: a sequence would repeat numbers in a database that was restored to an earlier state."""
    return secrets.randbits(62) + 1


AgentStatement = tuple[str, Mapping[str, object]]
"""SQL with named parameters, and their values."""


class StoredVectors(NamedTuple):
    """A fingerprint that has vectors."""

    fingerprint_id: int
    dimensions: int
    has_index: bool
    """True if `store migrate` made an approximate index of them."""


class State(NamedTuple):
    """Facts that every search needs first."""

    version: int
    """Another one after every commit."""
    corpus: Corpus
    fingerprints: Mapping[bytes, StoredVectors]
    """The fingerprints that have vectors, by digest."""


class AgentTransaction:
    """A transaction in which statements can use the agent and its viewpoint, as `%(agent)s` and `%(viewpoint)s`.

    `%(claimant)s` is the store that asks: nobody else sends the texts that it sent to a provider. Words and chunks are
    counted while they are written, so that rows that every writer changes are locked last and in one order.
    """

    def __init__(
        self,
        transaction: Transaction,
        agent: int | None,
        viewpoint: str,
        claimant: str,
        go_on: Sequence[AgentStatement] = (),
    ) -> None:
        """`go_on`: the statements that give each further step of a long change its own time."""
        self._transaction = transaction
        self._own: dict[str, object] = {
            "agent": Int8(agent or 0),
            "viewpoint": viewpoint,
            "claimant": claimant,
        }
        self.agent = agent
        self.viewpoint = viewpoint
        self._state: State | None = None
        self.word_counts: dict[Word, int] = {}
        """The number of chunks that contain each word that was looked up."""
        self.cards: dict[int, FileCard] = {}
        """The cards of files whose chunks were read."""
        self._go_on = tuple(go_on)
        self._is_changed = False
        self._terms: Counter[str] = Counter()
        self._documents = self._tokens = 0

    @property
    def trips(self) -> int:
        return self._transaction.trips

    def run(self, statement: str, parameters: Mapping[str, object] | None = None) -> Cursor:
        return self._transaction.run(statement, {**self._own, **(parameters or {})})

    def run_all(self, *statements: AgentStatement) -> list[Cursor]:
        return self._transaction.run_all(
            *((text, {**self._own, **parameters}) for text, parameters in statements)
        )

    def end(self, statement: str, parameters: Mapping[str, object]) -> Cursor:
        """Runs a statement and commits. For changes that readers need not notice: the version of the index stays."""
        return self._transaction.end((statement, {**self._own, **parameters}))[-1]

    def one(self, statement: str, parameters: Mapping[str, object] | None = None) -> Any:
        """Returns the only row."""
        (row,) = self.run(statement, parameters)
        return row

    @property
    def state(self) -> State:
        """The state, read once, in one round trip."""
        if self._state is None:
            found, known = self.run_all((_SELECT_STATE, {}), (_SELECT_FINGERPRINTS, {}))
            row = found.fetchone() or (0, 0, False, False, ())
            version, documents, has_memory, has_sessions, languages = row
            sources: tuple[tuple[Source, bool], ...]
            sources = ("memory", has_memory), ("sessions", has_sessions)
            self._state = State(
                version,
                Corpus(documents, tuple(languages), frozenset(one for one, has in sources if has)),
                {digest: StoredVectors(*rest) for digest, *rest in known},
            )
        return self._state

    def write_all(self, *statements: AgentStatement) -> list[Cursor]:
        self._is_changed = True
        return self.run_all(*statements)

    def step(self, *statements: AgentStatement) -> list[Cursor]:
        """Does the same as `write_all`, with as much time as the transaction had at its beginning."""
        return self.write_all(*self._go_on, *statements)[len(self._go_on) :]

    def write(self, statement: str, parameters: Mapping[str, object] | None = None) -> Cursor:
        return self.write_all((statement, parameters or {}))[-1]

    def forget_state(self) -> None:
        """Makes `state` be read again, because this transaction has changed it."""
        self._state = None

    def remember(self, key: str, text: str, *, here: bool) -> None:
        row = {"key": key, "value": text, "of": self.viewpoint if here else ""}
        self.write(_REMEMBER, row)

    def count_words(
        self, *, added: Sequence[str] = (), removed: Sequence[str] = (), documents: int, tokens: int
    ) -> None:
        """Counts words, each once a chunk, chunks and tokens, to be written later."""
        self._terms.update(added)
        self._terms.subtract(removed)
        self._documents += documents
        self._tokens += tokens

    def settle(self) -> None:
        """Writes the counts into the tables, to be read in the same transaction."""
        if self._documents or self._tokens or any(self._terms.values()):
            self.run_all(*self._counts())
            self.forget_state()

    def commit(self) -> None:
        if self._is_changed:
            self._transaction.end(*((text, {**self._own, **row}) for text, row in self._counts()))

    def _counts(self) -> list[AgentStatement]:
        """Returns the statements that write the counts, sorted by word: two writers never wait for each other."""
        changed = sorted((term, more) for term, more in self._terms.items() if more)
        work: list[AgentStatement] = []
        for start in range(0, len(changed), _STEP_TERMS):
            some = changed[start : start + _STEP_TERMS]
            terms, more = [term for term, _ in some], [more for _, more in some]
            gone = [term for term, more in some if more < 0]
            if start:
                work += self._go_on
            work.append((_COUNT_TERMS, {"terms": terms, "more": more}))
            if gone:
                work.append((_FORGET_TERMS, {"gone": gone}))
        counts = {"documents": self._documents, "tokens": self._tokens, "new": new_number()}
        work.append((_COUNT_CHUNKS, counts))
        self._terms.clear()
        self._documents = self._tokens = 0
        return work


# --- Leases ---------------------------------------------------------------------------------------

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


def name_holder() -> str:
    """Returns the name of this process in a lease, for people."""
    return f"{os.uname().nodename} ({os.getpid()})"


def take_lease(transaction: AgentTransaction, work: Work, ttl_s: float) -> Lease | None:
    wanted = {"work": work, "ttl": ttl_s, "holder": name_holder(), "new": new_number()}
    row = transaction.end(_TAKE, wanted).fetchone()
    return Lease(work, row[0]) if row else None


def renew_lease(transaction: AgentTransaction, lease: Lease, ttl_s: float) -> bool:
    return transaction.end(_RENEW, {**msgspec.structs.asdict(lease), "ttl": ttl_s}).rowcount > 0


def give_back_lease(transaction: AgentTransaction, lease: Lease) -> None:
    transaction.end(_GIVE_BACK, msgspec.structs.asdict(lease))


def claim_texts(transaction: AgentTransaction, lease: Lease, text_hashes: Sequence[bytes]) -> None:
    """Claims the texts for this process. Raises LeaseLostError."""
    check_lease(transaction, lease)
    transaction.end(_CLAIM, {"hashes": list(text_hashes)})


def release_texts(transaction: AgentTransaction, text_hashes: Sequence[bytes]) -> None:
    transaction.end(_RELEASE, {"hashes": list(text_hashes)})


def check_lease(transaction: AgentTransaction, lease: Lease) -> None:
    """Keeps others from taking the lease until the transaction ends. Raises LeaseLostError."""
    if transaction.run(_CHECK, msgspec.structs.asdict(lease)).fetchone() is None:
        raise LeaseLostError(lease.work)


def held_leases(transaction: AgentTransaction) -> dict[str, str]:
    """Returns the holders of all leases that are held at this moment, by their work."""
    return dict(transaction.run(_HELD).fetchall())
