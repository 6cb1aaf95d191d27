"""What a person asks of the tables in PostgreSQL: whether they are as they should be, and that an agent's rows go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from backends.builtin.store.postgres import leases, schema
from backends.interface import StoreCheck, StoreDetails, StoreRole

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentTransaction

_SERVER: Final = """
    SELECT current_setting('server_version'), pg_is_in_recovery(),
        CASE WHEN pg_is_in_recovery()
            THEN extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 END,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector')
"""
_ROLE: Final = """
    SELECT rolname, rolsuper, rolbypassrls, has_schema_privilege(current_schema(), 'CREATE')
    FROM pg_roles WHERE rolname = current_user
"""
_UNPROTECTED: Final = """
    SELECT c.relname FROM pg_class AS c
    WHERE c.oid = ANY (SELECT name::regclass FROM unnest(%(tables)s::text[]) AS name)
        AND NOT (c.relrowsecurity AND c.relforcerowsecurity) ORDER BY 1
"""
_COUNTS: Final = """
    SELECT a.documents, (SELECT count(*) FROM chunks WHERE agent_id = %(agent)s),
        (SELECT coalesce(sum(chunk_count), 0)::bigint FROM files WHERE agent_id = %(agent)s),
        (SELECT count(*) FROM files WHERE agent_id = %(agent)s),
        (SELECT count(*) FROM embeddings WHERE agent_id = %(agent)s),
        (SELECT count(*) FROM (
            SELECT term, chunks FROM term_counts WHERE agent_id = %(agent)s
            EXCEPT ALL
            SELECT term, count(*) FROM postings WHERE agent_id = %(agent)s GROUP BY term) AS t)
    FROM agents AS a WHERE a.agent_id = %(agent)s
"""


def describe(transaction: AgentTransaction) -> StoreDetails:
    server, is_standby, lag_s, extension = transaction.one(_SERVER)
    held = {one.work: one.holder for one in leases.held(transaction)}
    return StoreDetails(
        driver="postgres",
        schema_version=schema.SCHEMA_VERSION,
        role=_role(held, leases.holder()),
        server=f"PostgreSQL {server.split()[0]}, pgvector {extension}",
        read_only=is_standby,
        lag_s=lag_s,
        leases=held,
    )


def _role(held: dict[str, str], own: str) -> StoreRole:
    working = {one for work, one in held.items() if not work.startswith("verify")}
    if own in working:
        return "leader"
    return "follower" if working else "idle"


def check(transaction: AgentTransaction, place: str) -> StoreCheck:
    """Reads all of one agent's words."""
    server, is_standby, _, extension = transaction.one(_SERVER)
    role, is_super, bypasses, may_make = transaction.one(_ROLE)
    row = transaction.run(_COUNTS).fetchone()
    facts = [f"PostgreSQL {server.split()[0]}, pgvector {extension}, as role {role}"]
    if is_standby:
        facts.append("The server is a standby: it answers, and takes nothing.")
    if may_make:
        facts.append(f"The role {role} may make tables; one that only serves need not.")
    facts.append(_held_by(row))
    facts += [f"{one.work}: {one.holder}" for one in leases.held(transaction)]
    tables = list(schema.AGENT_TABLES)
    open_tables = [name for (name,) in transaction.run(_UNPROTECTED, {"tables": tables})]
    return StoreCheck(
        place=place,
        schema_version=schema.SCHEMA_VERSION,
        facts=tuple(facts),
        problems=(
            *_problems_of_role(role, is_super=is_super, bypasses=bypasses),
            *(f"Row-level security is off for the table {name}." for name in open_tables),
            *(_problems_of_counts(row) if row else ()),
        ),
    )


def _held_by(row: Any) -> str:
    if row is None:
        return "Nothing is stored of this agent yet."
    return f"{row[3]:,} files, {row[1]:,} chunks, {row[4]:,} vectors of this agent"


def _problems_of_role(role: str, *, is_super: bool, bypasses: bool) -> Iterator[str]:
    if is_super or bypasses:
        what = "SUPERUSER" if is_super else "BYPASSRLS"
        yield (
            f"The role {role} has {what}: no row-level security keeps agents and tenants apart. "
            "Serve with another one (`store migrate --role`)."
        )


def _problems_of_counts(row: Any) -> Iterator[str]:
    documents, chunks, claimed, _, _, terms = row
    if documents != chunks or claimed != chunks:
        yield (
            f"{chunks:,} chunks are stored, and {documents:,} and {claimed:,} are counted. "
            "`store drop-agent` and `index` make them anew."
        )
    if terms:
        yield (
            f"{terms:,} words are counted wrongly. `store drop-agent` and `index` make them anew."
        )


def drop(transaction: AgentTransaction) -> None:
    """All rows of the agent, those first that refer to others."""
    first, *rest = schema.AGENT_TABLES
    for table in reversed(rest):
        transaction.run(f"DELETE FROM {table} WHERE agent_id = %(agent)s")
    transaction.end(f"DELETE FROM {first} WHERE agent_id = %(agent)s", {})
