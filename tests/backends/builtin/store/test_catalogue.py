"""Tables changed by hand: `store check` names the change, `store migrate` makes them anew, and no answer is wrong."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.builtin.store.postgres.connections import Address
from backends.builtin.store.postgres.schema import AGENT_TABLES, migrate
from backends.builtin.store.postgres.store import PostgresStore
from backends.interface import IndexUnavailableError, SearchRequest, SyncRequest
from config.settings import SyncSettings
from fakes.postgres import SERVING, SUPERUSER
from fakes.settings import make_settings

from .conftest import Shelf


class Changed:
    """One of our databases, and the changes made to it by hand."""

    def __init__(self, server, root) -> None:
        self.server, self.root = server, root
        self.name = server.migrated()
        self.settings = server.settings(self.name, path=root / "no.sqlite")
        self.admin = Address.of(server.settings(self.name, path=root, role=SUPERUSER))

    def sql(self, statement: str) -> list[tuple]:
        with psycopg.connect(self.admin.url.reveal(), autocommit=True) as connection:
            connection.execute("SET search_path = memory_gateway, public")
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def problems(self) -> tuple[str, ...]:
        with closing(PostgresStore(self.settings, "main", viewpoint="here")) as store:
            return store.check().problems

    def migrate(self) -> list[str]:
        return migrate(self.admin, role=SERVING)


@pytest.fixture
def changed(postgres_server, tmp_path):
    made = Changed(postgres_server, tmp_path)
    with closing(PostgresStore(made.settings, "main", viewpoint="here")) as store:
        Shelf(store).write("memory/a.md", "boiler\n")
    return made


MENDED = {
    "an index": ("DROP INDEX chunks_by_file", "The index chunks_by_file of chunks is missing."),
    "an index of other columns": (
        "DROP INDEX chunks_by_file; CREATE INDEX chunks_by_file ON chunks (file_id)",
        "The index chunks_by_file of chunks is",
    ),
    "a unique key": (
        "ALTER TABLE files DROP CONSTRAINT files_agent_id_source_path_key",
        "The key files_agent_id_source_path_key of files is missing.",
    ),
    "a primary key": (
        "ALTER TABLE postings DROP CONSTRAINT postings_pkey",
        "The key postings_pkey of postings is missing.",
    ),
    "a foreign key": (
        "ALTER TABLE stamps DROP CONSTRAINT stamps_agent_id_file_id_fkey",
        "The key stamps_agent_id_file_id_fkey of stamps is missing.",
    ),
    "a unique index more": (
        "CREATE UNIQUE INDEX more ON chunks (agent_id)",
        "The index more of chunks",
    ),
}
UNSAFE = {
    "a table": ("DROP TABLE claims", "The table claims is missing."),
    "the words": ("DROP TABLE postings", "The table postings is missing."),
    "a policy": ("DROP POLICY own_rows ON chunks", "The policy own_rows of chunks is missing."),
    "a policy that lets all through": (
        "ALTER POLICY own_rows ON chunks USING (true)",
        "The policy own_rows of chunks is 'PERMISSIVE FOR * TO {0} USING true'",
    ),
    "one policy more": (
        "CREATE POLICY more ON embeddings USING (true)",
        "The policy more of embeddings (PERMISSIVE FOR * TO {0} USING true)",
    ),
    "row security": (
        "ALTER TABLE meta DISABLE ROW LEVEL SECURITY",
        "The table meta is 'without row-level security for everybody'",
    ),
    "row security of the owner": (
        "ALTER TABLE meta NO FORCE ROW LEVEL SECURITY",
        "The table meta is 'without row-level security for everybody'",
    ),
}


@pytest.mark.parametrize("what", MENDED)
def test_what_was_changed_by_hand_is_named_by_check_and_made_anew_by_migrate(changed, what):
    statement, message = MENDED[what]
    assert changed.problems() == ()
    changed.sql(statement)
    (problem,) = changed.problems()
    assert problem.startswith(message)
    assert problem.endswith("Run `store migrate`.")
    *done, last = changed.migrate()
    assert any(one.startswith(message) and one.endswith("It is made anew.") for one in done)
    assert "is as it should be" in last
    assert changed.problems() == ()
    assert len(changed.migrate()) == 1


@pytest.mark.parametrize("what", UNSAFE)
def test_tables_that_do_not_keep_agents_apart_are_not_used_before_they_were_made_anew(
    changed, what
):
    """They do not even give an empty answer."""
    statement, message = UNSAFE[what]
    changed.sql(statement)
    with pytest.raises(IndexUnavailableError) as caught:
        changed.problems()
    assert message in str(caught.value)
    assert "store migrate" in caught.value.remedy
    done = changed.migrate()
    assert any(one.startswith(message) for one in done)
    assert all("USING true" not in one for one in policies(changed))
    if what == "the words":
        assert "words are missing" in changed.problems()[0]
    else:
        assert changed.problems() == ()


def policies(changed):
    return [
        f"{one}"
        for one in changed.sql("SELECT tablename, qual FROM pg_policies WHERE qual = 'true'")
    ]


COLUMNS = {
    "missing": (
        "ALTER TABLE files DROP COLUMN pipeline",
        "The column pipeline of files is missing.",
    ),
    "of another type": (
        "ALTER TABLE files ALTER mtime_ns TYPE numeric",
        "The column mtime_ns of files is 'numeric NOT NULL STORAGE m' instead of 'bigint NOT NULL STORAGE p'.",
    ),
    "in another order of characters": (
        'ALTER TABLE stamps ALTER viewpoint TYPE text COLLATE "C.utf8"',
        "The column viewpoint of stamps is",
    ),
    "that may be nothing": (
        "ALTER TABLE files ALTER size DROP NOT NULL",
        "The column size of files is",
    ),
    "of somebody else": (
        "ALTER TABLE files ADD more text NOT NULL DEFAULT ''",
        "The column more of files",
    ),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_a_column_that_is_another_one_is_named_with_what_to_do_and_nothing_is_done(changed, what):
    statement, message = COLUMNS[what]
    if "C.utf8" in statement:
        changed.sql("ALTER TABLE stamps DROP CONSTRAINT stamps_agent_id_viewpoint_fkey")
    changed.sql(statement)
    assert any(one.startswith(message) for one in changed.problems())
    with pytest.raises(IndexUnavailableError) as caught:
        changed.migrate()
    assert message in str(caught.value)
    assert "DROP SCHEMA" in caught.value.remedy
    assert any(one.startswith(message) for one in changed.problems())


def test_switched_off_and_foreign_triggers_are_named(changed):
    changed.sql("ALTER TABLE files DISABLE TRIGGER ALL")
    assert all("is switched off" in one for one in changed.problems())
    assert changed.problems()


def test_indexes_of_somebody_else_are_nobodys_fault(changed):
    changed.sql("CREATE INDEX more ON chunks (agent_id)")
    assert changed.problems() == ()
    assert len(changed.migrate()) == 1


RIGHTS = {
    "lost": (
        f"REVOKE INSERT, DELETE ON embeddings FROM {SERVING}",
        f"The role {SERVING} may not INSERT, DELETE the table embeddings.",
    ),
    "to empty a table of everybody": (
        f"GRANT TRUNCATE ON files TO {SERVING}",
        f"The role {SERVING} may, and must not, TRUNCATE the table files.",
    ),
    "to say another version": (
        f"GRANT UPDATE ON store_schema TO {SERVING}",
        f"The role {SERVING} may, and must not, UPDATE the table store_schema.",
    ),
}


@pytest.mark.parametrize("what", RIGHTS)
def test_rights_that_a_gateway_lacks_or_must_not_have_are_named_and_mended(changed, what):
    statement, message = RIGHTS[what]
    changed.sql(statement)
    assert changed.problems()[0].startswith(message)
    assert "store migrate --role" in changed.problems()[0]
    changed.migrate()
    assert changed.problems() == ()


def test_tables_that_were_migrated_are_those_of_a_new_database(changed):
    """Nothing is left of the schema with which they were compared."""
    assert changed.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'mg%'") == []
    ((recorded,),) = changed.sql("SELECT jsonb_array_length(catalogue) FROM store_schema")
    assert recorded > len(AGENT_TABLES) * 5


EMPTIED = {
    "postings": "DELETE FROM postings",
    "counts of words": "DELETE FROM term_counts",
    "both": "TRUNCATE postings, term_counts",
    "some postings": "DELETE FROM postings WHERE term = 'boiler'",
    "chunks": "DELETE FROM chunks",
    "counts of chunks": "UPDATE agents SET documents = 7, tokens = 9",
}


@pytest.mark.anyio
@pytest.mark.parametrize("what", EMPTIED)
async def test_what_was_emptied_by_hand_is_named_and_made_anew_by_a_forced_sync(
    changed, tmp_path, what
):
    made = make_settings(
        tmp_path, search={"provider": "none", "sync": SyncSettings(search_budget_ms=20_000)}
    )
    for number in range(3):
        note = made.workspace / "memory" / f"{number}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"The boiler number {number} hums.\n", encoding="utf-8")
    store = replace(changed.settings, tenant="owner")
    settings = replace(made, search=replace(made.search, store=store))

    async def found(backend):
        request = SearchRequest(query="boiler", max_results=9, min_score=0.0)
        return [(hit.path, hit.score) for hit in (await backend.search(request)).hits]

    async with open_builtin(settings) as backend:
        await backend.sync(SyncRequest())
        before = await found(backend)
        assert len(before) == 3
        changed.settings = store
        changed.sql(EMPTIED[what])
        (problem,) = changed.problems()
        assert "memory-gateway index --force" in problem
        assert (await backend.sync(SyncRequest(force=True))).complete
        assert await found(backend) == before
        assert changed.problems() == ()
