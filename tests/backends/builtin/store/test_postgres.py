"""Promises beyond the port: separate tenants, no tables made by a serving role, no secrets, few round trips."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import psycopg
import pytest

from backends.builtin.searching import Searcher
from backends.builtin.store.port import IndexDamagedError, TooLargeError, Word
from backends.builtin.store.postgres.connections import Address
from backends.builtin.store.postgres.schema import (
    AGENT_TABLES,
    SCHEMA_VERSION,
    check_extension,
    check_server,
    drop_left_indexes,
    index_vectors,
    migrate,
)
from backends.builtin.store.postgres.store import PostgresStore
from backends.interface import IndexMisconfiguredError, IndexUnavailableError, SearchRequest
from config.settings import MemorySearchSettings, PoolSettings, Secret, VectorStoreSettings
from fakes.postgres import SERVING, SUPERUSER, following
from providers.provider_interface import QueryVector

from .conftest import Shelf

TABLES_OF_0_2 = Path(__file__).parents[3] / "data" / "postgres-tables-1.sql"


@pytest.fixture
def settings(postgres_settings):
    return postgres_settings


@pytest.fixture
def open_store(settings):
    opened = []

    def opening(agent="main", **other):
        store = PostgresStore(msgspec.structs.replace(settings, **other), agent, viewpoint="here")
        opened.append(store)
        return store

    yield opening
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def shelf(store):
    return Shelf(store)


def connected(settings):
    """The processes of the server that serve this database."""
    with psycopg.connect(settings.url.reveal()) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in found}


def test_a_caller_without_time_says_nothing_of_the_server_and_closes_no_connection(store, settings):
    with store.view() as one, store.view() as other:
        one.probe()
        other.probe()
        before = connected(settings)
    with (
        pytest.raises(IndexUnavailableError, match="No time was left"),
        store.view(until=time.monotonic()) as view,
    ):
        view.probe()
    with store.view() as view:
        view.probe()
    assert len(before & connected(settings)) >= 2  # those of earlier tests may end meanwhile


def direction(number, dimensions=8):
    vector = np.zeros(dimensions, np.float32)
    vector[number] = 1.0
    return vector


def rows(connection, table):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def fill(store, fingerprint):
    Shelf(store).write("memory/a.md", "---\ntitle: Boiler\n---\nThe boiler hums.\n")
    with store.writer() as writer:
        writer.arrive()
        writer.remember("key", "value")
        ((key, _),) = writer.embeddings.pending(fingerprint, limit=1)
        writer.embeddings.put(fingerprint, [(key, direction(0))])
        writer.embeddings.record_failures(fingerprint, [(b"1", "refused")])


class TestTenants:
    def test_without_any_filter_of_ours_no_foreign_row_is_seen_changed_or_added(
        self, open_store, settings, fingerprint
    ):
        mine, theirs = open_store(), open_store(tenant=f"{settings.tenant} too")
        fill(mine, fingerprint)
        fill(theirs, fingerprint)
        with psycopg.connect(settings.url.reveal()) as connection:
            connection.execute("SET LOCAL search_path = memory_gateway, public")
            assert [rows(connection, table) for table in AGENT_TABLES] == [0] * len(AGENT_TABLES)
            connection.execute(f"SET LOCAL mg.agent = '{mine._agent}'")
            connection.execute(f"SET LOCAL mg.tenant = '{settings.tenant}'")
            connection.execute("SET LOCAL mg.name = 'main'")
            counts = {table: rows(connection, table) for table in AGENT_TABLES}
            assert (
                counts["agents"] == counts["files"] == counts["embeddings"] == counts["stamps"] == 1
            )
            for table in AGENT_TABLES:
                found = connection.execute(f"SELECT DISTINCT agent_id FROM {table}").fetchall()
                assert found in ([(mine._agent,)], [])
            changed = connection.execute("UPDATE files SET size = 0").rowcount
            assert changed == 1
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                connection.execute(
                    "INSERT INTO meta VALUES (%s, '', 'key', 'value')", (theirs._agent,)
                )

    def test_agents_and_tenants_of_one_name_are_different_ones(self, open_store, settings):
        for tenant in ("one", "other"):
            for agent in ("main", "second"):
                store = open_store(agent, tenant=f"{settings.tenant} {tenant}")
                Shelf(store).write("memory/a.md", f"boiler of {tenant} {agent}\n")
                with store.view() as view:
                    assert view.files.count("memory") == (1, 1)

    def test_names_are_data(self, open_store, settings, postgres_server):
        name = 'it\'s "odd"; DROP TABLE files --'
        odd = msgspec.structs.replace(
            settings, url=Secret(postgres_server.url("postgres")), schema=name
        )
        migrate(Address.of(odd), role=SERVING)
        store = open_store(
            name,
            schema=name,
            tenant=name,
            url=Secret(postgres_server.url("postgres", role=SERVING)),
        )
        Shelf(store).write(f"memory/{name}.md", name)
        with store.view() as view:
            assert set(view.files.indexed()) == {f"memory/{name}.md"}

    def test_an_agent_that_was_dropped_begins_anew(self, store, shelf, settings, postgres_server):
        shelf.write("memory/a.md", "boiler\n")
        database = settings.url.reveal().partition("@/")[2].partition("?")[0]
        for table in reversed(AGENT_TABLES):
            statement = f"DELETE FROM memory_gateway.{table} WHERE agent_id = {store._agent}"
            postgres_server.sql(statement, database=database)
        generation = store.generation
        with pytest.raises(IndexDamagedError, match="dropped"):
            shelf.write("memory/a.md", "boiler\n")
        assert store.generation == generation + 1
        shelf.write("memory/a.md", "boiler\n")
        with store.view() as view:
            assert view.keywords.corpus().documents == 1


def ask(settings):
    """A store opens whatever the state of its server, and reports that state when asked."""
    with closing(PostgresStore(settings, "main", viewpoint="")) as store, store.view() as view:
        view.probe()


class TestSchema:
    @pytest.fixture
    def empty(self, postgres_server, tmp_path):
        """Settings of a database without our tables."""
        database = postgres_server.new_database()

        def settings(role=SERVING):
            return postgres_server.settings(database, path=tmp_path / "no", role=role)

        return settings

    def test_who_serves_makes_no_table_and_says_what_does(self, empty):
        with pytest.raises(IndexUnavailableError) as caught:
            ask(empty())
        assert "lacks the extension pgvector" in str(caught.value)
        assert "store migrate" in caught.value.remedy
        with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
            found = connection.execute(
                "SELECT count(*) FROM pg_namespace WHERE nspname = 'memory_gateway'"
            )
            assert found.fetchone() == (0,)

    def test_who_serves_could_not_make_one(self, settings):
        with psycopg.connect(settings.url.reveal(), autocommit=True) as connection:
            for statement in (
                "CREATE TABLE memory_gateway.more (id int)",
                "DROP TABLE memory_gateway.files",
                "ALTER TABLE memory_gateway.files DISABLE ROW LEVEL SECURITY",
                "UPDATE memory_gateway.store_schema SET version = 7",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)

    def test_migrating_again_changes_nothing(self, empty):
        address = Address.of(empty(SUPERUSER))
        assert f"now has version {SCHEMA_VERSION}" in migrate(address)[-1]
        assert "is as it should be" in migrate(address, role=SERVING)[-1]
        PostgresStore(empty(), "main", viewpoint="").close()

    def test_of_several_that_migrate_at_once_one_makes_the_tables(self, empty):
        address = Address.of(empty(SUPERUSER))
        with ThreadPoolExecutor(4) as threads:
            outputs = list(threads.map(lambda _: migrate(address, role=SERVING), range(4)))
        assert sum(f"now has version {SCHEMA_VERSION}" in one[-1] for one in outputs) == 1
        assert sum("is as it should be" in one[-1] for one in outputs) == 3

    def test_a_role_that_is_missing_is_told_with_its_remedy(self, empty):
        with pytest.raises(IndexUnavailableError, match="There is no role nobody_else") as caught:
            migrate(Address.of(empty(SUPERUSER)), role="nobody_else")
        assert "CREATE ROLE" in caught.value.remedy

    def test_who_owns_the_tables_and_serves_may_migrate_again(self, empty, fingerprint):
        with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE ROLE owner LOGIN")
            connection.execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO owner")
        try:
            for _ in range(2):
                output = migrate(Address.of(empty("owner")), role="owner")
            assert "is as it should be" in output[-1]
            with closing(PostgresStore(empty("owner"), "main", viewpoint="here")) as store:
                fill(store, fingerprint)
                assert store.check().problems == ()
        finally:
            with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
                connection.execute("DROP OWNED BY owner CASCADE")
                connection.execute("DROP ROLE owner")

    def test_a_database_without_a_schema_public_will_do(self, empty, fingerprint):
        with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
            connection.execute("DROP SCHEMA public")
        for _ in range(2):
            migrate(Address.of(empty(SUPERUSER)), role=SERVING)
        with closing(PostgresStore(empty(), "main", viewpoint="here")) as store:
            fill(store, fingerprint)
            assert store.check().problems == ()

    def test_who_serves_may_use_pgvector_wherever_it_is(self, empty, fingerprint):
        with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
            connection.execute("CREATE SCHEMA theirs; CREATE EXTENSION vector SCHEMA theirs")
        migrate(Address.of(empty(SUPERUSER)), role=SERVING)
        with closing(PostgresStore(empty(), "main", viewpoint="here")) as store:
            fill(store, fingerprint)
            assert store.check().problems == ()
            with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
                connection.execute(f"REVOKE USAGE ON SCHEMA theirs FROM {SERVING}")
            (problem,) = store.check().problems
            assert "may not use the schema theirs" in problem
            assert "store migrate --role" in problem

    def test_no_limit_of_the_database_ends_the_making_of_tables(self, empty, postgres_server):
        settings = empty(SUPERUSER)
        with psycopg.connect(settings.url.reveal(), autocommit=True) as connection:
            database = connection.info.dbname
            connection.execute(f"ALTER DATABASE {database} SET statement_timeout = '1ms'")
        assert "now has version" in migrate(Address.of(settings), role=SERVING)[-1]

    @pytest.mark.parametrize(
        ("version", "remedy"), [(0, "store migrate"), (SCHEMA_VERSION + 1, "release")]
    )
    def test_another_version_is_refused_with_its_remedy(
        self, empty, postgres_server, version, remedy
    ):
        migrate(Address.of(empty(SUPERUSER)), role=SERVING)
        with psycopg.connect(empty(SUPERUSER).url.reveal()) as connection:
            connection.execute("UPDATE memory_gateway.store_schema SET version = %s", (version,))
        with pytest.raises(IndexUnavailableError, match=f"have version {version}") as caught:
            ask(empty())
        assert remedy in caught.value.remedy
        if version > SCHEMA_VERSION:
            with pytest.raises(IndexUnavailableError, match=f"have version {version}"):
                migrate(Address.of(empty(SUPERUSER)))

    def test_tables_of_release_0_2_become_those_of_this_one_and_keep_their_rows(
        self, empty, postgres_server, fingerprint
    ):
        settings = empty(SUPERUSER)
        with psycopg.connect(settings.url.reveal()) as connection:
            connection.execute(TABLES_OF_0_2.read_text())
            connection.execute("INSERT INTO agents (tenant, name) VALUES (%s, 'main')", ("owner",))
            connection.execute(
                "INSERT INTO files (agent_id, source, path, size, mtime_ns, content_hash, pipeline, chunk_count)"
                " VALUES (1, 'memory', 'memory/old.md', 1, 1, '', 'test', 0)"
            )
        serving = msgspec.structs.replace(empty(), tenant="owner")
        with pytest.raises(IndexUnavailableError, match="version 1, this gateway needs") as caught:
            ask(serving)
        assert "store migrate" in caught.value.remedy
        address = Address.of(settings)
        assert f"now has version {SCHEMA_VERSION}" in migrate(address, role=SERVING)[-1]
        assert "is as it should be" in migrate(address, role=SERVING)[-1]
        with closing(PostgresStore(serving, "main", viewpoint="here")) as store:
            fill(store, fingerprint)
            with store.view() as view:
                assert set(view.files.indexed()) == {"memory/old.md", "memory/a.md"}
        other = msgspec.structs.replace(serving, tenant="newcomer")
        with closing(PostgresStore(other, "main", viewpoint="here")) as store:
            fill(store, fingerprint)
            assert store._agent > 2**40


class TestNames:
    """PostgreSQL cuts names longer than 63 bytes."""

    LONG = "owner_" + "x" * 60

    def test_two_schemas_that_would_become_one_are_refused(self, settings, postgres_server):
        for end in ("one", "other"):
            odd = msgspec.structs.replace(settings, schema=self.LONG + end)
            with pytest.raises(IndexMisconfiguredError, match=r"has (69|71) bytes") as error:
                migrate(Address.of(odd))
            assert "shorter" in error.value.remedy
            with pytest.raises(IndexMisconfiguredError, match=r"store\.schema"):
                ask(odd)
        found = postgres_server.sql("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'owner_%'")
        assert found == []

    def test_so_is_a_role_that_would_be_another_one(self, settings):
        with pytest.raises(IndexMisconfiguredError, match="name of the role in --role"):
            migrate(Address.of(settings), role=self.LONG)

    @pytest.mark.parametrize(("what", "part"), [("role", SERVING), ("database", "/test")])
    def test_so_are_a_role_and_a_database_of_the_address(self, settings, what, part):
        url = settings.url.reveal().replace(part, part + self.LONG, 1)
        with pytest.raises(IndexMisconfiguredError, match=f"name of the {what} in store.url"):
            ask(msgspec.structs.replace(settings, url=Secret(url)))

    def test_a_name_of_63_bytes_is_taken(self, settings, postgres_server):
        name = "ü" * 31 + "x"
        odd = msgspec.structs.replace(
            settings, schema=name, url=Secret(postgres_server.url("postgres"))
        )
        migrate(Address.of(odd), role=SERVING)
        ask(odd)
        found = postgres_server.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'ü%'")
        assert found == [(name,)]


class TestLargeNotes:
    """A large note is published in steps, each within the time of a change."""

    @pytest.fixture
    def slow(self, postgres_server, tmp_path, monkeypatch):
        """A database that needs 30 ms for each chunk; a change may take three seconds."""
        monkeypatch.setattr("backends.builtin.store.postgres.store._WRITING_MS", 3_000)
        monkeypatch.setattr("backends.builtin.store.postgres.file_rows._STEP_CHUNKS", 10)
        database = postgres_server.migrated()
        postgres_server.sql(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_sleep(0.03); RETURN NEW; END';"
            "CREATE TRIGGER slow BEFORE INSERT ON memory_gateway.chunks"
            " FOR EACH ROW EXECUTE FUNCTION slow()",
            database=database,
        )
        settings = postgres_server.settings(database, path=tmp_path, statement_timeout_ms=1_500)
        with closing(PostgresStore(settings, "main", viewpoint="here")) as store:
            yield store
            postgres_server.sql("DROP FUNCTION slow CASCADE", database=database)
            assert store.check().problems == ()

    def test_one_that_takes_longer_than_a_change_may_is_published_and_taken_out(self, slow):
        words = "\n\n".join(f"# {n}\n\nw{n}x " + "x " * 300 for n in range(240))
        written = Shelf(slow).write("memory/a.md", words)
        assert written >= 150
        with slow.view() as view:
            assert view.keywords.corpus().documents == written
            assert view.keywords.count([Word("w239x", is_prefix=False)]) == [1]
        with slow.writer() as writer:
            assert writer.files.remove("memory", "memory/a.md")

    def test_one_of_400000_different_words_is_published_to_its_last_word(self, open_store):
        store = open_store()
        Shelf(store).write("memory/a.md", words_of(400_000))
        with store.view() as view:
            assert view.keywords.count([Word("w399999x", is_prefix=False)]) == [1]

    def test_its_counts_are_written_in_steps_as_well(self, open_store, monkeypatch):
        monkeypatch.setattr("backends.builtin.store.postgres.transactions._STEP_TERMS", 7)
        store = open_store()
        for text in (words_of(100), words_of(150, 30), words_of(10, 120)):
            Shelf(store).write("memory/a.md", text)
            assert store.check().problems == ()

    def test_one_with_more_words_than_it_can_take_in_time_is_refused_and_nothing_of_it_stays(
        self, store, monkeypatch
    ):
        monkeypatch.setattr("backends.builtin.store.postgres.file_rows.MOST_WORDS", 500)
        Shelf(store).write("memory/a.md", words_of(400))
        with pytest.raises(TooLargeError, match="more than 500 words for PostgreSQL"):
            Shelf(store).write("memory/b.md", words_of(600))
        with store.view() as view:
            assert set(view.files.indexed()) == {"memory/a.md"}
        assert store.check().problems == ()


def words_of(number, first=0):
    return "\n".join(f"w{n}x" for n in range(first, first + number))


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "SQL_ASCII"])
    def test_a_database_that_cannot_hold_every_note_is_refused(
        self, postgres_server, settings, encoding
    ):
        name = f"in_{encoding.lower()}"
        postgres_server.sql(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0"
        )
        for role, use in ((SUPERUSER, lambda at: migrate(Address.of(at))), (SERVING, ask)):
            at = msgspec.structs.replace(settings, url=Secret(postgres_server.url(name, role=role)))
            with pytest.raises(
                IndexUnavailableError, match=f"has the encoding {encoding}"
            ) as caught:
                use(at)
            assert "ENCODING 'UTF8'" in caught.value.remedy

    SETTINGS = (
        ("client_encoding", "LATIN1"),
        ("standard_conforming_strings", "off"),
        ("extra_float_digits", "-15"),
        ("bytea_output", "escape"),
        ("DateStyle", "German"),
        ("IntervalStyle", "sql_standard"),
        ("array_nulls", "off"),
        ("row_security", "off"),
        ("transform_null_equals", "on"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_deferrable", "on"),
        ("quote_all_identifiers", "on"),
        ("search_path", "pg_catalog"),
    )

    @pytest.mark.parametrize("place", ["role", "address", "options", "variable", "pool"])
    def test_no_setting_of_a_role_an_address_or_a_variable_changes_an_answer(
        self, request, postgres_server, fingerprint, place, monkeypatch, tmp_path
    ):
        role, admin = f"odd_{place}", f"odd_admin_{place}"
        postgres_server.sql(f"CREATE ROLE {role} LOGIN")
        postgres_server.sql(f"CREATE ROLE {admin} LOGIN SUPERUSER")
        database = postgres_server.new_database()
        way = request.getfixturevalue("pooled_server") if place == "pool" else postgres_server
        serving, migrating = (
            way.settings(database=database, path=tmp_path, role=one) for one in (role, admin)
        )
        match place:
            case "role" | "pool":
                owners = (role, admin) if place == "role" else (SERVING,)
                for owner, (name, value) in product(owners, self.SETTINGS):
                    postgres_server.sql(
                        f"ALTER ROLE {owner} IN DATABASE {database} SET {name} = {value}"
                    )
            case "variable":
                monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
                words = " ".join(f"-c {name}={value}" for name, value in self.SETTINGS)
                monkeypatch.setenv("PGOPTIONS", words)
            case "address":
                serving, migrating = (
                    with_part(one, "client_encoding=LATIN1") for one in (serving, migrating)
                )
            case "options":
                words = "%20".join(f"-c%20{name}%3D{value}" for name, value in self.SETTINGS)
                serving, migrating = (
                    with_part(one, f"options={words}") for one in (serving, migrating)
                )
        if place == "pool":  # gateways connect through it, and `store migrate` does not
            migrating = postgres_server.settings(database, path=tmp_path, role=SUPERUSER)
            role = SERVING
        assert "now has version" in migrate(Address.of(migrating), role=role)[-1]
        assert "is as it should be" in migrate(Address.of(migrating), role=role)[-1]
        plain = postgres_server.settings(path=tmp_path)
        assert self.answers(serving, fingerprint) == self.answers(plain, fingerprint)

    def answers(self, settings, fingerprint):
        chance = np.random.default_rng(2)
        vector = chance.normal(size=8)
        with closing(PostgresStore(settings, "main", viewpoint="Wien-\\ü")) as store:
            store.open_vectors(VectorStoreSettings())
            texts = (
                "Der Kessel brummt über Zürich.",
                "水泵 \\ 'quote' \0 NUL",
                "The boiler — hums. 🔧",
            )
            for number, text in enumerate(texts):
                Shelf(store).write(f"memory/ü\\{number}.md", f"---\ntitle: {text}\n---\n{text}\n")
            with store.writer() as writer:
                pending = writer.embeddings.pending(fingerprint, limit=9)
                vectors = [(key, unit(vector + chance.normal(size=8))) for key, _ in pending]
                writer.embeddings.put(fingerprint, vectors)
            assert store.lease("embedding", 60) is not None
            searcher = Searcher(MemorySearchSettings(store=settings))
            query = QueryVector(unit(vector), fingerprint)
            with store.view() as view:
                found = [
                    searcher.search(view, SearchRequest(query=words, min_score=0.0), query).hits
                    for words in ("Kessel Zürich", "水泵", "boiler hums 🔧")
                ]
            problems = [one for one in store.check().problems if "SUPERUSER" not in one]
        assert all(found)
        return found, problems


def unit(vector):
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def with_part(settings, part):
    return msgspec.structs.replace(settings, url=Secret(f"{settings.url.reveal()}&{part}"))


class TestDropped:
    def left(self, postgres_server, settings) -> dict[str, int]:
        """The rows that belong to no agent, by table."""
        found = {}
        for table in AGENT_TABLES:
            ((number,),) = postgres_server.sql(
                f"SELECT count(*) FROM memory_gateway.{table}"
                " WHERE agent_id NOT IN (SELECT agent_id FROM memory_gateway.agents)",
                database=database_of(settings),
            )
            if number:
                found[table] = number
        return found

    def test_nothing_is_left_of_an_agent_that_was_dropped_while_a_gateway_writes_and_leases(
        self, open_store, settings, postgres_server, fingerprint
    ):
        rounds, dropping = 12, open_store()
        ended = threading.Event()

        def work(number: int) -> None:
            store = open_store()
            while not ended.is_set():
                with suppress(IndexUnavailableError):  # dropped, or locked, in the middle
                    Shelf(store).write(f"memory/{number}.md", f"boiler {number}\n")
                    lease = store.lease("embedding", 60)
                    if lease is not None:
                        store.claim(lease, [b"text"])
                        store.give_back(lease)

        with ThreadPoolExecutor(2) as threads:
            working = [threads.submit(work, number) for number in range(2)]
            try:
                dropped = 0
                while dropped < rounds:
                    with suppress(IndexUnavailableError):
                        dropped += dropping.drop()
            finally:
                ended.set()
            for one in working:
                one.result(60)
        while dropping.exists:
            dropping.drop()
        assert self.left(postgres_server, settings) == {}

    def test_who_writes_is_waited_for(self, open_store, monkeypatch):
        monkeypatch.setattr("backends.builtin.store.postgres.store.PATIENCE_S", 0.05)
        store, dropping = open_store(), open_store()
        with store.writer() as writer:
            Shelf(store).put(writer, "memory/a.md", "boiler\n")
            with pytest.raises(IndexUnavailableError, match="lock timeout"):
                dropping.drop()
        with store.view() as view:
            assert set(view.files.indexed()) == {"memory/a.md"}


def test_who_publishes_while_words_are_written_anew_waits_for_that(open_store, settings):
    store, other = open_store(), open_store()
    Shelf(store).write("memory/a.md", "boiler\n")
    waiting = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)"
    with ThreadPoolExecutor(1) as thread, psycopg.connect(settings.url.reveal()) as watching:
        with store.writer() as writer:
            writer.mend_words()
            published = thread.submit(Shelf(other).write, "memory/a.md", "kettle\n")
            while not watching.execute(waiting).fetchone()[0] and not published.done():
                time.sleep(0.01)
        assert published.result() == 1
    assert store.check().problems == ()


def database_of(settings) -> str:
    return settings.url.reveal().partition("@/")[2].partition("?")[0]


class TestSecrets:
    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://gateway:hunter2secret@127.0.0.1:1/memory",
            "host=127.0.0.1 port=1 user=gateway password=hunter2secret dbname=memory",
            "postgresql://gateway@127.0.0.1:1/memory?password=hunter2secret",
            "postgresql://gateway:hunter2secret%@127.0.0.1:1/memory",
            "hunter2secret",
        ],
    )
    def test_no_error_and_no_place_tells_the_password(self, settings, url):
        settings = msgspec.structs.replace(settings, url=Secret(url))
        with pytest.raises(IndexUnavailableError) as caught:
            ask(settings)
        output = (
            f"{caught.value} {caught.value.remedy} {Address.of(settings)!r} {Address.of(settings)}"
        )
        assert "hunter2secret" not in output
        assert caught.value.remedy

    def test_the_password_may_stand_in_a_file_that_changes(self, settings, tmp_path):
        file = tmp_path / "password"
        address = Address.of(msgspec.structs.replace(settings, password_file=file))
        with pytest.raises(IndexUnavailableError, match="No such file") as caught:
            address.connect()
        assert "passwordFile" in caught.value.remedy
        for password in ("one", "other"):
            file.write_text(f"{password}\n")
            with closing(address.connect()) as connection:
                assert connection.info.password == password

    @pytest.mark.parametrize(
        ("statement", "parameters", "remedy"),
        [
            ("SELEKT 1", (), "report it"),
            ("SELECT no_such_column FROM files", (), "report it"),
            ("SELECT %s", ("a\0b",), "report it"),
            ("SELECT 1 / 0", (), "report it"),
            ("SELECT 1 FROM no_such_table", (), "store migrate"),
            ("SELECT pg_terminate_backend(pg_backend_pid())", (), "it is tried again"),
        ],
    )
    def test_a_fault_of_ours_is_told_as_one(self, store, shelf, statement, parameters, remedy):
        shelf.write("memory/a.md", "boiler\n")
        with (
            pytest.raises(IndexUnavailableError) as caught,
            store.address.translating_errors(),
            store.view() as view,
        ):
            view._transaction._transaction.run(statement, parameters)
        assert remedy in caught.value.remedy
        assert ("report it" in caught.value.remedy) == (remedy == "report it")

    @pytest.mark.parametrize(
        ("url", "variables", "name"),
        [
            ("postgresql://u@db:99/notes", {}, "PostgreSQL database 'notes' at db:99"),
            ("dbname=notes", {}, "PostgreSQL database 'notes' at this machine"),
            ("dbname=notes", {"PGHOST": "db"}, "PostgreSQL database 'notes' at db"),
            ("host=db user=u", {}, "PostgreSQL database 'u' at db"),
            ("service=prod", {}, "PostgreSQL database at the place of the service 'prod'"),
            ("dbname=notes", {"PGSERVICE": "prod"},
             "PostgreSQL database 'notes' at the place of the service 'prod'"),
        ],
    )  # fmt: skip
    def test_a_database_is_named_as_it_is_found(self, monkeypatch, url, variables, name):
        for variable in ("PGDATABASE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGUSER"):
            monkeypatch.delenv(variable, raising=False)
        for variable, text in variables.items():
            monkeypatch.setenv(variable, text)
        assert str(Address(Secret(url), None, "memory_gateway")) == name

    def test_a_part_of_an_address_that_makes_no_sense_is_named(self, settings):
        wrong = msgspec.structs.replace(
            settings, url=Secret("postgresql://u:hunter2secret@/x?connect_timeout=soon")
        )
        with (
            closing(PostgresStore(wrong, "main", viewpoint="")) as store,
            pytest.raises(IndexMisconfiguredError, match="connect_timeout") as caught,
        ):
            store.exists  # noqa: B018 - it asks
        assert "hunter2secret" not in str(caught.value)

    def test_a_missing_address_is_told_with_its_reason(self, settings):
        wanting = msgspec.structs.replace(settings, url=None, url_problem="refers to X")
        with pytest.raises(IndexUnavailableError, match="names no database: refers to X"):
            Address.of(wanting)


class TestConnections:
    def test_a_connection_that_the_server_closed_is_replaced_unnoticed(
        self, store, shelf, postgres_server
    ):
        shelf.write("memory/a.md", "boiler\n")
        postgres_server.sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{SERVING}'"
        )
        with store.view() as view:
            assert view.files.count("memory") == (1, 1)
        shelf.write("memory/a.md", "pump\n")

    def test_a_change_that_does_not_end_is_undone_and_others_write_meanwhile(
        self, open_store, monkeypatch
    ):
        monkeypatch.setattr("backends.builtin.store.postgres.store._WRITING_MS", 200)
        stopped, other = open_store(statement_timeout_ms=50), open_store()

        def change():
            with stopped.writer() as writer:
                if not stopped._limits_transactions:
                    pytest.skip("the server is older than PostgreSQL 17")
                writer.remember("mark", "half done")
                with other.writer(
                    30
                ) as another:  # waits for the row until the server ends the first
                    another.remember("mark", "done")

        with pytest.raises(IndexUnavailableError, match="and was undone") as caught:
            change()
        assert "statementTimeoutMs" in caught.value.remedy
        with other.view() as view:
            assert view.remembered("mark") == "done"

    def test_what_idles_is_closed(self, open_store, monkeypatch):
        monkeypatch.setattr("backends.builtin.store.postgres.connections.IDLE_S", 0.01)
        store = open_store()
        deadline = time.monotonic() + 30
        while store._pool._idle and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store._pool._idle == []
        assert store._pool._reaper is None

    def test_more_than_the_pool_has_is_refused_with_its_remedy(self, open_store, monkeypatch):
        monkeypatch.setattr("backends.builtin.store.postgres.store.PATIENCE_S", 0.01)
        store = open_store(pool=PoolSettings(max=1))
        with (
            store.view(),
            pytest.raises(IndexUnavailableError, match="All connections") as caught,
            store.view(),
        ):
            pass
        assert "pool.max" in caught.value.remedy

    def test_many_gateways_share_the_few_connections_of_pgbouncer(self, pooled_server, tmp_path):
        """More gateways at once than it has connections, each with its own settings, locks and leases."""
        found = []

        def work(number: int) -> None:
            settings = pooled_server.settings(path=tmp_path / "unused.sqlite")
            with closing(PostgresStore(settings, f"agent {number}", viewpoint="here")) as own:
                for step in range(3):
                    lease = own.lease("embedding", 60)
                    assert lease is not None
                    with own.writer(lease=lease) as writer:
                        Shelf(own).put(writer, f"memory/{step}.md", f"boiler {number} {step}\n")
                    own.give_back(lease)
                with own.view() as view:
                    found.append((number, sorted(view.files.indexed())))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        paths = [f"memory/{step}.md" for step in range(3)]
        assert sorted(found) == [(number, paths) for number in range(12)]

    def test_an_error_in_the_midst_of_statements_is_told_once(self, store, caplog):
        failing = [("SELECT 1 / 0", {}), *[("SELECT 1", {})] * 2_000]
        with (
            pytest.raises(IndexUnavailableError, match="division by zero"),
            store.view() as view,
        ):
            view._transaction.run_all(*failing)
        assert caplog.records == []

    def test_what_looks_for_indexes_leaves_no_setting_to_others_of_a_pool(
        self, pooled_server, tmp_path
    ):
        settings = pooled_server.settings(path=tmp_path)
        drop_left_indexes(Address.of(settings))
        with psycopg.connect(settings.url.reveal(), prepare_threshold=None) as connection:
            found = connection.execute("SELECT current_setting('search_path')").fetchone()
        assert found == ('"$user", public',)

    def test_no_limit_of_the_role_ends_a_view(self, postgres_server, tmp_path):
        database = postgres_server.migrated()
        settings = postgres_server.settings(database, path=tmp_path)
        limit = f"ALTER ROLE {SERVING} IN DATABASE {database} SET transaction_timeout = '300ms'"
        with suppress(psycopg.errors.UndefinedObject):  # before PostgreSQL 17
            postgres_server.sql(limit)
        with closing(PostgresStore(settings, "main", viewpoint="here")) as store:
            assert not store.exists
            with store.view() as view:
                view._transaction.run("SELECT pg_sleep(0.5)")
                assert view.files.count("memory") == (0, 0)

    def test_a_slow_statement_ends_in_time(self, open_store):
        store = open_store(statement_timeout_ms=50)
        with (
            pytest.raises(IndexUnavailableError, match="statement timeout") as caught,
            store.view() as view,
        ):
            view._transaction.run("SELECT pg_sleep(20)")
        assert "statementTimeoutMs" in caught.value.remedy

    def test_statements_that_are_sent_together_may_take_as_long_as_one_after_the_other(
        self, open_store
    ):
        """None of them is too slow, and no answer is due before the last."""
        store = open_store(statement_timeout_ms=1_000)
        with store.view() as view:
            asleep = [("SELECT pg_sleep(0.8)", {})] * 5
            assert len(view._transaction.run_all(*asleep)) == 5

    def test_nothing_of_a_transaction_outlives_it(self, store, shelf):
        shelf.write("memory/a.md", "boiler\n")
        (line,) = store._pool._idle
        line.settle()
        with line.connection.pipeline():
            settings = [
                line.connection.execute(f"SELECT current_setting('{name}', true)")
                for name in ("mg.agent", "statement_timeout", "search_path")
            ]
        values = [cursor.fetchone()[0] for cursor in settings]
        assert values == ["", "0", '"$user", public']

    @pytest.mark.parametrize("way", ["direct", "pooled"])
    def test_statements_are_prepared_where_no_pool_stands_between(self, request, tmp_path, way):
        server = request.getfixturevalue("pooled_server" if way == "pooled" else "postgres_server")
        with closing(
            PostgresStore(server.settings(path=tmp_path), "main", viewpoint="test")
        ) as store:
            Shelf(store).write("memory/a.md", "boiler\n")
            for _ in range(5):
                with store.view() as view:
                    assert view.keywords.corpus().documents == 1
            (line,) = store._pool._idle
            line.settle()
            prepared = line.connection.execute("SELECT count(*) FROM pg_prepared_statements")
            assert (prepared.fetchone() == (0,)) == (way == "pooled")

    def test_a_connection_that_lost_what_was_prepared_is_replaced(self, store, shelf):
        shelf.write("memory/a.md", "boiler\n")

        def documents():
            with store.view() as view:
                return view.keywords.corpus().documents

        for _ in range(5):
            documents()
        (line,) = store._pool._idle
        line.settle()
        line.connection.pgconn.exec_(b"DEALLOCATE ALL")
        with pytest.raises(IndexUnavailableError):
            documents()
        assert documents() == 1

    def test_after_an_error_nothing_is_taken_for_prepared_that_the_server_passed_over(self, store):
        def ask(first):
            with store.view() as view:
                view._transaction.run_all((first, {}), ("SELECT 'the same each time'", {}))

        ask("SELECT 1")
        ask("SELECT 1")
        for _ in range(2):  # the second of the two is about to be prepared
            with pytest.raises(IndexUnavailableError, match="division by zero"):
                ask("SELECT 1 / 0")
        ask("SELECT 1")


class TestStandby:
    @pytest.fixture
    def standby(self, postgres_server):
        """A standby of the server in its present state."""
        with following(postgres_server) as server:
            yield server

    def test_it_is_behind_while_it_hears_nothing_and_not_while_nothing_happens(
        self, shelf, settings, standby, postgres_server
    ):
        shelf.write("memory/a.md", "boiler\n")
        postgres_server.sql("CHECKPOINT")  # all of the log is on its way
        place = quote(str(standby.root), safe="")
        url = Secret(settings.url.reveal().partition("host=")[0] + f"host={place}")
        there = msgspec.structs.replace(settings, url=url)
        with closing(PostgresStore(there, "main", viewpoint="there")) as copy:

            def wait_until(is_so):
                deadline = time.monotonic() + 60
                while not is_so(lag := self.lag(copy)):
                    assert time.monotonic() < deadline, lag
                    time.sleep(0.05)

            wait_until(lambda lag: lag == 0)
            standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
            standby.sql("SELECT pg_reload_conf()")
            wait_until(lambda lag: lag > 0)

    def lag(self, store):
        with store.view() as view:
            details = view.details()
        assert details.read_only
        return details.lag_s


class TestApproximateIndex:
    """The approximate index of many vectors of one agent, made by `store migrate`."""

    VECTORS = 3000

    @pytest.fixture
    def filled(self, store, shelf, fingerprint):
        numbers = np.random.default_rng(7).normal(size=(self.VECTORS, 8)).astype(np.float32)
        vectors = numbers / np.linalg.norm(numbers, axis=1)[:, None]
        with store.writer() as writer:
            for number in range(0, self.VECTORS, 100):
                lines = "\n\n".join(
                    f"# {n}\n\nboiler {n} " + "x " * 300 for n in range(number, number + 100)
                )
                shelf.put(writer, f"memory/{number}.md", lines)
            pending = [key for key, _ in writer.embeddings.pending(fingerprint, limit=self.VECTORS)]
            writer.embeddings.put(fingerprint, list(zip(pending, vectors, strict=False)))
        return store

    def index(self, settings, at_least):
        admin = Secret(settings.url.reveal().replace(SERVING, SUPERUSER))
        address = Address.of(msgspec.structs.replace(settings, url=admin))
        return index_vectors(address, tenant=settings.tenant, agent="main", at_least=at_least)

    def nearest(self, store, fingerprint, hnsw_from, *, limit=10):
        """Returns the ids that are found, and the number of times that the index was asked."""
        store.open_vectors(VectorStoreSettings(hnsw_from=hnsw_from))
        with store.view() as view:
            space = view.vectors(fingerprint)
            query = np.random.default_rng(3).normal(size=8).astype(np.float32)
            before = self.scans(
                view
            )  # the server may not have reported those of the last transaction yet
            hits = space.search(query, limit=limit).hits
            return [hit.excerpt_id for hit in hits], self.scans(view) - before

    def scans(self, view):
        ((number,),) = view._transaction.run(
            "SELECT coalesce(sum(pg_stat_get_xact_numscans(indexrelid)), 0) FROM pg_index"
            " WHERE indrelid = 'embeddings'::regclass"
            " AND starts_with(indexrelid::regclass::text, 'embeddings_of_')"
        )
        return number

    def test_it_finds_what_an_exact_search_finds(self, filled, settings, fingerprint):
        exact, scans = self.nearest(filled, fingerprint, 0)
        assert (len(exact), scans) == (10, 0)
        assert self.index(settings, self.VECTORS * 9) == []
        (done,) = self.index(settings, 1)
        assert "vectors of 'main' are indexed" in done
        assert self.index(settings, 1) == []
        assert self.nearest(filled, fingerprint, 0) == (exact, 1)
        assert self.nearest(filled, fingerprint, self.VECTORS * 9) == (exact, 0)
        many, scans = self.nearest(filled, fingerprint, 0, limit=1500)
        assert (len(many), scans) == (1500, 0)

    def test_it_goes_with_its_agent(self, filled, settings, fingerprint):
        self.index(settings, 1)
        admin = Secret(settings.url.reveal().replace(SERVING, SUPERUSER))
        address = Address.of(msgspec.structs.replace(settings, url=admin))

        def left():
            with address.connected() as connection:
                return connection.execute(
                    "SELECT count(*) FROM pg_class"
                    " WHERE relname LIKE 'embeddings_of_%%' AND relname LIKE %s",
                    (f"embeddings_of_{filled._agent or agent}_%",),
                ).fetchone()[0]

        agent = filled._agent
        drop_left_indexes(address)
        assert left() == 1
        filled.drop()
        drop_left_indexes(Address.of(settings))  # a serving role may not
        assert left() == 1
        drop_left_indexes(address)
        assert left() == 0

    def test_two_that_make_it_at_once_are_told_so(self, filled, settings):
        admin = settings.url.reveal().replace(SERVING, SUPERUSER)
        with filled.view() as view:
            ((number,),) = view._transaction.run("SELECT fingerprint_id FROM fingerprints")
        with (
            ThreadPoolExecutor(1) as thread,
            psycopg.connect(admin) as first,
            psycopg.connect(admin, autocommit=True) as watching,
        ):
            index = f"embeddings_of_{filled._agent}_{number}"
            first.execute(f"CREATE INDEX {index} ON memory_gateway.embeddings (agent_id)")
            second = thread.submit(self.index, settings, 1)
            waiting = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND database ="
            waiting += " (SELECT oid FROM pg_database WHERE datname = current_database()))"
            while not watching.execute(waiting).fetchone()[0] and not second.done():
                time.sleep(0.01)
            first.commit()
            with pytest.raises(IndexUnavailableError, match="Somebody else makes") as caught:
                second.result()
            watching.execute(f"DROP INDEX memory_gateway.{index}")
        assert "again" in caught.value.remedy

    def test_it_is_never_short_of_results_where_the_nearest_are_of_no_use_any_more(
        self, filled, settings, fingerprint
    ):
        self.index(settings, 1)
        exact, _ = self.nearest(filled, fingerprint, 0, limit=200)
        with filled.view() as view:
            rows = view._transaction.run(
                "SELECT DISTINCT f.path FROM excerpts AS x JOIN files AS f USING (agent_id, file_id)"
                " WHERE x.excerpt_id = ANY(%(ids)s)",
                {"ids": exact},
            ).fetchall()
        with filled.writer() as writer:
            for (path,) in rows[:-1]:
                writer.files.remove("memory", path)
        found, _ = self.nearest(filled, fingerprint, 0, limit=50)
        assert len(found) == 50


def test_vectors_that_half_precision_cannot_tell_apart_are_told_apart(store, shelf, fingerprint):
    chance = np.random.default_rng(5)
    numbers = chance.normal(size=8) + 1e-4 * chance.normal(size=(600, 8))
    vectors = (numbers / np.linalg.norm(numbers, axis=1)[:, None]).astype(np.float32)
    query = vectors[0].copy()
    with store.writer() as writer:
        text = "\n\n".join(f"# {n}\n\nboiler {n} " + "x " * 300 for n in range(600))
        shelf.put(writer, "memory/a.md", text)
        keys = [key for key, _ in writer.embeddings.pending(fingerprint, limit=600)]
        writer.embeddings.put(fingerprint, list(zip(keys, vectors, strict=False)))
    store.open_vectors(VectorStoreSettings())
    exact = np.sort(1 - vectors[: len(keys)].astype(float) @ query.astype(float))
    for _ in range(2):  # the second one knows a sample
        with store.view() as view:
            space = view.vectors(fingerprint)
            hits = space.search(query, limit=10).hits
            space.background(query)
        assert np.allclose([1 - hit.cosine for hit in hits], exact[:10], atol=2e-7)


@pytest.mark.parametrize("version", ["0.6.2", None])
def test_a_pgvector_that_is_too_old_or_missing_is_refused_with_its_remedy(settings, version):
    with pytest.raises(IndexUnavailableError, match="pgvector") as caught:
        check_extension(Address.of(settings), version)
    assert "Install pgvector 0.7 or later" in caught.value.remedy
    check_extension(Address.of(settings), "0.7.0")


def test_a_server_that_is_too_old_is_refused_with_its_remedy(settings):
    with pytest.raises(IndexUnavailableError, match="runs PostgreSQL 14") as caught:
        check_server(Address.of(settings), 140_012)
    assert "PostgreSQL 15 or later" in caught.value.remedy
    check_server(Address.of(settings), 150_000)


class TestRoundTrips:
    NOTES = 60

    @pytest.fixture
    def filled(self, store, shelf, fingerprint):
        """Notes with vectors in several directions."""
        with store.writer() as writer:
            for number in range(self.NOTES):
                text = f"The boiler {number} hums.\n" if number % 2 else f"Pump {number}.\n"
                shelf.put(writer, f"memory/{number}.md", text)
            pending = writer.embeddings.pending(fingerprint, limit=self.NOTES)
            vectors = [(key, direction(number % 8)) for number, (key, _) in enumerate(pending)]
            writer.embeddings.put(fingerprint, vectors)
        store.open_vectors(VectorStoreSettings())
        return store

    def search(self, store, settings, vector=None):
        searcher = Searcher(MemorySearchSettings(store=settings))
        with store.view() as view:
            found = searcher.search(view, SearchRequest(query="Which boiler hums?"), vector)
            return found, view._transaction.trips

    def test_a_keyword_search_waits_three_times(self, filled, settings):
        found, trips = self.search(filled, settings)
        assert found.hits and found.mode == "keyword"
        assert trips <= 3

    def test_a_hybrid_search_waits_six_times(self, filled, settings, fingerprint):
        found, trips = self.search(filled, settings, QueryVector(direction(1), fingerprint))
        assert found.hits and found.mode == "hybrid"
        assert trips <= 6
