"""The store in PostgreSQL: one agent's rows, its views and writers, checking and dropping them, and noticing that."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import psycopg

from backends.builtin.store.port import (
    SCRUB_LIMIT_S,
    VIEWPOINT_LIFE_MS,
    IndexDamagedError,
    Lease,
    Version,
    Viewpoint,
    Work,
)
from backends.builtin.store.postgres.connections import (
    PATIENCE_S,
    TRANSACTION_TIMEOUT_FROM,
    Address,
    Pool,
    Statement,
    Transaction,
    begin,
)
from backends.builtin.store.postgres.file_rows import PostgresFiles, PostgresTranscripts, add_words
from backends.builtin.store.postgres.keywords import PostgresKeywords
from backends.builtin.store.postgres.schema import (
    AGENT_TABLES,
    SCHEMA_VERSION,
    SELECT_CATALOGUE,
    SELECT_UNUSABLE,
    TABLES,
    catalogue,
    differences,
    greeting,
    other_version,
)
from backends.builtin.store.postgres.transactions import (
    NOW_MS,
    AgentStatement,
    AgentTransaction,
    check_lease,
    claim_texts,
    give_back_lease,
    held_leases,
    name_holder,
    new_number,
    release_texts,
    renew_lease,
    take_lease,
)
from backends.interface import IndexUnavailableError, StoreCheck, StoreDetails, StoreRole
from config.runtime.logs import Log

if TYPE_CHECKING:
    from backends.builtin.store.postgres.embeddings import PostgresEmbeddings, PostgresJobs
    from backends.builtin.store.postgres.vectors import PostgresVectorMemory, PostgresVectorSpace
    from config.settings import StoreSettings, VectorStoreSettings
    from providers.provider_interface import Fingerprint


_log = Log()

UNUSED_LIFE_MS: Final = 25_000
"""The life of unused vectors: a note that another gateway is moving finds its vectors again."""
_ARRIVE: Final = f"""
    INSERT INTO viewpoints (agent_id, name, used_at_ms) VALUES (%(agent)s, %(viewpoint)s, {NOW_MS})
    ON CONFLICT (agent_id, name) DO UPDATE SET used_at_ms = excluded.used_at_ms
"""
_FORGET: Final = f"""
    WITH forgotten AS (
        DELETE FROM viewpoints WHERE agent_id = %(agent)s AND used_at_ms < {NOW_MS} - %(life)s::bigint
            AND name <> %(viewpoint)s RETURNING name
    )
    DELETE FROM meta WHERE agent_id = %(agent)s AND viewpoint IN (SELECT name FROM forgotten)
"""
_PROVE: Final = f"""
    SELECT nullif(set_config('mg.agent', coalesce((SELECT agent_id::text FROM agents
            WHERE tenant = %(tenant)s AND name = %(name)s
                AND (SELECT version FROM store_schema) = {SCHEMA_VERSION} {{lock}}), ''), true), '')::bigint,
        (SELECT version FROM store_schema)
"""
"""Makes visible and writable the rows of the agent that has this tenant and name now, whatever key the store remembers;
none in tables of another release.
"""
_UNTIL_THE_END: Final = "FOR KEY SHARE"
"""Keeps the agent from being dropped while a transaction writes to it."""
_MAKE_AGENT: Final = """
    INSERT INTO agents (agent_id, tenant, name) VALUES (%(new)s, %(tenant)s, %(name)s)
    ON CONFLICT (tenant, name) DO NOTHING
"""
# Rows of other agents cannot be counted, so the share is that of the chunks, as the server estimates them.
_SIZE: Final = """
    SELECT (SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%(tables)s::text[]) AS name)::float8,
        (SELECT reltuples FROM pg_class WHERE oid = 'chunks'::regclass)::float8,
        coalesce((SELECT documents FROM agents WHERE agent_id = %(agent)s), 0)::float8
"""


class PostgresView:
    """`View` in one transaction."""

    _locks = False
    """True if it reads what nobody else may change until the transaction ends."""

    def __init__(
        self, transaction: AgentTransaction, memory: PostgresVectorMemory | None, generation: int
    ) -> None:
        self._transaction = transaction
        self._memory = memory
        self._generation = generation
        self.files = PostgresFiles(transaction)
        self.transcripts = PostgresTranscripts(transaction, locks=self._locks)

    @property
    def keywords(self) -> PostgresKeywords:
        self._transaction.settle()
        return PostgresKeywords(self._transaction)

    @cached_property
    def embeddings(self) -> PostgresEmbeddings:
        from backends.builtin.store.postgres.embeddings import PostgresEmbeddings  # noqa: PLC0415 - not for keywords

        return PostgresEmbeddings(self._transaction)

    @cached_property
    def jobs(self) -> PostgresJobs:
        from backends.builtin.store.postgres.embeddings import PostgresJobs  # noqa: PLC0415 - as above

        return PostgresJobs(self._transaction)

    def vectors(self, fingerprint: Fingerprint) -> PostgresVectorSpace | None:
        memory = self._memory
        return None if memory is None else memory.space(self._transaction, fingerprint)

    def version(self) -> Version:
        return Version(self._generation, self._transaction.state.version)

    def files_version(self) -> Version:
        return self.version()

    def remembered(self, key: str, *, here: bool = False) -> str | None:
        transaction = self._transaction
        row = transaction.run(
            "SELECT value FROM meta"
            " WHERE agent_id = %(agent)s AND viewpoint = %(of)s AND key = %(key)s",
            {"key": key, "of": transaction.viewpoint if here else ""},
        ).fetchone()
        return row[0] if row else None

    def now_ms(self) -> int:
        (now,) = self._transaction.one(f"SELECT {NOW_MS}")
        return int(now)

    def viewpoints(self) -> list[Viewpoint]:
        rows = self._transaction.run(
            "SELECT name, used_at_ms, name = %(viewpoint)s FROM viewpoints WHERE agent_id = %(agent)s"
            " ORDER BY used_at_ms DESC, name"
        )
        return [Viewpoint(*row) for row in rows]

    def probe(self) -> None:
        self._transaction.run("SELECT 1 FROM chunks WHERE agent_id = %(agent)s LIMIT 1").fetchone()

    def details(self) -> StoreDetails:
        return describe_store(self._transaction)

    def journal(self) -> None:
        return None


class PostgresWriter(PostgresView):
    """`Writer` in a transaction that changes rows."""

    _locks = True

    def remember(self, key: str, text: str, *, here: bool = False) -> None:
        self._transaction.remember(key, text, here=here)

    def mend_words(self) -> None:
        """Writes all words again, from the chunks."""
        mend_words(self._transaction)

    def arrive(self, *, life_ms: int = VIEWPOINT_LIFE_MS) -> None:
        self._transaction.write_all((_ARRIVE, {}), (_FORGET, {"life": life_ms}))


class PostgresStore:
    """`Store`: the rows of one agent. Every method blocks and may be called from any thread."""

    def __init__(self, settings: StoreSettings, agent: str, *, viewpoint: str) -> None:
        """Does not ask the server yet, which may be down for a while. Raises IndexUnavailableError for settings that
        name no database.
        """
        self.address = Address.of(settings)
        self.notes: tuple[str, ...] = ()
        self.generation = 0
        """Goes up when the agent has another key: it was dropped, or the database was restored."""
        self._name = {"tenant": settings.tenant, "name": agent}
        self.viewpoint = viewpoint
        self._claimant = uuid4().hex
        self._timeout_ms = settings.statement_timeout_ms
        self._agent: int | None = None
        self._limits_transactions = False
        self._path: tuple[str, ...] = (settings.schema,)
        self._memory: PostgresVectorMemory | None = None
        self._writing = threading.Lock()
        self._may_have_unused = True
        statement_s = self._timeout_ms / 1000 or math.inf
        self._pool = Pool(self.address, settings.pool.max, self._greet, statement_s)

    @property
    def place(self) -> str:
        return f"{self.address}, schema {self.address.schema}"

    @property
    def exists(self) -> bool:
        """True if the agent ever wrote anything. Raises IndexUnavailableError."""
        with self.address.translating_errors():
            return self._find_agent() is not None

    @property
    def is_shared(self) -> bool:
        return True

    @contextmanager
    def view(self, *, until: float = math.inf) -> Iterator[PostgresView]:
        """Yields one state of the index. Raises IndexUnavailableError for every error of PostgreSQL."""
        with self._transaction(until) as transaction:
            yield PostgresView(transaction, self._memory, self.generation)

    @contextmanager
    def _transaction(
        self, until: float = math.inf, *, read_only: bool = True
    ) -> Iterator[AgentTransaction]:
        """Yields a transaction; one that may write is beside the writer of this process, and has to be ended."""
        with self.address.translating_errors():
            agent = self._agent or self._find_agent(until)
            if not read_only:
                agent = agent or self._make_agent()
            begun = self._begin(read_only=read_only, until=until)
            prove = partial(self._prove, agent)
            with self._pool.transaction(begun, prove, PATIENCE_S, until) as inner:
                yield AgentTransaction(inner, agent, self.viewpoint, self._claimant)

    def lease(self, work: Work, ttl_s: float) -> Lease | None:
        with self._transaction(read_only=False) as transaction:
            return take_lease(transaction, work, ttl_s)

    def renew(self, lease: Lease, ttl_s: float) -> bool:
        with self._transaction(read_only=False) as transaction:
            return renew_lease(transaction, lease, ttl_s)

    def give_back(self, lease: Lease) -> None:
        with self._transaction(read_only=False) as transaction:
            give_back_lease(transaction, lease)

    def claim(self, lease: Lease, text_hashes: Sequence[bytes]) -> None:
        with self._transaction(read_only=False) as transaction:
            claim_texts(transaction, lease, text_hashes)

    def release(self, text_hashes: Sequence[bytes]) -> None:
        with self._transaction(read_only=False) as transaction:
            release_texts(transaction, text_hashes)

    def check(self) -> StoreCheck:
        """Checks tables, roles and counts. Reads all words of the agent."""
        with self._transaction() as transaction:
            return check_store(transaction, self.place)

    def drop(self) -> bool:
        """Removes all rows of the agent, and returns whether there were any."""
        if not self.exists:
            return False
        with self._transaction(read_only=False) as transaction:
            drop_agent(transaction)
        self._agent = None
        return True

    @contextmanager
    def writer(
        self, patience_s: float | None = None, *, lease: Lease | None = None
    ) -> Iterator[PostgresWriter]:
        """Lets one writer at a time work in this process; processes wait for each other file by file."""
        if not self._writing.acquire(timeout=-1 if patience_s is None else patience_s):
            raise IndexUnavailableError(
                f"{self.place} cannot be used: another task is writing to it.",
                remedy="Somebody else holds the index; it is tried again.",
            )
        try:
            with self.address.translating_errors():
                agent = self._agent or self._find_agent() or self._make_agent()
                wait_s = PATIENCE_S if patience_s is None else patience_s
                begun = self._begin(read_only=False, lock_s=wait_s)
                prove = partial(self._prove, agent)
                with (
                    self._reporting_its_limit(),
                    self._pool.transaction(begun, prove, max(wait_s, 0.0)) as inner,
                ):
                    transaction = AgentTransaction(
                        inner, agent, self.viewpoint, self._claimant, self._go_on()
                    )
                    if lease is not None:
                        check_lease(transaction, lease)
                    yield PostgresWriter(transaction, self._memory, self.generation)
                    transaction.commit()
                    self._may_have_unused = True
        finally:
            self._writing.release()

    @contextmanager
    def _reporting_its_limit(self) -> Iterator[None]:
        """Reports a change that took too long as such: the library only says that the server has gone."""
        started = time.monotonic()
        try:
            yield
        except psycopg.OperationalError as error:
            limit_s = self._change_ms() / 1000
            if 0 < limit_s <= time.monotonic() - started:
                raise IndexUnavailableError(
                    f"{self.place} cannot be used: a change took longer than {limit_s:g} s and was undone.",
                    remedy="The server is slow; it is tried again. See store.statementTimeoutMs.",
                ) from error
            raise

    def size_bytes(self) -> int:
        """Returns the share of this agent in the size of the tables, by the server's estimates."""
        with self._transaction() as transaction:
            size, chunks, own = transaction.one(_SIZE, {"tables": list(AGENT_TABLES)})
        return int(size * own / max(chunks, own, 1.0))

    def tidy(self) -> None:
        """Does nothing: PostgreSQL tidies up itself (autovacuum)."""

    def search_files(self, texts: Sequence[bytes]) -> Mapping[Path, bool]:  # noqa: ARG002 - they are the server's
        return {}

    def erase_deleted(self, *, at_once: bool = False) -> bool:
        """Deletes unused vectors. Other rows are deleted at once, vectors half a minute later: a moved note may need
        them. Copies in the server's dead rows, its log and backups are out of our reach.
        """
        if at_once:
            with self.writer() as writer:
                writer.embeddings.forget_gone()
                writer.embeddings.refresh_use(writer.embeddings.fallen_out_of_use())
                writer.embeddings.drop_unused(0)
            return True
        if not self._may_have_unused:
            return True
        with self.view() as view:
            self._may_have_unused = view.embeddings.has_unused
        if self._may_have_unused:
            with self.writer() as writer:
                writer.embeddings.drop_unused(UNUSED_LIFE_MS)
        return True

    def scrub(self) -> bool:
        """Checks the words, and writes them again if some were removed by hand. PostgreSQL checks its own pages."""
        try:
            with self._transaction(time.monotonic() + SCRUB_LIMIT_S) as transaction:
                found = count_rows(transaction)
        except IndexUnavailableError as error:
            if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                return False
            raise
        if found is not None and not found.are_right:
            _log.warning("index counted wrongly, its words are written anew", found=str(found))
            with self.writer() as writer:
                writer.mend_words()
        return True

    def close(self) -> None:
        """Waits for a running transaction of a writer."""
        with self._writing:
            self._pool.close()

    def open_vectors(self, settings: VectorStoreSettings) -> PostgresVectorMemory | None:
        from backends.builtin.store.postgres.vectors import PostgresVectorMemory  # noqa: PLC0415 - as in a view

        self._memory = PostgresVectorMemory(settings) if settings.enabled else None
        return self._memory

    def _begin(
        self, *, read_only: bool, lock_s: float = PATIENCE_S, until: float = math.inf
    ) -> Sequence[Statement]:
        settings = {
            "statement_timeout": str(self._statement_ms(until)),
            "lock_timeout": str(max(1, round(lock_s * 1000))),
            "idle_in_transaction_session_timeout": str(_IDLE_IN_TRANSACTION_MS),
            "mg.tenant": self._name["tenant"],
            "mg.name": self._name["name"],
        }
        if self._limits_transactions:
            settings["transaction_timeout"] = "0" if read_only else str(self._change_ms())
        proof = _PROVE.format(lock="" if read_only else _UNTIL_THE_END)
        return begin(
            schema_path=self._path,
            settings=settings,
            read_only=read_only,
            proof=(proof, self._name),
        )

    def _change_ms(self) -> int:
        """Returns the time of one step of a change, after which the server ends it and the connection. 0: any time."""
        if not (self._limits_transactions and self._timeout_ms):
            return 0
        return max(_WRITING_MS, 2 * self._timeout_ms)

    def _go_on(self) -> list[AgentStatement]:
        limit_ms = self._change_ms()
        return [(_BEGIN_AGAIN, {"limit": str(limit_ms)})] if limit_ms else []

    def _statement_ms(self, until: float) -> int:
        """Returns the time of one statement: the server ends it before the connection is given up. 0: any time."""
        if until == math.inf:
            return self._timeout_ms
        left_ms = max(1, round((until - time.monotonic() - _MARGIN_S) * 1000))
        return min(left_ms, self._timeout_ms or left_ms)

    def _greet(self, connection: psycopg.Connection) -> None:
        extension = greeting(connection, self.address)
        self._limits_transactions = connection.info.server_version >= TRANSACTION_TIMEOUT_FROM
        self._path = tuple(dict.fromkeys((self.address.schema, extension)))

    def _find_agent(self, until: float = math.inf) -> int | None:
        with self._looking_for_agent(read_only=True, until=until) as transaction:
            transaction.end()
        return self._agent

    def _make_agent(self) -> int | None:
        """Makes the agent. Its key is new even in a database that was restored to an earlier state."""
        with self._looking_for_agent(read_only=False) as transaction:
            transaction.end((_MAKE_AGENT, {**self._name, "new": new_number()}))
        return self._find_agent()

    @contextmanager
    def _looking_for_agent(
        self, *, read_only: bool, until: float = math.inf
    ) -> Iterator[Transaction]:
        begun = self._begin(read_only=read_only, until=until)
        with self._pool.transaction(begun, self._note_agent, PATIENCE_S, until) as inner:
            yield inner

    def _note_agent(self, row: Any) -> None:
        found, version = row
        if version != SCHEMA_VERSION:
            raise other_version(self.address, version)
        if self._agent not in (None, found):
            self.generation += 1
        self._agent = found

    def _prove(self, agent: int | None, row: Any) -> None:
        """Raises IndexDamagedError if tenant and name have another key by now, or none."""
        found, version = row
        if version != SCHEMA_VERSION:
            raise other_version(self.address, version)
        if agent in (None, found):
            return
        if agent == self._agent:
            self._note_agent(row)
        raise IndexDamagedError(
            f"The index of {self._name['name']!r} in {self.address} is another one than before, or none:"
            " it was dropped, or the database restored. This gateway begins anew.",
            remedy="Nothing has to be done: what is missing is indexed from Markdown.",
        )


_BEGIN_AGAIN: Final = """
    SELECT set_config('transaction_timeout', '0', true), set_config('transaction_timeout', %(limit)s, true)
"""
_MARGIN_S: Final = 0.5
_WRITING_MS: Final = 30_000
"""The least time of one step of a change, for a process that was stopped between statements that it sends together,
which the server does not count as idle. A step takes well under a second; the limit is for all of its statements.
"""
_IDLE_IN_TRANSACTION_MS: Final = 15_000
"""A process that was stopped in a transaction holds its locks no longer than its leases."""


# --- Checking the tables, and dropping rows -------------------------------------------------------

# A standby that has received everything is not behind, however long ago the last change was.
_SERVER: Final = """
    SELECT current_setting('server_version'), pg_is_in_recovery(),
        CASE WHEN NOT pg_is_in_recovery() THEN NULL
            WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT 1 FROM pg_stat_wal_receiver)
            THEN 0::float8
            ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 END,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector')
"""
_ROLE: Final = """
    SELECT rolname, rolsuper, rolbypassrls, has_schema_privilege(current_schema(), 'CREATE')
    FROM pg_roles WHERE rolname = current_user
"""
# Row-level security does not restrict TRUNCATE; the rights of a role that owns the tables are reported elsewhere.
_RIGHTS: Final = """
    SELECT w.name, w.wanted, w.allowed FROM (
        SELECT t.name, r.wanted, r.right_name, CASE WHEN to_regclass(t.name) IS NULL THEN '' ELSE
            (SELECT string_agg(one, ', ') FROM unnest(string_to_array(r.right_name, ',')) AS one
                WHERE has_table_privilege(to_regclass(t.name), one) <> r.wanted) END AS allowed
        FROM unnest(%(tables)s::text[]) AS t (name) CROSS JOIN (VALUES
            (true, 'SELECT,INSERT,UPDATE,DELETE'), (false, 'TRUNCATE,TRIGGER')) AS r (wanted, right_name)
        WHERE t.name <> 'store_schema'
        UNION ALL
        SELECT 'store_schema', false, '', (
            SELECT string_agg(one, ', ') FROM unnest('{INSERT,UPDATE,DELETE}'::text[]) AS one
            WHERE has_table_privilege('store_schema', one))
    ) AS w LEFT JOIN pg_class AS c ON c.oid = to_regclass(w.name)
    WHERE w.allowed <> '' AND NOT (NOT w.wanted AND pg_has_role(c.relowner, 'USAGE')) ORDER BY 1, 2
"""
_COUNTS: Final = """
    SELECT a.documents, (SELECT count(*) FROM chunks WHERE agent_id = %(agent)s) AS chunks,
        (SELECT count(*) FROM files AS f WHERE f.agent_id = %(agent)s AND f.chunk_count <> (
            SELECT count(*) FROM chunks AS c WHERE c.agent_id = f.agent_id AND c.file_id = f.file_id)) AS files,
        a.tokens - (SELECT coalesce(sum(body + context), 0)::bigint FROM postings WHERE agent_id = %(agent)s) AS words,
        (SELECT count(*) FROM (
            SELECT term, chunks FROM term_counts WHERE agent_id = %(agent)s
            EXCEPT ALL
            SELECT term, count(*) FROM postings WHERE agent_id = %(agent)s GROUP BY term) AS t)
        + (SELECT count(*) FROM (
            SELECT term, count(*) FROM postings WHERE agent_id = %(agent)s GROUP BY term
            EXCEPT ALL
            SELECT term, chunks FROM term_counts WHERE agent_id = %(agent)s) AS t) AS terms
    FROM agents AS a WHERE a.agent_id = %(agent)s
"""
_TOTALS: Final = """
    SELECT (SELECT count(*) FROM files WHERE agent_id = %(agent)s),
        (SELECT count(*) FROM chunks WHERE agent_id = %(agent)s),
        (SELECT count(*) FROM embeddings WHERE agent_id = %(agent)s)
"""
_DROP_CUT_FILES: Final = """
    DELETE FROM files AS f WHERE f.agent_id = %(agent)s AND f.chunk_count <> (
        SELECT count(*) FROM chunks AS c WHERE c.agent_id = f.agent_id AND c.file_id = f.file_id)
"""
_ALONE: Final = "SELECT 1 FROM agents WHERE agent_id = %(agent)s FOR UPDATE"
_SELECT_TERMS: Final = """
    SELECT chunk_id, terms, context FROM chunks
    WHERE agent_id = %(agent)s AND chunk_id > %(after)s ORDER BY chunk_id LIMIT %(limit)s
"""


class Counts(NamedTuple):
    """The counts in the tables, compared with the rows."""

    documents: int
    chunks: int
    cut_files: int
    """Files that lack chunks, or have too many."""
    missing_words: int
    miscounted_terms: int

    @property
    def are_right(self) -> bool:
        faults = (self.cut_files, self.missing_words, self.miscounted_terms)
        return self.documents == self.chunks and not any(faults)

    def __str__(self) -> str:
        return (
            f"{self.chunks:,} chunks are stored and {self.documents:,} counted, {self.cut_files:,} files lack some, "
            f"{abs(self.missing_words):,} words are missing or too many, {self.miscounted_terms:,} are counted wrongly."
        )


def count_rows(transaction: AgentTransaction) -> Counts | None:
    """Compares counts and rows. Reads all words of the agent; returns None if nothing is stored of it."""
    row = transaction.run(_COUNTS).fetchone()
    return Counts(*row) if row else None


def describe_store(transaction: AgentTransaction) -> StoreDetails:
    server, is_standby, lag_s, extension = transaction.one(_SERVER)
    holders = held_leases(transaction)
    return StoreDetails(
        driver="postgres",
        schema_version=SCHEMA_VERSION,
        role=_role(holders, name_holder()),
        server=f"PostgreSQL {server.split()[0]}, pgvector {extension}",
        read_only=is_standby,
        lag_s=lag_s,
        leases=holders,
    )


def _role(holders: dict[str, str], own: str) -> StoreRole:
    working = {one for work, one in holders.items() if not work.startswith("verify")}
    if own in working:
        return "leader"
    return "follower" if working else "idle"


def check_store(transaction: AgentTransaction, place: str) -> StoreCheck:
    """Checks role and tables, and the counts if both are right. Reads all words of the agent then."""
    server, is_standby, _, extension = transaction.one(_SERVER)
    role, is_super, bypasses, may_make = transaction.one(_ROLE)
    facts = [f"PostgreSQL {server.split()[0]}, pgvector {extension}, as role {role}"]
    if is_standby:
        facts.append("The server is a standby: it answers, and takes nothing.")
    if may_make:
        facts.append(f"The role {role} may make tables; one that only serves need not.")
    problems = [
        *_problems_of_role(role, is_super=is_super, bypasses=bypasses),
        *_problems_of_tables(transaction, role),
    ]
    if not problems:
        found = count_rows(transaction)
        facts += _totals(transaction, found)
        if found is not None and not found.are_right:
            problems.append(f"{found} `memory-gateway index --force` makes them anew.")
    return StoreCheck(
        place=place,
        schema_version=SCHEMA_VERSION,
        facts=tuple(facts),
        problems=tuple(problems),
    )


def _totals(transaction: AgentTransaction, found: Counts | None) -> list[str]:
    if found is None:
        return ["Nothing is stored of this agent yet."]
    files, chunks, vectors = transaction.one(_TOTALS)
    return [
        f"{files:,} files, {chunks:,} chunks, {vectors:,} vectors of this agent",
        *(f"{work}: {holder}" for work, holder in held_leases(transaction).items()),
    ]


def _problems_of_role(role: str, *, is_super: bool, bypasses: bool) -> Iterator[str]:
    if is_super or bypasses:
        what = "SUPERUSER" if is_super else "BYPASSRLS"
        yield (
            f"The role {role} has {what}: no row-level security keeps agents and tenants apart. "
            "Serve with another one (`store migrate --role`)."
        )


def _problems_of_tables(transaction: AgentTransaction, role: str) -> Iterator[str]:
    for (extension,) in transaction.run(SELECT_UNUSABLE, {"role": role}):
        yield f"The role {role} may not use the schema {extension}, in which pgvector is. Run `store migrate --role`."
        return
    tables = {"tables": list(TABLES), "schema": None}
    (recorded,) = transaction.one("SELECT catalogue FROM store_schema")
    found = catalogue(transaction.run(SELECT_CATALOGUE, tables).fetchall())
    for difference in differences(catalogue(recorded), found):
        yield f"{difference} Run `store migrate`."
    for table, is_wanted, rights in transaction.run(_RIGHTS, tables):
        may = "may not" if is_wanted else "may, and must not,"
        yield f"The role {role} {may} {rights} the table {table}. Run `store migrate --role`."


_STEP_CHUNKS: Final = 100


def mend_words(transaction: AgentTransaction) -> None:
    """Writes all words of the agent again, from its chunks. Deletes files that lack chunks: a sync reads them again.

    It waits until others have ended writing to the agent, and keeps them from beginning meanwhile.
    """
    transaction.run(_ALONE)
    transaction.step((_DROP_CUT_FILES, {}))
    for table in ("postings", "term_counts"):
        transaction.step((f"DELETE FROM {table} WHERE agent_id = %(agent)s", {}))
    transaction.write("UPDATE agents SET documents = 0, tokens = 0 WHERE agent_id = %(agent)s")
    after = 0
    while rows := transaction.step((_SELECT_TERMS, {"after": after, "limit": _STEP_CHUNKS}))[
        -1
    ].fetchall():
        add_words(transaction, rows)
        after = rows[-1][0]


def drop_agent(transaction: AgentTransaction) -> None:
    """Deletes all rows of the agent, those that refer to others first. Waits until others have ended writing to it."""
    first, *rest = AGENT_TABLES
    transaction.run(_ALONE)
    for table in reversed(rest):
        transaction.run(f"DELETE FROM {table} WHERE agent_id = %(agent)s")
    transaction.end(f"DELETE FROM {first} WHERE agent_id = %(agent)s", {})
