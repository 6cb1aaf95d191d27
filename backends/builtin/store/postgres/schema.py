"""The tables in PostgreSQL, the policies that separate tenants, and making them. `serve` makes nothing.

The catalogue shows how tables differ from those that `store migrate` makes: somebody may have changed them by hand,
or restored only a part of them, and a missing policy causes no error.

Every key begins with `agent_id`, so that a search reads one agent's pages, and so that the tables could be distributed
by it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec
from psycopg import errors, sql

from backends.builtin.store.port import MIN_LONG
from backends.builtin.store.postgres.connections import check_name, with_settings
from backends.interface import IndexUnavailableError

if TYPE_CHECKING:
    from psycopg import Connection

    from backends.builtin.store.postgres.connections import Address

Kind: TypeAlias = Literal["table", "column", "key", "index", "policy", "trigger"]

SELECT_PROTECTION: Final = """
    WITH own AS (
        SELECT c.oid, c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS is_protected
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = coalesce(%(schema)s::text, current_schema()) AND c.relkind IN ('r', 'p')
            AND c.relname = ANY(%(tables)s::text[])
    )
    SELECT 'table', own.name, '',
        CASE WHEN is_protected THEN 'with' ELSE 'without' END || ' row-level security for everybody' FROM own
    UNION ALL
    SELECT 'policy', own.name, p.polname, concat_ws(' ',
        CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END, 'FOR ' || p.polcmd::text,
        'TO ' || p.polroles::text, 'USING ' || pg_get_expr(p.polqual, p.polrelid),
        'WITH CHECK ' || pg_get_expr(p.polwithcheck, p.polrelid))
    FROM own JOIN pg_policy AS p ON p.polrelid = own.oid
"""
"""The protection that separates agents; each new connection checks it."""
SELECT_CATALOGUE: Final = f"""
    {SELECT_PROTECTION}
    UNION ALL
    SELECT 'column', own.name, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod),
        'COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(l.collname) END,
        CASE WHEN a.attnotnull THEN 'NOT NULL' END, CASE WHEN a.attidentity <> '' THEN 'IDENTITY' END,
        CASE WHEN a.attgenerated <> '' THEN 'GENERATED' END, pg_get_expr(d.adbin, d.adrelid),
        'STORAGE ' || a.attstorage::text)
    FROM own JOIN pg_attribute AS a ON a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type AS t ON t.oid = a.atttypid LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT 'key', own.name, k.conname, pg_get_constraintdef(k.oid, true)
    FROM own JOIN pg_constraint AS k ON k.conrelid = own.oid AND k.contype <> 'n'
    UNION ALL
    SELECT 'index', own.name, c.relname,
        pg_get_indexdef(i.indexrelid, 0, true) || CASE WHEN i.indisvalid THEN '' ELSE ' (not valid)' END
    FROM own JOIN pg_index AS i ON i.indrelid = own.oid JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE NOT starts_with(c.relname, 'embeddings_of_')
        AND NOT EXISTS (SELECT 1 FROM pg_constraint AS k WHERE k.conindid = i.indexrelid AND k.conrelid = own.oid)
    UNION ALL
    SELECT 'trigger', own.name, t.tgname, CASE WHEN t.tgisinternal THEN 'is switched off' ELSE 'is there' END
    FROM own JOIN pg_trigger AS t ON t.tgrelid = own.oid
    WHERE NOT t.tgisinternal OR t.tgenabled NOT IN ('O', 'A')
"""


class Part(NamedTuple):
    """Something that belongs to a table."""

    kind: Kind
    table: str
    name: str
    """Empty for the table itself."""

    def __str__(self) -> str:
        if not self.name:
            return f"the table {self.table}"
        return f"the {self.kind} {self.name} of {self.table}"


Catalogue: TypeAlias = Mapping[Part, str]
"""The definition of each part, in PostgreSQL's words."""


class Difference(NamedTuple):
    """A part that is not as it should be; `wanted` or `found` is None where it does not exist."""

    part: Part
    wanted: str | None
    found: str | None

    def __str__(self) -> str:
        name = str(self.part)
        name = name[:1].upper() + name[1:]
        if self.found is None:
            return f"{name} is missing."
        if self.wanted is None:
            return f"{name} ({self.found}) is none that `store migrate` makes."
        return f"{name} is {self.found!r} instead of {self.wanted!r}."


def catalogue(rows: Iterable[Sequence[str]]) -> Catalogue:
    """Builds a catalogue of rows of `SELECT_CATALOGUE`: kind, table, name and definition."""
    return {Part(cast("Kind", kind), table, name): text for kind, table, name, text in rows}


def differences(wanted: Catalogue, found: Catalogue) -> Iterator[Difference]:
    """Yields the differences, except for parts of a missing table, and additional indexes that are not unique."""
    missing = {part.table for part in wanted.keys() - found.keys() if part.kind == "table"}
    for part in sorted(wanted.keys() | found.keys()):
        one = Difference(part, wanted.get(part), found.get(part))
        if one.wanted == one.found or (part.name and part.table in missing):
            continue
        if part.kind == "index" and one.wanted is None and " UNIQUE " not in f"{one.found}":
            continue
        yield one


SCHEMA_VERSION: Final = 2
MIN_SERVER: Final = 15
MIN_PGVECTOR: Final = (0, 7)

LONG: Final = f"char_length(term) >= {MIN_LONG} AND term !~ '[0-9_]'"
"""A condition on `term_counts`: the terms that `long_words` finds."""
_WORD_ENDS: Final = (
    f"CREATE INDEX IF NOT EXISTS word_ends ON term_counts (agent_id, reverse(term)) WHERE {LONG};"
)

_DDL: Final = """
CREATE TABLE IF NOT EXISTS agents (
    agent_id bigint PRIMARY KEY,             -- random, so that no two ever have the same
    tenant text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL DEFAULT 0,       -- another one after every commit
    documents bigint NOT NULL DEFAULT 0,     -- chunks
    tokens bigint NOT NULL DEFAULT 0,        -- words of all chunks
    UNIQUE (tenant, name)
);

CREATE TABLE IF NOT EXISTS files (
    agent_id bigint NOT NULL REFERENCES agents,
    file_id bigint GENERATED BY DEFAULT AS IDENTITY,
    source text NOT NULL,
    path text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,                -- of the copy that was read
    content_hash bytea NOT NULL,
    pipeline text NOT NULL,                  -- chunking and analyser that made the chunks
    note_date text,                          -- ISO date in the file's name, or in its front matter
    chunk_count bigint NOT NULL,
    revision bigint NOT NULL DEFAULT 1,      -- another one after every publication of a note
    PRIMARY KEY (agent_id, file_id),
    UNIQUE (agent_id, source, path)
);

CREATE TABLE IF NOT EXISTS viewpoints (                    -- the hosts that share the index
    agent_id bigint NOT NULL REFERENCES agents,
    name text COLLATE "C" NOT NULL,
    used_at_ms bigint NOT NULL,
    PRIMARY KEY (agent_id, name)
);

CREATE TABLE IF NOT EXISTS stamps (                        -- each viewpoint's copy of a file when it was last read
    agent_id bigint NOT NULL,
    viewpoint text COLLATE "C" NOT NULL,
    file_id bigint NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    ctime_ns bigint NOT NULL,
    inode bigint NOT NULL,
    read_at_ns bigint NOT NULL,              -- clock just before it was read
    content_hash bytea NOT NULL,             -- of that copy, which need not be the one that is indexed
    PRIMARY KEY (agent_id, viewpoint, file_id),
    FOREIGN KEY (agent_id, file_id) REFERENCES files ON DELETE CASCADE,
    FOREIGN KEY (agent_id, viewpoint) REFERENCES viewpoints ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS stamps_by_file ON stamps (agent_id, file_id);

CREATE TABLE IF NOT EXISTS chunks (
    agent_id bigint NOT NULL,
    chunk_id bigint GENERATED BY DEFAULT AS IDENTITY,
    file_id bigint NOT NULL,
    start bigint NOT NULL,                   -- offset in the file's text, in characters
    start_line bigint NOT NULL,
    end_line bigint NOT NULL,
    identity bytea NOT NULL,                 -- hash of everything that is stored for the chunk but its place
    headings text NOT NULL,                  -- heading path, joined by U+001F
    text bytea NOT NULL,                     -- UTF-8: the type text could not hold U+0000
    terms text NOT NULL,                     -- index terms, one line a unit of the text
    context text NOT NULL,                   -- index terms of path, title, date and headings
    PRIMARY KEY (agent_id, chunk_id),
    FOREIGN KEY (agent_id, file_id) REFERENCES files ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS chunks_by_file ON chunks (agent_id, file_id, start);

CREATE TABLE IF NOT EXISTS postings (                      -- how often each word stands in each chunk
    agent_id bigint NOT NULL,
    term text COLLATE "C" NOT NULL,
    chunk_id bigint NOT NULL,
    body smallint NOT NULL,
    context smallint NOT NULL,
    length integer NOT NULL,                 -- words of the chunk
    PRIMARY KEY (agent_id, term, chunk_id) INCLUDE (body, context, length)
);
CREATE TABLE IF NOT EXISTS term_counts (                   -- in how many chunks each word is
    agent_id bigint NOT NULL,
    term text COLLATE "C" NOT NULL,
    chunks bigint NOT NULL,
    PRIMARY KEY (agent_id, term)
);

CREATE TABLE IF NOT EXISTS excerpts (                      -- the pieces of chunks that are embedded; they never overlap
    agent_id bigint NOT NULL,
    excerpt_id bigint GENERATED BY DEFAULT AS IDENTITY,
    chunk_id bigint NOT NULL,
    file_id bigint NOT NULL,
    start bigint NOT NULL,                   -- characters of the chunk's text
    "end" bigint NOT NULL,
    line bigint NOT NULL,                    -- of the first character, counted from 0 in the chunk
    text_hash bytea NOT NULL,                -- key of its embedding
    PRIMARY KEY (agent_id, excerpt_id),
    FOREIGN KEY (agent_id, chunk_id) REFERENCES chunks ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS excerpts_by_chunk ON excerpts (agent_id, chunk_id, start);
CREATE INDEX IF NOT EXISTS excerpts_by_file ON excerpts (agent_id, file_id);
CREATE INDEX IF NOT EXISTS excerpts_by_text ON excerpts (agent_id, text_hash, file_id);

CREATE TABLE IF NOT EXISTS transcript_parts (              -- what was taken in of each transcript, append by append
    agent_id bigint NOT NULL,
    file_id bigint NOT NULL,
    end_byte bigint NOT NULL,
    end_line bigint NOT NULL,
    end_turn bigint NOT NULL,
    end_char bigint NOT NULL,
    first_turn bigint NOT NULL,              -- of this part, counted from 1 through the transcript
    lines bytea NOT NULL,                    -- number of the entry of each turn, 32-bit little-endian
    digest bytea NOT NULL,                   -- of the part's entries
    tail bytea NOT NULL,                     -- of what stands just before its end
    superseded boolean NOT NULL,             -- of an earlier pass; answers until it is replaced
    PRIMARY KEY (agent_id, file_id, end_byte),
    FOREIGN KEY (agent_id, file_id) REFERENCES files ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS file_languages (                -- in which the texts of a file were stemmed
    agent_id bigint NOT NULL,
    language text COLLATE "C" NOT NULL,
    file_id bigint NOT NULL,
    PRIMARY KEY (agent_id, language, file_id),
    FOREIGN KEY (agent_id, file_id) REFERENCES files ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS file_languages_by_file ON file_languages (agent_id, file_id);

CREATE TABLE IF NOT EXISTS note_facts (                    -- what a note says of itself, if it says anything
    agent_id bigint NOT NULL,
    file_id bigint NOT NULL,
    title text NOT NULL,
    aliases text NOT NULL,                   -- joined by U+001F, as tags
    tags text NOT NULL,
    encoding text NOT NULL,                  -- empty for UTF-8
    PRIMARY KEY (agent_id, file_id),
    FOREIGN KEY (agent_id, file_id) REFERENCES files ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS fingerprints (
    agent_id bigint NOT NULL REFERENCES agents,
    fingerprint_id bigint GENERATED BY DEFAULT AS IDENTITY,
    digest bytea NOT NULL,                   -- provider, model, endpoint, dimensions, input types
    description jsonb NOT NULL,              -- the same, for people
    dimensions integer NOT NULL,
    PRIMARY KEY (agent_id, fingerprint_id),
    UNIQUE (agent_id, digest)
);

CREATE TABLE IF NOT EXISTS embeddings (                    -- the one durable copy of each vector
    agent_id bigint NOT NULL,
    fingerprint_id bigint NOT NULL,
    text_hash bytea NOT NULL,
    embedding_id bigint GENERATED BY DEFAULT AS IDENTITY,
    used_at_ms bigint NOT NULL,              -- 0: a chunk uses it; else since when none does
    half halfvec GENERATED ALWAYS AS (vector::halfvec) STORED,
    vector vector NOT NULL,                  -- of length 1
    PRIMARY KEY (agent_id, fingerprint_id, text_hash),
    FOREIGN KEY (agent_id, fingerprint_id) REFERENCES fingerprints ON DELETE CASCADE
);
-- What a search scans lies together; the precise vectors, which only the best are rescored with, elsewhere.
ALTER TABLE embeddings ALTER COLUMN half SET STORAGE MAIN, ALTER COLUMN vector SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS embeddings_by_id ON embeddings (agent_id, embedding_id);
CREATE INDEX IF NOT EXISTS embeddings_unused ON embeddings (agent_id, used_at_ms) WHERE used_at_ms > 0;

CREATE TABLE IF NOT EXISTS embedding_failures (            -- texts that a provider refused; tried again later
    agent_id bigint NOT NULL REFERENCES agents,
    digest bytea NOT NULL,                   -- of the fingerprint, which may have no vector yet
    text_hash bytea NOT NULL,
    reason text NOT NULL,
    attempts bigint NOT NULL,
    retry_at_ms bigint NOT NULL,             -- not offered again before
    PRIMARY KEY (agent_id, digest, text_hash)
);

CREATE TABLE IF NOT EXISTS batch_jobs (                    -- what was handed to a vendor's batch jobs
    agent_id bigint NOT NULL REFERENCES agents,
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    label text NOT NULL,                     -- random; names the job's file at the vendor
    digest bytea NOT NULL,
    state text NOT NULL,                     -- prepared, uploaded, submitted, ended, read, closed
    items bigint NOT NULL,
    stored bigint NOT NULL,
    refused bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    submitted_at_ms bigint,
    next_at_ms bigint NOT NULL,
    attempts bigint NOT NULL,
    cancelling boolean NOT NULL,
    remote_id text,
    remote_state text,
    remote_done bigint NOT NULL,
    input_file text,
    result_files text NOT NULL,              -- ids, joined by spaces
    outcome text,
    reason text,
    PRIMARY KEY (agent_id, id),
    UNIQUE (agent_id, label)
);
CREATE INDEX IF NOT EXISTS batch_jobs_open ON batch_jobs (agent_id, digest) WHERE state <> 'closed';

CREATE TABLE IF NOT EXISTS batch_items (                   -- texts that wait for a job; no other request offers them
    agent_id bigint NOT NULL,
    digest bytea NOT NULL,
    text_hash bytea NOT NULL,
    job_id bigint NOT NULL,
    PRIMARY KEY (agent_id, digest, text_hash),
    FOREIGN KEY (agent_id, job_id) REFERENCES batch_jobs ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS batch_items_by_job ON batch_items (agent_id, job_id);

CREATE TABLE IF NOT EXISTS leases (                        -- who does what one gateway at a time does
    agent_id bigint NOT NULL,
    work text COLLATE "C" NOT NULL,
    holder text NOT NULL,                    -- host and process, for people
    token bigint NOT NULL,                   -- another one each time that the work changes hands
    until timestamptz NOT NULL,
    PRIMARY KEY (agent_id, work)
);

CREATE TABLE IF NOT EXISTS claims (                        -- texts that were sent to a provider and not answered yet
    agent_id bigint NOT NULL REFERENCES agents,
    text_hash bytea NOT NULL,
    claimant text NOT NULL,                  -- the process that will store the answer
    until timestamptz NOT NULL,              -- unless nothing was heard of it until then
    PRIMARY KEY (agent_id, text_hash)
);

CREATE TABLE IF NOT EXISTS meta (
    agent_id bigint NOT NULL REFERENCES agents,
    viewpoint text COLLATE "C" NOT NULL,     -- empty: for all
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (agent_id, viewpoint, key)
);

CREATE TABLE IF NOT EXISTS store_schema (
    version integer NOT NULL,
    catalogue jsonb NOT NULL DEFAULT '[]'    -- what the tables were like when they were made
);
"""
TABLES: Final = tuple(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", _DDL))
AGENT_TABLES: Final = tuple(name for name in TABLES if name != "store_schema")
"""The tables whose rows belong to agents, referenced ones first."""

_OWN: Final = "agent_id = nullif(current_setting('mg.agent', true), '')::bigint"
# An agent is looked up by its name, since its key is not known before.
_OWN_NAME: Final = (
    "tenant = current_setting('mg.tenant', true) AND name = current_setting('mg.name', true)"
)


_CHANGES: Final = {
    1: f"""
        ALTER TABLE agents ALTER agent_id DROP IDENTITY IF EXISTS;
        ALTER POLICY own_rows ON agents USING ({_OWN_NAME});
        ALTER TABLE store_schema ADD IF NOT EXISTS catalogue jsonb NOT NULL DEFAULT '[]';
    """
}
"""The statements that turn each version into the next. Agents keep their keys; the sequence of the keys is gone."""

_ONE_AT_A_TIME: Final = (
    "SELECT pg_advisory_xact_lock(hashtextextended('memory-gateway store migrate', 0))"
)


def migrate(address: Address, *, role: str | None = None) -> list[str]:
    """Makes missing parts, makes parts again that somebody changed by hand, and returns what was done. Works in one
    transaction, and may be repeated.

    `role`, if given, may read and write afterwards, and make nothing. Blocks. Raises IndexUnavailableError, also for
    tables with other columns than they should have: nothing is done then.
    """
    if role is not None:
        check_name("role", role, "--role")
    with address.connected() as connection:
        connection.autocommit = False
        with connection.transaction():
            connection.execute(_ONE_AT_A_TIME)
            found = _version_in(connection, address)
            if found is not None and found > SCHEMA_VERSION:
                raise other_version(address, found)
            _make_schema(connection, address)
            if found is not None:
                # An owner that also serves (--role) has lost this right: see `_grant`.
                connection.execute("GRANT ALL ON store_schema TO CURRENT_USER")
                # Every transaction reads this table, so none is running from here on.
                connection.execute("LOCK TABLE store_schema IN ACCESS EXCLUSIVE MODE")
            for version in range(found or SCHEMA_VERSION, SCHEMA_VERSION):
                connection.execute(_CHANGES[version])
            mended = _make_tables(connection, address, is_new=found is None)
            if role is not None:
                _grant(connection, address, role)
    done = "is as it should be" if found == SCHEMA_VERSION else f"now has version {SCHEMA_VERSION}"
    return [
        *(f"{one} It is made anew." for one in mended),
        f"The schema {address.schema} of {address} {done}.",
    ]


def _make_tables(connection: Connection, address: Address, *, is_new: bool) -> list[Difference]:
    """Makes the tables; returns what was different before."""
    wanted = _as_made(connection, address)
    before = [] if is_new else list(differences(wanted, _catalogue_of(connection)))
    _refuse(address, [one for one in before if one.part.kind in {"column", "trigger"}])
    for difference in before:
        _take_out(connection, difference)
    _run_ddl(connection)
    for part, text in wanted.items():
        if part.kind == "key" and part in {one.part for one in before}:
            change = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} " + text)
            connection.execute(change.format(sql.Identifier(part.table), sql.Identifier(part.name)))
    _refuse(address, list(differences(wanted, _catalogue_of(connection))))
    rows = msgspec.json.encode([[*part, text] for part, text in wanted.items()]).decode()
    connection.execute("DELETE FROM store_schema")
    connection.execute("INSERT INTO store_schema VALUES (%s, %s)", (SCHEMA_VERSION, rows))
    return before


def _as_made(connection: Connection, address: Address) -> Catalogue:
    """Returns the catalogue of new tables on this server, made in a temporary schema."""
    scratch = f"mg_{secrets.token_hex(8)}"
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(scratch)))
    _enter(connection, address, scratch)
    _run_ddl(connection)
    made = _catalogue_of(connection)
    connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(scratch)))
    _enter(connection, address)
    return made


def _run_ddl(connection: Connection) -> None:
    connection.execute(_DDL + _WORD_ENDS)
    for table in AGENT_TABLES:
        _protect(connection, table)


def _catalogue_of(connection: Connection) -> Catalogue:
    asked = {"tables": list(TABLES), "schema": None}
    return catalogue(connection.execute(SELECT_CATALOGUE, asked).fetchall())


def _take_out(connection: Connection, difference: Difference) -> None:
    """Drops a part that is to be made again."""
    kind, table, name = difference.part
    if difference.found is None:
        return
    statement = {
        "key": "ALTER TABLE {table} DROP CONSTRAINT {name}",
        "index": "DROP INDEX {name}",
        "policy": "DROP POLICY {name} ON {table}",
    }.get(kind)
    if statement is not None:
        names = {"table": sql.Identifier(table), "name": sql.Identifier(name)}
        connection.execute(sql.SQL(statement).format(**names))


def _refuse(address: Address, found: Sequence[Difference]) -> None:
    if found:
        raise IndexUnavailableError(
            f"The tables in the schema {address.schema} of {address} are not those of this gateway: "
            + " ".join(map(str, found)),
            remedy="Undo what was changed by hand. Or drop the schema (DROP SCHEMA ... CASCADE) and run `store migrate`"
            " again: gateways index their notes anew, and embeddings are paid for again.",
        )


SELECT_AGENT: Final = "SELECT agent_id FROM agents WHERE tenant = %(tenant)s AND name = %(name)s"
_MOST_DIMENSIONS: Final = 4_000
"""The most dimensions of vectors that pgvector can index."""
_SELECT_LARGE: Final = """
    SELECT f.agent_id, f.fingerprint_id, f.dimensions,
        (SELECT count(*) FROM embeddings AS e
            WHERE e.agent_id = f.agent_id AND e.fingerprint_id = f.fingerprint_id)
    FROM fingerprints AS f JOIN agents AS a ON a.agent_id = f.agent_id
    WHERE a.tenant = %(tenant)s AND a.name = %(name)s ORDER BY f.fingerprint_id
"""
_SELECT_INDEXES: Final = """
    SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'embeddings'::regclass AND starts_with(c.relname, %(beginning)s)
"""


def index_vectors(address: Address, *, tenant: str, agent: str, at_least: int) -> list[str]:
    """Makes the approximate indexes of one agent, drops those of no use any more, and returns what was done.

    Each of its models with `at_least` vectors or more gets one. Others may read and write meanwhile. Takes about a
    minute for 100,000 vectors. Blocks. Raises IndexUnavailableError.
    """
    done = []
    with address.connected() as connection:
        with _inside(connection, address) as extension:
            _choose(connection, tenant, agent)
            name = {"tenant": tenant, "name": agent}
            row = connection.execute(SELECT_AGENT, name).fetchone()
            if row is None:
                return []
            _choose_key(connection, row[0])
            large = {
                f"embeddings_of_{agent_id}_{fingerprint}": (agent_id, fingerprint, numbers, vectors)
                for agent_id, fingerprint, numbers, vectors in connection.execute(
                    _SELECT_LARGE, name
                )
                if vectors >= at_least and numbers <= _MOST_DIMENSIONS
            }
            beginning = {"beginning": f"embeddings_of_{row[0]}_"}
            found = dict(connection.execute(_SELECT_INDEXES, beginning).fetchall())
        places = {"schema": sql.Identifier(address.schema), "vector": sql.Identifier(extension)}
        for index in found.keys() - {index for index in large if found.get(index)}:
            _concurrently(connection, _DROP_INDEX, **places, name=sql.Identifier(index))
        for index, (agent_id, fingerprint, dimensions, vectors) in large.items():
            if not found.get(index):
                numbers = map(sql.Literal, (agent_id, fingerprint, dimensions))
                parts = dict(zip(("agent", "fingerprint", "dimensions"), numbers, strict=True))
                _concurrently(
                    connection, _MAKE_INDEX, **places, **parts, name=sql.Identifier(index)
                )
                done.append(f"{vectors:,} vectors of {agent!r} are indexed.")
        if done:  # without this the server may not know yet that the indexes are useful
            connection.execute(sql.SQL("ANALYZE {schema}.embeddings").format(**places))
    return done


_MAKE_INDEX: Final = """
    CREATE INDEX CONCURRENTLY {name} ON {schema}.embeddings
    USING hnsw ((half::{vector}.halfvec({dimensions})) {vector}.halfvec_ip_ops)
    WHERE agent_id = {agent} AND fingerprint_id = {fingerprint}
"""
_DROP_INDEX: Final = "DROP INDEX CONCURRENTLY IF EXISTS {schema}.{name}"


def _concurrently(connection: Connection, statement: str, **parts: sql.Composable) -> None:
    """Runs a statement. Raises IndexUnavailableError if somebody else makes or drops an index at the same time."""
    try:
        connection.execute(sql.SQL(statement).format(**parts))
    except (errors.DeadlockDetected, errors.DuplicateTable) as error:
        raise IndexUnavailableError(
            "Somebody else makes or drops an approximate index just now.",
            remedy="Run `memory-gateway store migrate` again when that has ended.",
        ) from error


_SELECT_OWN_INDEXES: Final = r"""
    SELECT c.relname, (regexp_match(c.relname, '^embeddings_of_(\d+)_(\d+)$'))::bigint[]
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'embeddings'::regclass AND starts_with(c.relname, 'embeddings_of_')
        AND pg_has_role(c.relowner, 'USAGE')
"""


def drop_left_indexes(address: Address) -> None:
    """Drops approximate indexes of agents or models that are gone, as far as this role may.

    Others may read and write meanwhile. Blocks. Raises IndexUnavailableError.
    """
    with address.connected() as connection:
        with _inside(connection, address):
            own = connection.execute(_SELECT_OWN_INDEXES).fetchall()
            left = [index for index, numbers in own if numbers and _is_left(connection, numbers)]
        schema = sql.Identifier(address.schema)
        for index in left:
            _concurrently(connection, _DROP_INDEX, schema=schema, name=sql.Identifier(index))


def _is_left(connection: Connection, numbers: Sequence[int]) -> bool:
    _choose_key(connection, numbers[0])
    select = "SELECT 1 FROM fingerprints WHERE agent_id = %s AND fingerprint_id = %s"
    return connection.execute(select, numbers).fetchone() is None


@contextmanager
def _inside(connection: Connection, address: Address) -> Iterator[str]:
    """Begins a transaction that finds the tables and pgvector; yields the schema of pgvector. No setting outlives it:
    a pooler may run the next statement on another connection, which somebody else used before.
    """
    with connection.transaction():
        yield _enter(connection, address)


def _enter(connection: Connection, address: Address, schema: str | None = None) -> str:
    """Makes statements find the tables and pgvector until the transaction ends. Returns the schema of pgvector."""
    row = connection.execute(SELECT_EXTENSION).fetchone()
    names: list[str] = [schema or address.schema, *(row[:1] if row else ())]
    path = sql.SQL(", ").join(map(sql.Identifier, names))
    connection.execute(sql.SQL("SET LOCAL search_path = {}").format(path))
    return names[-1]


def _choose(connection: Connection, tenant: str, agent: str) -> None:
    connection.execute(
        "SELECT set_config('mg.tenant', %s, true), set_config('mg.name', %s, true)",
        (tenant, agent),
    )


def _choose_key(connection: Connection, agent_id: int) -> None:
    connection.execute("SELECT set_config('mg.agent', %s, true)", (str(agent_id),))


def other_version(address: Address, found: int | None) -> IndexUnavailableError:
    """Returns the error of a gateway that needs another schema version than `found`. None: there is no schema."""
    remedy = "Run `memory-gateway store migrate` as a role that may make tables."
    if found is None:
        what = "there are no tables of this gateway"
    else:
        what = f"its tables have version {found}, this gateway needs {SCHEMA_VERSION}"
        if found > SCHEMA_VERSION:
            remedy = "Use the gateway's release that made them, or a later one."
    return IndexUnavailableError(
        f"The schema {address.schema} of {address} cannot be used: {what}.", remedy=remedy
    )


def _version_in(connection: Connection, address: Address) -> int | None:
    table = sql.Identifier(address.schema, "store_schema")
    row = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL", (table.as_string(connection),)
    ).fetchone()
    if row is None or not row[0]:
        return None
    row = connection.execute(sql.SQL("SELECT version FROM {}").format(table)).fetchone()
    return row[0] if row else None


def _make_schema(connection: Connection, address: Address) -> None:
    """Makes the schema and the extension, and sets the path on which the following statements find both."""
    check_server(address, connection.info.server_version)
    name = sql.Identifier(address.schema)
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    connection.execute(_OR_OURS, (address.schema,))
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    row = connection.execute(SELECT_EXTENSION).fetchone()
    check_extension(address, row[1] if row else None)
    _enter(connection, address)


# Extensions are made in the schema `public`, which a database may lack.
_OR_OURS: Final = """
    SELECT set_config('search_path', quote_ident(%s), true) WHERE current_schema() IS NULL
"""
SELECT_EXTENSION: Final = """
    SELECT n.nspname, e.extversion FROM pg_extension AS e
    JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""


SELECT_UNUSABLE: Final = """
    SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector' AND NOT has_schema_privilege(%(role)s, n.oid, 'USAGE')
"""
"""The schema of pgvector, if a role has no access to its types."""


def check_server(address: Address, version: int) -> None:
    """Raises IndexUnavailableError if PostgreSQL is too old; `version` is the server's number, such as 150004."""
    if version < MIN_SERVER * 10_000:
        raise IndexUnavailableError(
            f"{address} runs PostgreSQL {version // 10_000}.",
            remedy=f"Use PostgreSQL {MIN_SERVER} or later.",
        )


def check_extension(address: Address, version: str | None) -> None:
    """Raises IndexUnavailableError if pgvector is missing or too old."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version or "0")[:2])
    if numbers < MIN_PGVECTOR:
        found = f"has pgvector {version}" if version else "lacks the extension pgvector"
        least = ".".join(map(str, MIN_PGVECTOR))
        raise IndexUnavailableError(
            f"{address} {found}.",
            remedy="Run `memory-gateway store migrate` as a role that may make tables (--url-from). "
            f"Install pgvector {least} or later on the server before, if it is not there.",
        )


def _protect(connection: Connection, table: str) -> None:
    """Makes sure that nobody, not even the owner of the table, sees rows of another agent than the one that is set."""
    condition = _OWN_NAME if table == "agents" else _OWN
    for clause in ("ENABLE ROW LEVEL SECURITY", "FORCE ROW LEVEL SECURITY"):
        connection.execute(f"ALTER TABLE {table} {clause}")
    connection.execute(f"DROP POLICY IF EXISTS own_rows ON {table}")
    connection.execute(f"CREATE POLICY own_rows ON {table} USING ({condition})")


def _grant(connection: Connection, address: Address, role: str) -> None:
    is_there = "SELECT 1 FROM pg_roles WHERE rolname = %s"
    if connection.execute(is_there, (role,)).fetchone() is None:
        raise IndexUnavailableError(
            f"There is no role {role} in {address}.",
            remedy="Make it (CREATE ROLE ... LOGIN PASSWORD ...), or correct --role.",
        )
    schema, to = sql.Identifier(address.schema), sql.Identifier(role)
    for (extension,) in connection.execute(SELECT_UNUSABLE, {"role": role}).fetchall():
        grant = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}")
        connection.execute(grant.format(sql.Identifier(extension), to))
    for statement in (
        "REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {to}",
        "GRANT USAGE ON SCHEMA {schema} TO {to}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {to}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {to}",
        "REVOKE INSERT, UPDATE, DELETE ON {schema}.store_schema FROM {to}",
    ):
        connection.execute(sql.SQL(statement).format(schema=schema, to=to))


def greeting(connection: Connection, address: Address) -> str:
    """Checks that the schema is the one that this gateway needs; returns the schema of pgvector."""
    table = sql.Identifier(address.schema, "store_schema")
    with connection.pipeline():
        extension = connection.execute(SELECT_EXTENSION)
        there = connection.execute(
            "SELECT to_regclass(%s) IS NOT NULL", (table.as_string(connection),)
        )
    found, is_there = extension.fetchone(), (there.fetchone() or (False,))[0]
    version: int | None = None
    if is_there:
        select = sql.SQL("SELECT * FROM {}").format(table)
        version, *recorded = connection.execute(select).fetchone() or (None,)
    check_extension(address, found[1] if found else None)
    if version != SCHEMA_VERSION:
        raise other_version(address, version)
    _check_protection(connection, address, catalogue(recorded[0]))
    assert found is not None
    name: str = found[0]
    return name


def _check_protection(connection: Connection, address: Address, recorded: Catalogue) -> None:
    kinds = {"table", "policy"}
    wanted = {part: text for part, text in recorded.items() if part.kind in kinds}
    asked = {"tables": list(TABLES), "schema": address.schema}
    with with_settings(connection):
        found = catalogue(connection.execute(SELECT_PROTECTION, asked).fetchall())
    if others := list(differences(wanted, found)):
        raise IndexUnavailableError(
            f"The tables in the schema {address.schema} of {address} do not keep agents apart as they should: "
            + " ".join(map(str, others)),
            remedy="Run `memory-gateway store migrate` as a role that may make tables.",
        )
