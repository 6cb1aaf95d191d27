"""One agent's transaction: the parameters of each statement, the state, and the counts that are written last."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg.types.numeric import Int8

from backends.builtin.store.port import Corpus
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
