"""The resident vectors are loaded when used, follow changes, and are dropped when nobody needs them."""

import threading
from contextlib import asynccontextmanager

import anyio
import pytest

from backends.builtin.embedding.semantics import Residency
from config.runtime.tasks import LONGEST_PAUSE_S, SearchPriority
from config.settings import VectorStoreSettings
from providers.provider_interface import Fingerprint

pytestmark = pytest.mark.anyio


class Kept:
    """Engines over a library, kept by a running residency."""

    def __init__(self, library, **options):
        self.library = library
        self.engines = library.database.open_vectors(VectorStoreSettings())
        options = {"is_short": lambda: False, "priority": SearchPriority()} | options
        self.residency = Residency(library.database, self.engines, **options)

    def use(self):
        self.residency.used(self.library.fingerprint)

    def vectors(self):
        return self.engines.resident.resident_vectors


@pytest.fixture
def kept(library):
    library.write("memory/a.md", "one", "two", "three")
    library.embed()

    @asynccontextmanager
    async def start(**options):
        kept = Kept(library, **options)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.residency.run)
            yield kept
            tasks.cancel_scope.cancel()

    return start


async def test_nothing_is_loaded_before_the_first_answer(kept, until):
    async with kept() as here:
        here.residency.changed()
        for _ in range(20):
            await anyio.sleep(0)
        assert here.vectors() == 0
        here.use()
        await until(lambda: here.vectors() == 3)


async def test_what_is_written_is_followed(kept, library, until):
    async with kept() as here:
        here.use()
        await until(lambda: here.vectors() == 3)
        library.write("memory/b.md", "four")
        library.embed()
        here.residency.changed()
        await until(lambda: here.vectors() == 4)
        assert here.engines.resident.resident_bytes > 0


async def test_vectors_that_nobody_uses_are_given_back_and_loaded_again(kept, until):
    async with kept(idle_s=0.05, look_s=0.01) as here:
        for _ in range(2):
            await until(lambda: here.use() or here.vectors() == 3)
            await until(lambda: here.vectors() == 0)
        assert here.engines.resident.resident_bytes == 0


async def test_vectors_are_given_back_while_memory_is_short(kept, until):
    short = threading.Event()
    async with kept(is_short=short.is_set, look_s=0.01) as here:
        here.use()
        await until(lambda: here.vectors() == 3)
        short.set()
        await until(lambda: here.vectors() == 0)
        here.use()
        here.residency.changed()
        for _ in range(20):
            await anyio.sleep(0.001)
        assert here.vectors() == 0
        short.clear()
        here.use()
        await until(lambda: here.vectors() == 3)


async def test_an_index_that_cannot_be_read_ends_nothing(kept, library, until):
    async with kept() as here:
        library.database.close()
        library.path.unlink()
        here.use()
        for _ in range(20):
            await anyio.sleep(0.005)
        assert here.engines.resident.resident_bytes == 0


async def test_the_memory_is_given_back_at_the_end(kept, until):
    async with kept() as here:
        here.use()
        await until(lambda: here.vectors() == 3)
    assert here.engines.resident.resident_bytes == 0


async def test_the_vectors_of_the_provider_that_reads_the_queries_are_held(kept, library, until):
    async with kept() as here:
        here.use()
        await until(lambda: here.vectors() == 3)
        library.fingerprint = Fingerprint(provider="other", model="m", endpoint="e")
        library.embed("one")
        here.use()
        await until(lambda: here.vectors() == 1)
        assert here.engines.resident.resident_bytes > 0


@pytest.mark.promises_seconds
async def test_searches_that_run_go_before_vectors_that_are_loaded(kept, until):
    priority = SearchPriority()
    with priority.searching():
        async with kept(priority=priority) as here:
            started = anyio.current_time()
            here.use()
            await until(lambda: here.vectors() == 3)
            assert anyio.current_time() >= started + LONGEST_PAUSE_S
