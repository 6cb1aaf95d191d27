"""`store migrate | check | copy | drop-agent` of the real command line, on a real PostgreSQL."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from anyio import to_thread

from fakes import postgres
from fakes.canaries import leaks
from fakes.vendors import FakeVendor

PASSWORD = "canary-7f1c-of-the-database"
WAIT_S = 120


@pytest.fixture
def database(postgres_server):
    return postgres_server.new_database()


@pytest.fixture
def configured(home, type_in, postgres_server, database):
    """Both stores beside each other; the driver is chosen by `use`."""

    class Configured:
        def __init__(self) -> None:
            self.block: dict[str, object] = {}

        def use(self, driver, role=postgres.SERVING, **block):
            url = postgres_server.url(database, role=role).replace("@", f":{PASSWORD}@")
            self.block = self.block | block
            store = {"driver": driver, "url": url}
            search = {"provider": "none", **self.block, "store": store}
            home.configure({"agents": {"defaults": {"memorySearch": search}}})

        def store(self, *arguments, **environment):
            line = ["store", arguments[0], *home.arguments, *arguments[1:]]
            said = type_in(*line, environment=home.environment | environment)
            assert leaks({"password": PASSWORD}, {"said": said.stdout + said.stderr}) == []
            return said

        def run(self, command, *arguments):
            return type_in(command, *home.arguments, *arguments)

    return Configured()


def migrated(configured, postgres_server, database):
    admin = postgres_server.url(database)
    arguments = ("migrate", "--url-from", "ADMIN_URL", "--role", postgres.SERVING)
    return configured.store(*arguments, ADMIN_URL=admin)


def test_tables_are_made_by_a_role_of_their_own_and_checked_by_the_one_that_serves(
    home, configured, postgres_server, database
):
    configured.use("postgres")
    before = configured.store("check")
    assert before.returncode == 69
    assert "store migrate" in before.stderr
    assert "--url-from" in before.stderr
    refused = configured.store("migrate")  # a serving role may not
    assert refused.returncode == 69
    assert "--url-from" in refused.stderr
    done = migrated(configured, postgres_server, database)
    assert (done.returncode, done.stderr) == (0, "")
    assert "now has version" in done.stdout
    assert "is as it should be" in migrated(configured, postgres_server, database).stdout
    assert configured.run("index").returncode == 0
    found = configured.store("check", "--json")
    report = json.loads(found.stdout)
    assert (found.returncode, report["problems"]) == (0, [])
    assert any(fact.startswith("4 files, ") for fact in report["facts"])


def test_a_role_that_sees_all_rows_is_told_and_so_are_wrong_counts(
    home, configured, postgres_server, database
):
    configured.use("postgres")
    migrated(configured, postgres_server, database)
    assert configured.run("index").returncode == 0
    configured.use("postgres", role=postgres.SUPERUSER)
    found = configured.store("check")
    assert found.returncode == 78
    assert "has SUPERUSER" in found.stderr
    configured.use("postgres")
    postgres_server.sql("UPDATE memory_gateway.agents SET documents = 99", database=database)
    assert "99 counted" in configured.store("check").stderr
    doctor = json.loads(configured.run("doctor", "--json").stdout)
    (finding,) = [one for one in doctor["findings"] if one["check"] == "index"]
    assert (finding["severity"], "99 counted" in finding["cause"]) == ("warning", True)


def test_an_index_goes_to_postgres_and_back_and_is_embedded_once(
    home, configured, postgres_server, database
):
    with FakeVendor("openai") as vendor:
        access = {"baseUrl": vendor.base_url, "apiKey": vendor.key}
        configured.use("sqlite", provider="openai", remote=access)
        migrated_first = configured.store("migrate")
        assert migrated_first.returncode == 69  # a file makes its tables itself
        configured.use("postgres")
        migrated(configured, postgres_server, database)
        configured.use("sqlite")
        with_vectors(home)
        vendor.requests.clear()
        there = configured.store("copy", "--from", "sqlite", "--to", "postgres")
        assert there.returncode == 0, there.stderr
        assert "vectors copied" in there.stdout
        assert 'Now set store.driver to "postgres".' in there.stdout
        again = configured.store("copy", "--from", "sqlite", "--to", "postgres", "--json")
        assert json.loads(again.stdout)["vectors"] == 0
        configured.use("postgres")
        assert covered(with_vectors(home))
        for file in home.state.rglob("*.sqlite*"):
            file.unlink()
        back = configured.store("copy", "--from", "postgres", "--to", "sqlite", "--json")
        assert json.loads(back.stdout)["vectors"] > 0
        configured.use("sqlite")
        assert covered(with_vectors(home))
        assert Counter(vendor.embedded()) == {}


def with_vectors(home):
    """Serves until every text has its vector; returns the counts."""
    import anyio

    async def serve():
        async with home.gateway() as client:
            await client.call("sync", {})
            with anyio.fail_after(WAIT_S):
                while True:
                    status = await client.call("status", {})
                    backfill = status["details"]["vector"].get("backfill")
                    if backfill and not backfill["running"] and covered(backfill["coverage"]):
                        return backfill["coverage"]
                    await anyio.sleep(0.05)

    return anyio.run(serve)


def covered(coverage):
    return coverage["embedded"] == coverage["total"] > 0


def test_an_agent_is_dropped_with_all_of_its_rows_and_no_others(
    home, configured, postgres_server, database
):
    configured.use("postgres")
    migrated(configured, postgres_server, database)
    assert configured.run("index").returncode == 0
    unasked = configured.store("drop-agent", "main")
    assert unasked.returncode == 64
    dropped = configured.store("drop-agent", "main", "--yes", "--json")
    assert json.loads(dropped.stdout) == {"dropped": True, "agent": "main"}
    assert configured.store("drop-agent", "main", "--yes").returncode == 66
    tables = postgres_server.sql(
        "SELECT relname FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace"
        " WHERE nspname = 'memory_gateway' AND relkind = 'r' AND relname <> 'store_schema'",
        database=database,
    )
    left = {
        name: postgres_server.sql(f"SELECT count(*) FROM memory_gateway.{name}", database=database)
        for (name,) in tables
    }
    assert set(map(str, left.values())) == {"[(0,)]"}
    assert configured.run("index").returncode == 0
    assert "boiler" in configured.run("search", "boiler").stdout


def test_status_and_metrics_know_the_store_without_its_password(
    home, configured, postgres_server, database
):
    configured.use("postgres")
    migrated(configured, postgres_server, database)
    assert configured.run("index").returncode == 0
    said = configured.run("status")
    assert "PostgreSQL 18" in said.stdout
    assert "idle" in said.stdout
    status = json.loads(configured.run("status", "--json").stdout)
    store = status["details"]["store"]
    assert (store["driver"], store["role"], store["readOnly"]) == ("postgres", "idle", False)
    assert status["databaseBytes"] > 0
    assert database in status["databasePath"]
    config = configured.run("config", "--json")
    assert leaks({"password": PASSWORD}, {"status": str(status), "config": config.stdout}) == []


@pytest.mark.anyio
async def test_the_metrics_of_a_gateway_that_serves_from_a_database_are_numbers(
    home, configured, postgres_server, database
):
    configured.use("postgres")
    await to_thread.run_sync(migrated, configured, postgres_server, database)
    async with home.gateway() as client:
        await client.call("sync", {})
        printed = await to_thread.run_sync(configured.run, "metrics")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "memory_gateway_store_read_only 0.0\n" in printed.stdout


@pytest.mark.parametrize(("source", "target"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_copy_without_an_address_is_a_matter_of_the_configuration(
    home, configured, source, target
):
    home.configure({"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    done = configured.store("copy", "--from", source, "--to", target)
    assert (done.returncode, done.stdout) == (78, "")
    assert "store.url" in done.stderr
    assert "postgresql://gateway@db.example/memory" in done.stderr


def test_copying_to_the_same_store_is_a_slip(configured):
    configured.use("sqlite")
    done = configured.store("copy", "--from", "sqlite", "--to", "sqlite")
    assert (done.returncode, "both sqlite" in done.stderr) == (64, True)


def test_an_empty_variable_is_told_by_its_name(configured):
    configured.use("postgres")
    done = configured.store("migrate", "--url-from", "NOWHERE")
    assert (done.returncode, "NOWHERE is not set" in done.stderr) == (64, True)


def test_no_command_tells_the_password_of_a_database_that_cannot_be_reached(
    home, type_in, tmp_path
):
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}-in-a-file\n", encoding="utf-8")
    url = f"postgresql://gateway:{PASSWORD}@127.0.0.1:9/memory"
    for store in ({"url": url}, {"url": url, "passwordFile": str(secret)}):
        search = {"provider": "none", "store": {"driver": "postgres", **store}}
        home.configure({"agents": {"defaults": {"memorySearch": search}}})
        commands = (["search", "boiler"], ["index"], ["status"], ["health"], ["doctor"], ["config"])
        said = {}
        for command, *words in commands:
            done = type_in(command, *home.arguments, *words, "--log-level", "debug")
            said[command] = done.stdout + done.stderr
        assert "cannot be used" in said["search"]
        assert type_in("get", *home.arguments, "MEMORY.md").stdout.startswith("# Memory")
        assert leaks({"password": PASSWORD}, said) == []
