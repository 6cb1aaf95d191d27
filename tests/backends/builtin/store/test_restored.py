"""A database that is restored or made anew under running gateways: each one finds its own agent again, and no other."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.builtin.store.port import IndexDamagedError
from backends.builtin.store.postgres.connections import Address
from backends.builtin.store.postgres.schema import SCHEMA_VERSION, migrate
from backends.builtin.store.postgres.store import PostgresStore
from backends.interface import IndexUnavailableError, SearchRequest, SyncRequest
from config.settings import SyncSettings
from fakes.patience import be_patient
from fakes.postgres import SERVING, SUPERUSER, Server
from fakes.settings import make_settings

from .conftest import Shelf

PATIENCE_S = 60
ROUNDS = 2
TENANTS = ("alder", "birch")


class Shared:
    """One database for two tenants, and operations on it."""

    def __init__(self, server: Server, root: Path) -> None:
        self.server = server
        self._root = root
        self.name = server.migrated()
        self.backup = f"{self.name}_backup"
        self._put_away(self.name)
        self.sql(f"CREATE DATABASE {self.backup} TEMPLATE {self.name}", "postgres")

    def settings(self, tenant: str, role: str = SERVING):
        return self.server.settings(
            self.name, path=self._root / "no.sqlite", role=role, tenant=tenant
        )

    def sql(self, statement: str, database: str | None = None) -> list[tuple]:
        return self.server.sql(statement, database=database or self.name)

    def _put_away(self, name: str) -> None:
        self.sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
            "postgres",
        )

    def restore(self) -> None:
        """Restores the database as it was before anybody wrote to it."""
        self.sql(f"DROP DATABASE {self.name} WITH (FORCE)", "postgres")
        self._put_away(self.backup)
        self.sql(f"CREATE DATABASE {self.name} TEMPLATE {self.backup}", "postgres")

    def make_anew(self) -> None:
        """Makes the tables anew while connections stay open."""
        self.sql("DROP SCHEMA memory_gateway CASCADE")
        migrate(Address.of(self.settings("", SUPERUSER)), role=SERVING)

    def foreign(self) -> list[tuple]:
        """Files of the workspace of one tenant among the rows of the other."""
        return self.sql(
            "SELECT a.tenant, f.path FROM memory_gateway.files AS f"
            " JOIN memory_gateway.agents AS a USING (agent_id)"
            " WHERE f.path NOT LIKE '%' || a.tenant || '%'"
        )


@pytest.fixture
def shared(postgres_server, tmp_path):
    return Shared(postgres_server, tmp_path)


class Tenant:
    """A workspace, and the gateway that indexes it."""

    def __init__(self, shared: Shared, name: str, root: Path) -> None:
        self.name = name
        made = make_settings(
            root / name, search={"provider": "none", "sync": SyncSettings(search_budget_ms=20_000)}
        )
        self.settings = replace(made, search=replace(made.search, store=shared.settings(name)))
        self.notes = 0

    def write(self) -> None:
        self.notes += 1
        note = self.settings.workspace / "memory" / f"{self.name}-{self.notes}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"The boiler of {self.name}, note {self.notes}.\n", encoding="utf-8")

    async def found(self, backend) -> set[str]:
        request = SearchRequest(query="boiler", max_results=50, min_score=0.0)
        with anyio.fail_after(PATIENCE_S):
            while True:
                try:
                    answer = await backend.search(request)
                except IndexUnavailableError:  # its connections were ended
                    await anyio.sleep(0.05)
                else:
                    assert all(self.name in hit.path for hit in answer.hits)
                    if answer.stale is None:
                        return {hit.path for hit in answer.hits}

    def all(self) -> set[str]:
        return {f"memory/{self.name}-{number + 1}.md" for number in range(self.notes)}


@pytest.mark.anyio
async def test_two_tenants_are_never_mixed_by_a_restore_or_a_remake(shared, tmp_path, monkeypatch):
    be_patient(monkeypatch)
    tenants = [Tenant(shared, name, tmp_path) for name in TENANTS]
    async with AsyncExitStack() as stack:
        running = []
        for tenant in tenants:
            tenant.write()
            backend = await stack.enter_async_context(open_builtin(tenant.settings))
            await backend.sync(SyncRequest())
            running.append((tenant, backend))
        for _ in range(ROUNDS):
            for change in (shared.restore, shared.make_anew):
                await to_thread.run_sync(change)
                running.reverse()  # the first one now gets the number of the other
                for tenant, backend in running:
                    assert await tenant.found(backend) == tenant.all()
                    tenant.write()
                    assert await tenant.found(backend) == tenant.all()
                for tenant, backend in running:
                    await backend.sync(SyncRequest(force=True))
                    assert await tenant.found(backend) == tenant.all()
                    assert await backend.weaknesses() == ()
                assert shared.foreign() == []
    for tenant in tenants:
        with closing(PostgresStore(tenant.settings.search.store, "main", viewpoint="x")) as store:
            assert store.check().problems == ()


@contextmanager
def store_of(settings, viewpoint="here"):
    with closing(PostgresStore(settings, "main", viewpoint=viewpoint)) as store:
        yield store


def test_the_keys_of_agents_cannot_be_guessed_and_do_not_come_again(shared):
    seen = set()
    for _ in range(3):
        for tenant in TENANTS:
            with store_of(shared.settings(tenant)) as store:
                Shelf(store).write("memory/a.md", "boiler\n")
        keys = {key for (key,) in shared.sql("SELECT agent_id FROM memory_gateway.agents")}
        assert len(keys) == len(TENANTS)
        assert min(keys) > 2**40
        assert not keys & seen
        seen |= keys
        shared.restore()


@pytest.mark.parametrize("call", ["read", "write", "lease", "claim"])
def test_a_key_that_belongs_to_somebody_else_reads_and_writes_nothing(shared, call):
    """This is the case after a restore, if keys were given out again."""
    mine, theirs = (shared.settings(tenant) for tenant in TENANTS)
    with store_of(mine) as store, store_of(theirs) as other:
        for one in (store, other):
            Shelf(one).write("memory/a.md", "boiler\n")
        lease = store.lease("embedding", 60)
        before = rows(shared, other)
        store._agent = other._agent
        calls = {
            "read": lambda: look(store),
            "write": lambda: Shelf(store).write("memory/b.md", "pump\n"),
            "lease": lambda: store.lease("batch", 60),
            "claim": lambda: store.claim(lease, [b"text"]),
        }
        with pytest.raises(IndexDamagedError, match="begins anew"):
            calls[call]()
        assert rows(shared, other) == before
        assert store.generation == 1
        with store.view() as view:
            assert set(view.files.indexed()) == {"memory/a.md"}


def rows(shared, store):
    return [
        shared.sql(f"SELECT count(*) FROM memory_gateway.{table} WHERE agent_id = {store._agent}")
        for table in ("files", "leases", "claims", "viewpoints", "postings")
    ]


def test_what_is_as_it_was_has_another_version_after_a_restore(shared):
    """A gateway that counts would take a restored index for the one it was up to date with."""
    with store_of(shared.settings("alder")) as store:
        versions = []
        for word in ("boiler", "pump", "valve"):
            Shelf(store).write("memory/a.md", f"{word}\n")
            with store.view() as view:
                versions.append(view.version().number)
        assert len(set(versions)) == 3
        assert sorted(versions) != [versions[0], versions[0] + 1, versions[0] + 2]


def test_a_lease_from_before_a_restore_is_not_that_of_another_gateway_after_it(shared):
    with store_of(shared.settings("alder")) as store, store_of(shared.settings("alder")) as other:
        Shelf(store).write("memory/a.md", "boiler\n")
        lease = store.lease("embedding", 0)
        shared.sql("DELETE FROM memory_gateway.leases")
        later = other.lease("embedding", 60)
        assert later is not None and lease is not None
        assert not store.renew(lease, 60)


class TestOtherVersion:
    """Running gateways stop working when the tables become those of another release."""

    @pytest.fixture
    def changed(self, shared):
        with store_of(shared.settings("alder")) as store:
            Shelf(store).write("memory/a.md", "boiler\n")
            self.lease = store.lease("embedding", 60)
            shared.sql(f"UPDATE memory_gateway.store_schema SET version = {SCHEMA_VERSION + 1}")
            yield store

    def test_they_read_publish_and_lease_nothing_on_the_connection_that_they_have(
        self, changed, shared
    ):
        before = rows(shared, changed)
        for work in (
            lambda: Shelf(changed).write("memory/b.md", "pump\n"),
            lambda: changed.lease("batch", 60),
            lambda: changed.renew(self.lease, 60),
            lambda: changed.claim(self.lease, [b"text"]),
            changed.drop,
            lambda: look(changed),
        ):
            with pytest.raises(IndexUnavailableError, match=f"version {SCHEMA_VERSION + 1}"):
                work()
        assert rows(shared, changed) == before

    def test_they_go_on_when_it_is_theirs_again(self, changed, shared):
        with pytest.raises(IndexUnavailableError, match="version"):
            look(changed)
        shared.sql(f"UPDATE memory_gateway.store_schema SET version = {SCHEMA_VERSION}")
        assert look(changed) == {"memory/a.md"}

    def test_who_migrates_waits_for_a_change_that_has_begun(self, shared):
        """Its tables do not change in the middle of it."""
        address = Address.of(shared.settings("", SUPERUSER))
        with ThreadPoolExecutor(1) as threads:
            with store_of(shared.settings("alder")) as store, store.writer() as writer:
                Shelf(store).put(writer, "memory/a.md", "boiler\n")
                shared.sql("UPDATE memory_gateway.store_schema SET version = 1")
                migrating = threads.submit(migrate, address)
                until(lambda: shared.sql("SELECT 1 FROM pg_locks WHERE NOT granted"))
                Shelf(store).put(writer, "memory/b.md", "pump\n")
            assert "now has version" in migrating.result(PATIENCE_S)[-1]
            with store_of(shared.settings("alder")) as store:
                assert look(store) == {"memory/a.md", "memory/b.md"}


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def look(store):
    with store.view() as view:
        return set(view.files.indexed())
