"""What the tables in PostgreSQL are like, and how they differ from those that `store migrate` makes.

Somebody may have changed them by hand, or restored a part of them: a missing policy hides rows, one that lets all
through shows those of others, and neither is told by any error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, cast

Kind: TypeAlias = Literal["table", "column", "key", "index", "policy", "trigger"]

SELECT_PROTECTION: Final = """
    WITH own AS (
        SELECT c.oid, c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS is_protected
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = coalesce(%(schema)s::text, current_schema()) AND c.relkind IN ('r', 'p') AND c.relname = ANY(%(tables)s::text[])
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
"""What keeps agents apart; each new connection looks at it."""
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
        return (
            f"the {self.kind} {self.name} of {self.table}"
            if self.name
            else f"the table {self.table}"
        )


Catalogue: TypeAlias = Mapping[Part, str]
"""What each part is, in PostgreSQL's words."""


class Difference(NamedTuple):
    """None: it is not there."""

    part: Part
    wanted: str | None
    found: str | None

    def __str__(self) -> str:
        name = str(self.part)
        if self.found is None:
            return f"{name[:1].upper()}{name[1:]} is missing."
        if self.wanted is None:
            return (
                f"{name[:1].upper()}{name[1:]} ({self.found}) is none that `store migrate` makes."
            )
        return f"{name[:1].upper()}{name[1:]} is {self.found!r} instead of {self.wanted!r}."


def catalogue(rows: Iterable[Sequence[str]]) -> Catalogue:
    """Of rows of the above: kind, table, name and what it is."""
    return {Part(cast("Kind", kind), table, name): text for kind, table, name, text in rows}


def differences(wanted: Catalogue, found: Catalogue) -> Iterator[Difference]:
    """Of a table that is missing nothing else is told. Another index is nobody's fault, unless it permits less."""
    missing = {part.table for part in wanted.keys() - found.keys() if part.kind == "table"}
    for part in sorted(wanted.keys() | found.keys()):
        one = Difference(part, wanted.get(part), found.get(part))
        if one.wanted == one.found or (part.name and part.table in missing):
            continue
        if part.kind == "index" and one.wanted is None and " UNIQUE " not in f"{one.found}":
            continue
        yield one
