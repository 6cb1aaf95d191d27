"""Commands on the tables in PostgreSQL: checking them, and dropping an agent's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from backends.builtin.store.postgres import leases, schema
from backends.builtin.store.postgres.file_rows import add_words
from backends.builtin.store.postgres.schema import SELECT_CATALOGUE, catalogue, differences
from backends.interface import StoreCheck, StoreDetails, StoreRole

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentTransaction

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
        SELECT 'store_schema', false, '', (SELECT string_agg(one, ', ') FROM unnest('{INSERT,UPDATE,DELETE}'::text[]) AS one
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


def counts(transaction: AgentTransaction) -> Counts | None:
    """Compares counts and rows. Reads all words of the agent; returns None if nothing is stored of it."""
    row = transaction.run(_COUNTS).fetchone()
    return Counts(*row) if row else None


def describe(transaction: AgentTransaction) -> StoreDetails:
    server, is_standby, lag_s, extension = transaction.one(_SERVER)
    holders = leases.held(transaction)
    return StoreDetails(
        driver="postgres",
        schema_version=schema.SCHEMA_VERSION,
        role=_role(holders, leases.holder()),
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


def check(transaction: AgentTransaction, place: str) -> StoreCheck:
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
        found = counts(transaction)
        facts += _totals(transaction, found)
        if found is not None and not found.are_right:
            problems.append(f"{found} `memory-gateway index --force` makes them anew.")
    return StoreCheck(
        place=place,
        schema_version=schema.SCHEMA_VERSION,
        facts=tuple(facts),
        problems=tuple(problems),
    )


def _totals(transaction: AgentTransaction, found: Counts | None) -> list[str]:
    if found is None:
        return ["Nothing is stored of this agent yet."]
    files, chunks, vectors = transaction.one(_TOTALS)
    return [
        f"{files:,} files, {chunks:,} chunks, {vectors:,} vectors of this agent",
        *(f"{work}: {holder}" for work, holder in leases.held(transaction).items()),
    ]


def _problems_of_role(role: str, *, is_super: bool, bypasses: bool) -> Iterator[str]:
    if is_super or bypasses:
        what = "SUPERUSER" if is_super else "BYPASSRLS"
        yield (
            f"The role {role} has {what}: no row-level security keeps agents and tenants apart. "
            "Serve with another one (`store migrate --role`)."
        )


def _problems_of_tables(transaction: AgentTransaction, role: str) -> Iterator[str]:
    for (extension,) in transaction.run(schema.SELECT_UNUSABLE, {"role": role}):
        yield f"The role {role} may not use the schema {extension}, in which pgvector is. Run `store migrate --role`."
        return
    tables = {"tables": list(schema.TABLES), "schema": None}
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


def drop(transaction: AgentTransaction) -> None:
    """Deletes all rows of the agent, those that refer to others first. Waits until others have ended writing to it."""
    first, *rest = schema.AGENT_TABLES
    transaction.run(_ALONE)
    for table in reversed(rest):
        transaction.run(f"DELETE FROM {table} WHERE agent_id = %(agent)s")
    transaction.end(f"DELETE FROM {first} WHERE agent_id = %(agent)s", {})
