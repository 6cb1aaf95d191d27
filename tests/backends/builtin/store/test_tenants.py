"""Tenants in one database whose gateway forgot to ask for its own rows: the server still keeps them apart.

Every condition on the agent is taken out of every statement, and each tenant is compared with an index file of its
own that gets the same calls. `TENANT_CALLS=10000` makes that many calls.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, closing
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from backends.builtin.store.postgres import connections
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import IndexUnavailableError
from config.settings import Secret, VectorStoreSettings
from fakes.postgres import SUPERUSER

from .test_both import WORDS, apply, assert_same, found, nearest, state

CALLS = int(os.environ.get("TENANT_CALLS", "300"))
TENANTS = (
    'it\'s "odd"; DROP TABLE files --',
    "100%s of %(agent)s %% \\ $1",
    "Ünïcode 🔧 \u202e水泵",
)
PATHS = [f"memory/{name}.md" for name in ("a", "2026-03-01", *TENANTS)]
ODD_WORDS = [*WORDS, "O'Brien", "100%", "%(agent)s", "\\", "$1", "--"]
KINDS = ["publish"] * 4 + ["remove", "touch", "embed", "embed"]
"""The calls, without "prune", since of two vectors that went out of use at one instant each store chooses one, and
without "fail", whose effect lasts for a time: these two come last.
"""
OF_AGENT = re.compile(
    r"(?:\w+\.)?agent_id = (?:%\(agent\)s|\d+)|tenant = %\(tenant\)s|name = %\(name\)s"
)


@pytest.fixture
def forgetful(monkeypatch) -> list[int]:
    """Removes the condition on the agent from every statement; returns the number of conditions removed from each."""
    lost: list[int] = []
    send = connections.Transaction.run_all

    def run_all(self, *statements):
        bare = []
        for text, parameters in statements:
            whole = text if isinstance(text, str) else text.as_string(None)
            without, number = OF_AGENT.subn("true", whole)
            lost.append(number)
            bare.append((without, parameters))
        return send(self, *bare)

    monkeypatch.setattr(connections.Transaction, "run_all", run_all)
    return lost


class Tenant:
    """A store in the shared database, and a file that gets the same calls."""

    def __init__(self, stack, settings, tenant: str, root: Path) -> None:
        name = f"{tenant} of {root.name}"
        rows = PostgresStore(replace(settings, tenant=name), tenant, viewpoint="here")
        self.rows = stack.enter_context(closing(rows))
        place = root / f"{TENANTS.index(tenant)}.sqlite"
        self.file = stack.enter_context(closing(SqliteStore(place, viewpoint="here")))
        for store in (self.rows, self.file):
            store.open_vectors(VectorStoreSettings())

    def call(self, chance: Random, at: int) -> None:
        """Makes a random call of the port; its answer must be the same as without other tenants."""
        lines = chance.choices(ODD_WORDS, k=chance.randrange(1, 12))
        text, query = " ".join(lines), " ".join(chance.choices(ODD_WORDS, k=2))
        match chance.randrange(20):
            case 0:
                assert state(self.rows) == state(self.file)
            case 1 | 2 | 3 | 4:
                only = chance.choice([None, None, 1, 3])
                assert_same(found(self.rows, query, only), found(self.file, query, only))
            case 5 | 6:
                pairs = zip(nearest(self.rows, query), nearest(self.file, query), strict=True)
                assert all(one == pytest.approx(other, abs=1e-4) for one, other in pairs)
            case _:
                step = chance.choice(KINDS), chance.choice(PATHS), text
                assert apply(self.rows, at, *step) == apply(self.file, at, *step)

    def ask_for_foreign_rows(self, other: Tenant) -> None:
        """Asks for them by id, since ids are plain numbers."""
        with other.rows.view() as view:
            theirs = [card.id for card in view.files.all_cards(with_tags=True)]
        with self.rows.view() as view:
            own = {card.id for card in view.files.all_cards(with_tags=True)}
            assert not own & set(theirs)
            assert view.files.cards(theirs) == {}
            assert view.files.note_dates(theirs) == {}
            assert view.transcripts.entries([]) == {}


def test_no_call_sees_or_changes_a_row_of_another_tenant(forgetful, postgres_settings, tmp_path):
    chance = Random(24)
    with ExitStack() as stack:
        tenants = [Tenant(stack, postgres_settings, name, tmp_path) for name in TENANTS]
        for number, tenant in zip(range(CALLS), cycle(tenants), strict=False):
            tenant.call(chance, number + 1)
            if number % 10 == 0:
                tenant.ask_for_foreign_rows(chance.choice([t for t in tenants if t is not tenant]))
        for tenant in tenants:
            for store in (tenant.rows, tenant.file):
                apply(store, CALLS + 1, "publish", PATHS[0], "a text that is refused")
                apply(store, CALLS + 1, "fail", None, None)
            assert state(tenant.rows) == state(tenant.file)
        assert sum(forgetful) > CALLS
        apply(tenants[0].rows, CALLS + 1, "prune", None, None)
        assert tenants[0].rows.drop()
        for tenant in tenants[1:]:
            assert state(tenant.rows) == state(tenant.file)
            assert tenant.rows.check().problems == ()


def test_without_row_level_security_the_same_calls_find_foreign_rows(
    forgetful, postgres_server, postgres_settings, tmp_path
):
    """This shows that the test above would notice them."""
    database = postgres_settings.url.reveal().partition("@/")[2].partition("?")[0]
    free = replace(postgres_settings, url=Secret(postgres_server.url(database, role=SUPERUSER)))
    with ExitStack() as stack:
        mine = Tenant(stack, postgres_settings, TENANTS[0], tmp_path)
        for store in (mine.rows, mine.file):
            apply(store, 1, "publish", PATHS[0], "boiler\n")
        mine.rows._pool.close()
        agent, bare = mine.rows._agent, PostgresStore(free, "main", viewpoint="here")
        row = f"{agent + 1}, '{free.tenant}', 'main'"
        postgres_server.sql(
            f"INSERT INTO memory_gateway.agents (agent_id, tenant, name) VALUES ({row})",
            database=database,
        )
        with closing(bare), bare.view() as view:
            assert bare._agent == agent + 1
            assert PATHS[0] in view.files.indexed()


@pytest.mark.parametrize("name", ["tenant", "agent"])
def test_a_name_that_postgres_cannot_hold_is_refused(postgres_settings, name):
    tenant, agent = ("a\0b", "main") if name == "tenant" else ("one", "a\0b")
    settings = replace(postgres_settings, tenant=tenant)
    with (
        closing(PostgresStore(settings, agent, viewpoint="here")) as store,
        pytest.raises(IndexUnavailableError, match="NUL"),
        store.view() as view,
    ):
        view.version()
