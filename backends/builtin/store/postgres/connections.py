"""Connections to PostgreSQL: its address, a small pool, transactions without session state, and the meaning of errors.

They work through pgbouncer in transaction mode: every setting is made inside the transaction that needs it,
statements are prepared only on a direct connection, and idle connections are closed.
"""

from __future__ import annotations

import logging
import math
import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus

from backends.interface import IndexMisconfiguredError, IndexUnavailableError
from config.secrets import redact
from config.settings import Secret, StoreSettings

# psycopg warns about errors that it ignores while another one is raised, which is reported anyway.
logging.getLogger("psycopg").setLevel(logging.ERROR)

CONNECT_TIMEOUT_S: Final = 5
PATIENCE_S: Final = 5.0
"""The time to wait for a connection of the pool, or for a lock that another process holds."""
GRACE_S: Final = 2.0
"""The time between the end of a long statement, which the server ends, and giving up the connection."""
_LEAST_CONNECTING_S: Final = 2
IDLE_S: Final = 30.0
"""The time after which an unused connection is closed: a thousand gateways must not keep thousands of them."""
_SETTLING_S: Final = 2.0
"""The time to wait for the end of a transaction: undoing one takes the server no time."""
LONGEST_LIFE_S: Final = 1_800.0
LISTEN_S: Final = 1.0
"""The interval at which a silent server is asked whether it answers."""
VERDICT_S: Final = 0.5
"""The time after which nobody waits for a silent server. If only one connection was lost, a new one is made before."""
PREPARED_FROM: Final = 2
"""The times that a statement runs on one connection before it is prepared: planning it takes as long as running it."""
_MOST_PASSWORD_BYTES: Final = 4_096

TRANSACTION_TIMEOUT_FROM: Final = 170_000
"""The first version of the server that can end a transaction which takes too long."""

_ENCODING: Final = "UTF8"
_SETTINGS: Final = {
    "array_nulls": "on",
    "bytea_output": "hex",
    "datestyle": "ISO, MDY",
    "extra_float_digits": "1",  # all digits of a score
    "intervalstyle": "postgres",
    "jit": "off",  # a search takes less than compiling it
    "max_parallel_workers_per_gather": "0",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
}
"""Settings that answers depend on, and that an address, a role, a database or a variable may have changed."""

Statement = tuple[str | sql.Composed, Sequence[Any] | dict[str, Any]]
Cursor = psycopg.Cursor[Any]
Proof = Callable[[object], None]
"""Gets the row of the last statement that begins a transaction, and raises if the transaction must not count."""
T = TypeVar("T")


class ServerSilentError(psycopg.OperationalError):
    """The server or the network to it did not answer in time. The connection is closed."""


class Connection(psycopg.Connection[Any]):
    """A connection that waits for no answer beyond `until`, by `time.monotonic`.

    It does not ask the server to cancel: the server's own time-out is shorter, and one that ignores it ignores all.
    """

    until = math.inf

    def wait(self, gen: PQGen[T], *arguments: Any, **named: Any) -> T:
        if self.until == math.inf:
            return super().wait(gen, *arguments, **named)
        started = time.monotonic()
        try:
            return super().wait(_limited(gen, self.until), *arguments, **named)
        except ServerSilentError:
            self.close()
            waited_s = time.monotonic() - started
            raise ServerSilentError(f"it did not answer within {waited_s:.1f} s") from None


def _limited(gen: PQGen[T], until: float) -> PQGen[T]:
    """Limits the time of a generator; psycopg resumes it several times a second, whether or not anything arrived."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if time.monotonic() >= until:
                raise ServerSilentError
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


_VARIABLES: Final = {
    "dbname": "PGDATABASE",
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "service": "PGSERVICE",
    "user": "PGUSER",
}
"""The variables that count if an address leaves a part out."""


class Address(NamedTuple):
    """A database, and a schema of it."""

    url: Secret
    password_file: Path | None
    schema: str

    @classmethod
    def of(cls, store: StoreSettings) -> Address:
        """Reads the settings. Raises IndexMisconfiguredError if they name no database."""
        if store.url is None:
            reason = store.url_problem or "it is not set"
            raise IndexMisconfiguredError(
                f"store.url, which PostgreSQL is asked at, names no database: {reason}.",
                remedy='Set it to an address such as "postgresql://gateway@db.example/memory".',
            )
        check_name("schema", store.schema, "store.schema")
        return cls(store.url, store.password_file, store.schema)

    def __str__(self) -> str:
        """Returns a name for people, without any credential."""
        try:
            parts = conninfo_to_dict(self.url.reveal())
        except psycopg.ProgrammingError:
            return "PostgreSQL at store.url"
        given = {
            name: str(parts.get(name) or os.environ.get(variable) or "")
            for name, variable in _VARIABLES.items()
        }
        name = given["dbname"] or ("" if given["service"] else given["user"])
        place = given["host"] or given["hostaddr"]
        if place and given["port"]:
            place += f":{given['port']}"
        elif given["service"] and not place:
            place = f"the place of the service {given['service']!r}"
        database = f"PostgreSQL database {name!r}" if name else "PostgreSQL database"
        return f"{database} at {place or 'this machine'}"

    def connect(self, within_s: float = CONNECT_TIMEOUT_S) -> Connection:
        """Opens a new connection without a transaction. Raises psycopg.Error, IndexUnavailableError.

        Each host of the address gets `within_s`, but at least two and at most five seconds.
        """
        given, password = self._parts(), self._password()
        ours: dict[str, Any] = {
            "connect_timeout": max(_LEAST_CONNECTING_S, min(CONNECT_TIMEOUT_S, int(within_s))),
            "application_name": "memory-gateway",
            # Without these, a host that vanishes is noticed only after a quarter of an hour.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
        }
        own = {name: value for name, value in ours.items() if name not in given}
        own["client_encoding"] = _ENCODING  # whatever the address, the role or a variable says
        if password is not None:
            own["password"] = password
        conninfo = make_conninfo(self.url.reveal(), **own)
        try:
            connection = Connection.connect(conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.ProgrammingError as error:  # psycopg's own: no server was asked yet
            reason = redact(str(error), self.secrets())
            raise IndexMisconfiguredError(
                f"store.url is no address of a PostgreSQL database: {reason}.",
                remedy="Correct that part of it.",
            ) from None
        try:
            self._check_encoding(connection)
        except BaseException:
            connection.close()
            raise
        connection.adapters.register_dumper(Reals, _RealsDumper)
        return connection

    def _check_encoding(self, connection: Connection) -> None:
        found = connection.info.parameter_status("server_encoding")
        if found != _ENCODING:
            raise IndexUnavailableError(
                f"{_capital(str(self))} has the encoding {found}, which cannot hold every note.",
                remedy="Make another one, and name it in store.url:"
                f" CREATE DATABASE ... ENCODING '{_ENCODING}' TEMPLATE template0.",
            )

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yields a new connection for one piece of work, which may change tables. Raises IndexUnavailableError."""
        settings = {
            **_SETTINGS,
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
        }
        with self.translating_errors(), closing(self.connect()) as connection:
            if connection.info.server_version >= TRANSACTION_TIMEOUT_FROM:
                settings["transaction_timeout"] = "0"
            # An index of many vectors takes minutes. First, and as what looks nothing up: the other settings would
            # already meet a strict limit of the database.
            connection.execute("SET statement_timeout = 0")
            connection.execute(*_setting(settings, local=False))
            yield connection

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise index_unavailable(self, error) from error

    def _parts(self) -> dict[str, Any]:
        try:
            parts = dict(conninfo_to_dict(self.url.reveal()))
        except psycopg.ProgrammingError:
            # The message of the error repeats parts of the address, perhaps of a password.
            raise IndexMisconfiguredError(
                "store.url is no address of a PostgreSQL database.",
                remedy='Write it as "postgresql://role@host:5432/database"; special characters of a password as %XX,'
                " or put the password into a file that store.passwordFile names.",
            ) from None
        for what, name in (("database", "dbname"), ("role", "user")):
            check_name(what, str(parts.get(name) or ""), "store.url")
        return parts

    def _password(self) -> str | None:
        """Returns the password, read again for each connection: it may have changed."""
        if self.password_file is None:
            return None
        try:
            with self.password_file.open("rb") as file:
                content = file.read(_MOST_PASSWORD_BYTES).decode()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise IndexUnavailableError(
                f"The password of {self} cannot be read from {self.password_file}: {reason}.",
                remedy="See store.passwordFile and the permissions of the file.",
            ) from None
        return content.rstrip("\r\n")

    def secrets(self) -> list[str]:
        """Returns the texts that no message may contain."""
        known = [self.url.reveal()]
        with suppress(psycopg.ProgrammingError):
            known.append(str(conninfo_to_dict(known[0]).get("password") or ""))
        with suppress(IndexUnavailableError):
            known.append(self._password() or "")
        return known


_MOST_NAME_BYTES: Final = 63


def check_name(what: str, name: str, place: str) -> None:
    """Raises IndexMisconfiguredError for a name that the server would cut: it might then name something else."""
    if (size := len(name.encode())) > _MOST_NAME_BYTES:
        raise IndexMisconfiguredError(
            f"The name of the {what} in {place} has {size} bytes; PostgreSQL has names of {_MOST_NAME_BYTES}"
            " bytes at most, and takes no notice of the rest.",
            remedy="Choose a shorter one.",
        )


class Reals:
    """Numbers for PostgreSQL's `real[]`, in the binary form of an array, so that none is sent as text."""

    def __init__(self, array: bytes) -> None:
        self.array = array


class _RealsDumper(Dumper):
    format = Format.BINARY
    oid = 1021  # of real[]; ids of built-in types are the same everywhere

    def dump(self, obj: Reals) -> bytes:
        return obj.array


class _Line:
    """One connection, with the times when it was made and last used."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_fresh = True
        self.is_spoilt = False
        self.used_at = self._made_at = time.monotonic()
        self._is_ending = False

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._made_at > LONGEST_LIFE_S

    def end(self, command: bytes) -> None:
        """Ends the transaction without waiting for the answer: that costs no round trip."""
        pgconn = self.connection.pgconn
        pgconn.send_query(command)
        self._is_ending = True
        pgconn.flush()

    def settle(self, until: float = math.inf) -> None:
        """Reads the answer to the command of `end`. Raises psycopg.OperationalError."""
        if not self._is_ending:
            return
        pgconn, until = self.connection.pgconn, min(until, time.monotonic() + _SETTLING_S)
        poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN)
        while pgconn.is_busy():
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise ServerSilentError
            pgconn.consume_input()
        while pgconn.get_result() is not None:
            pass
        self._is_ending = False
        if pgconn.transaction_status != TransactionStatus.IDLE:
            raise psycopg.OperationalError("the last transaction did not end")

    def close(self) -> None:
        with suppress(psycopg.Error):
            self.connection.close()


class Pool:
    """At most `size` connections to one database. Any thread may call."""

    def __init__(
        self,
        address: Address,
        size: int,
        greet: Callable[[psycopg.Connection], None],
        statement_s: float = math.inf,
    ) -> None:
        """`greet` checks the database of each new connection and raises if something is wrong.

        The server ends statements after `statement_s`: if it does not answer soon after that, it is silent.
        """
        self.address = address
        self._statement_s = statement_s
        self._greet = greet
        self._free = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._reaper: threading.Timer | None = None
        self._silent_since: float | None = None
        """The time since which the server has not answered; only `_listen` waits for it then."""
        self._answers = threading.Event()
        """Set unless the server is silent, and when the pool is closed."""
        self._answers.set()
        self._closed = False

    @contextmanager
    def transaction(
        self, begin: Sequence[Statement], prove: Proof, patience_s: float, until: float = math.inf
    ) -> Iterator[Transaction]:
        """Yields a transaction, which is rolled back unless it is committed; waits for no answer beyond `until`.

        Raises psycopg.Error, IndexUnavailableError.
        """
        self._refuse_silence()
        if not self._free.acquire(timeout=max(0.0, min(patience_s, until - time.monotonic()))):
            raise IndexUnavailableError(
                f"All connections of this process to {self.address} are in use.",
                remedy="It is tried again. If that stays so, raise store.pool.max.",
            )
        try:
            transaction = Transaction(self, begin, prove, until)
            try:
                yield transaction
            finally:
                transaction.leave()
        finally:
            self._free.release()

    def take(self, until: float) -> _Line:
        """Returns an idle connection, or a new one."""
        while True:
            self._refuse_silence()
            if time.monotonic() >= until:
                raise IndexUnavailableError(
                    f"No time was left to ask {self.address}.",
                    remedy="Something before that took long: see the log.",
                )
            with self._lock:
                if self._closed:
                    raise IndexUnavailableError(
                        f"{self.address} was closed.", remedy="The gateway is ending."
                    )
                line = self._idle.pop() if self._idle else None
            if line is None:
                return self.make(until)
            try:
                with self.listening():
                    line.settle(until)
            except psycopg.Error:
                line.close()
                continue
            return line

    def make(self, until: float) -> _Line:
        with self.listening():
            return self._made(until)

    def _made(self, until: float) -> _Line:
        connection = self.address.connect(min(until - time.monotonic(), CONNECT_TIMEOUT_S))
        connection.until = self.patience(until)
        try:
            self._greet(connection)
            if is_direct(connection):
                connection.prepare_threshold = PREPARED_FROM
        except BaseException:
            connection.close()
            raise
        return _Line(connection)

    def give_back(self, line: _Line) -> None:
        line.used_at, line.is_fresh = time.monotonic(), False
        with self._lock:
            if not (self._closed or line.is_old or line.is_spoilt or line.connection.closed):
                self._idle.append(line)
                self._start_reaper()
                return
        line.close()

    def patience(self, until: float, statements: int = 1) -> float:
        """Returns the time until which to wait for the answers to so many statements, which may arrive together."""
        return min(until, time.monotonic() + statements * self._statement_s + GRACE_S)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes the server for silent if it does not answer in the body, unless the caller had hardly any time left."""
        started = time.monotonic()
        try:
            yield
        except (ServerSilentError, psycopg.errors.ConnectionTimeout):
            if time.monotonic() - started >= VERDICT_S:
                self._fall_silent()
            raise

    def _fall_silent(self) -> None:
        """Gives up all idle connections, which lead to the same silent server; only `_listen` makes new ones until the
        server answers.
        """
        self._drop_idle()
        with self._lock:
            if self._closed or self._silent_since is not None:
                return
            self._silent_since = time.monotonic()
            self._answers.clear()
        try:
            threading.Thread(target=self._listen, name="silent PostgreSQL", daemon=True).start()
        except RuntimeError:  # the machine has no thread left: the next caller has to wait itself
            self._speaks()

    def _speaks(self) -> None:
        with self._lock:
            self._silent_since = None
            self._answers.set()

    def _refuse_silence(self) -> None:
        since = self._silent_since
        if since is None:
            return
        asked_s = time.monotonic() - since
        if not self._answers.wait(max(0.0, VERDICT_S - asked_s)):
            silent_s = max(asked_s, VERDICT_S)
            raise ServerSilentError(f"it did not answer within the last {silent_s:.1f} s")

    def _listen(self) -> None:
        """Connects until the server answers anything, even a refusal."""
        line: _Line | None = None
        while line is None:
            try:
                line = self._made(time.monotonic() + CONNECT_TIMEOUT_S)
            except (ServerSilentError, psycopg.errors.ConnectionTimeout):
                if self._answers.wait(LISTEN_S):
                    return  # the pool was closed
            except (psycopg.Error, IndexUnavailableError):
                break
        self._speaks()
        if line is not None:
            self.give_back(line)

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._reaper is not None:
                self._reaper.cancel()
                self._reaper = None
        self._answers.set()
        self._drop_idle()

    def _start_reaper(self) -> None:
        if self._reaper is None:
            self._reaper = threading.Timer(IDLE_S, self._reap)
            self._reaper.daemon = True
            self._reaper.name = "idle connections to PostgreSQL"
            self._reaper.start()

    def _reap(self) -> None:
        since = time.monotonic() - IDLE_S
        with self._lock:
            self._reaper = None
            unused = [line for line in self._idle if line.used_at <= since]
            self._idle = [line for line in self._idle if line.used_at > since]
            if self._idle:
                self._start_reaper()
        for line in unused:
            line.close()


def is_direct(connection: psycopg.Connection) -> bool:
    """Returns whether the process that answers is the one that was connected to, so that no pooler is in between."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == connection.info.backend_pid


_STALE: Final = (psycopg.errors.FeatureNotSupported, psycopg.errors.InvalidSqlStatementName)
"""A prepared statement does not fit the tables any more, or is gone: the connection is closed."""


class Transaction:
    """One transaction on one connection. It begins with its first statement, in the same round trip."""

    def __init__(self, pool: Pool, begin: Sequence[Statement], prove: Proof, until: float) -> None:
        self._pool = pool
        self._begin = begin
        self._prove = prove
        self._until = until
        self._line: _Line | None = None
        self.trips = 0
        """The number of round trips so far."""

    def run(
        self, statement: str | sql.Composed, parameters: Sequence[object] | dict[str, object] = ()
    ) -> Cursor:
        """Runs one statement and returns its result."""
        return self.run_all((statement, parameters))[-1]

    def run_all(self, *statements: Statement) -> list[Cursor]:
        """Runs several statements in one round trip and returns their results. The first error undoes all of them."""
        if self._line is None:
            return self._first(statements)
        return self._send(self._line, statements)

    def end(self, *statements: Statement) -> list[Cursor]:
        """Runs the statements and commits, in one round trip; waits until all of it is durable."""
        cursors = self.run_all(*statements, ("COMMIT", ()))
        self._give_back()
        return cursors[:-1]

    def leave(self) -> None:
        """Undoes changes that were not committed, and gives the connection back."""
        line = self._line
        if line is None:
            return
        try:
            if line.connection.closed:
                return
            status = line.connection.info.transaction_status
            if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                line.end(b"ROLLBACK")
            elif status != TransactionStatus.IDLE:
                line.close()
        except psycopg.Error:
            line.close()
        finally:
            self._give_back()

    def _first(self, statements: Sequence[Statement]) -> list[Cursor]:
        """Replaces, once, a connection that the server has closed meanwhile: nothing was done on it yet."""
        self._line = self._pool.take(self._until)
        every = (*self._begin, *statements)
        begun = len(self._begin)
        try:
            return self._send(self._line, every, begun)[begun:]
        except ServerSilentError:
            raise
        except psycopg.OperationalError:
            if self._line.is_fresh or not self._line.connection.closed:
                raise
            self._line = self._pool.make(self._until)
            return self._send(self._line, every, begun)[begun:]

    def _send(self, line: _Line, statements: Sequence[Statement], begun: int = 0) -> list[Cursor]:
        """Sends statements. The first `begun` take no time, and the last of these proves that the others may count."""
        self.trips += 1
        connection = line.connection
        connection.until = self._pool.patience(self._until, len(statements) - begun)
        cursors: list[Cursor] = []
        try:
            with self._pool.listening():
                if len(statements) == 1:
                    return [connection.execute(*statements[0])]
                with connection.pipeline():
                    for one in statements:
                        cursors.append(connection.execute(*one))  # noqa: PERF401 - some, if one fails
        except _STALE:
            line.close()
            raise
        except ServerSilentError:
            raise
        except psycopg.Error:
            # psycopg considers statements prepared that the server skipped after the error.
            line.is_spoilt = connection.prepare_threshold is not None
            # A fault at the beginning of the transaction is the cause of later errors.
            if len(cursors) >= begun > 0 and cursors[begun - 1].description is not None:
                self._prove(cursors[begun - 1].fetchone())
            raise
        if begun:
            self._prove(cursors[begun - 1].fetchone())
        return cursors

    def _give_back(self) -> None:
        if self._line is not None:
            line, self._line = self._line, None
            self._pool.give_back(line)


_SILENT: Final = "silent"
"""Replaces the SQLSTATE, which a silent server does not give."""
_OURS: Final = "ours"
_REMEDIES: Final[tuple[tuple[str | tuple[str, ...], str], ...]] = (
    ("28P01", "See the password: store.url or store.passwordFile."),
    ("28", "See the role and the password in store.url, and the server's pg_hba.conf."),
    ("3D000", "Make the database, or correct its name in store.url."),
    (("3F000", "42P01"), "Run `memory-gateway store migrate` as a role that may make tables."),
    (
        ("42704", "0A000", "58P01"),
        "Install pgvector on the server, then run `memory-gateway store migrate --role ROLE`.",
    ),
    (
        "42501",
        "Run `memory-gateway store migrate --role ROLE` as one that may make tables (--url-from).",
    ),
    ("53100", "The disk of the server is full: free some space."),
    (
        "53300",
        "The server has too many connections: raise its max_connections, or put pgbouncer before it.",
    ),
    ("25006", "The server is read-only: add target_session_attrs=read-write to store.url."),
    ("57014", "The server is slow; it is tried again. See store.statementTimeoutMs."),
    ("55P03", "Somebody else holds the index; it is tried again."),
    ("40", "Somebody else changed the same rows; it is tried again."),
    ("57P", "The server is starting, ending or failing over; it is tried again."),
    ("25P03", "It is tried again."),
    ("53", "The server lacks memory or something else: see its log; it is tried again."),
    ("58", "The server cannot read or write its files: see its log."),
    ("XX", "The server met a fault of its own, or damaged data: see its log."),
    (
        _OURS,
        (
            "No setting helps: this is a fault of the gateway, or of a table that somebody changed. Run"
            " `memory-gateway store check`, and report it with these words."
        ),
    ),
    (_SILENT, "See whether the server or the network to it hangs; it is tried again."),
)
"""Remedies by the beginning of the SQLSTATE."""
_REFUSALS: Final = (
    ("password authentication failed|no password supplied", "28P01"),
    ("too many (connections|clients)|remaining connection slots", "53300"),
    ("not permitted to log in|no pg_hba.conf entry|role .* does not exist", "28000"),
    ("database .* does not exist", "3D000"),
    ("read-only|not a primary|in hot standby|during recovery", "25006"),
    ("did not answer within|timeout expired", _SILENT),
    ("is (starting up|shutting down|not yet accepting connections)|in recovery mode", "57P03"),
)
_FAULTS: Final = (
    psycopg.ProgrammingError,
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.InterfaceError,
    psycopg.NotSupportedError,
)
"""Errors of the server, or its library, about a statement that must not have been sent."""
_DEFAULT_REMEDY: Final = (
    "See whether the server runs and can be reached from here, and store.url; it is tried again."
)


def index_unavailable(address: Address, error: psycopg.Error) -> IndexUnavailableError:
    """Returns the error to raise instead of `error`, which becomes its cause. It contains no credential."""
    words = error.diag.message_primary or str(error) or type(error).__name__
    reason = redact(" ".join(words.split()), address.secrets())
    reason = reason.partition(" Is the server running")[0].rstrip(".")  # the remedy says so, too
    state = _state_of(reason) or error.sqlstate or ""
    if isinstance(error, _FAULTS) and not any(state.startswith(one) for one, _ in _REMEDIES):
        state = _OURS
    remedy = next(
        (text for beginning, text in _REMEDIES if state.startswith(beginning)), _DEFAULT_REMEDY
    )
    return IndexUnavailableError(
        f"{_capital(str(address))} cannot be used: {reason}.", remedy=remedy
    )


def _state_of(reason: str) -> str:
    """Returns the SQLSTATE that a message stands for: libpq keeps only the message of a refused connection, and a
    standby uses states that mean other things, too. Messages in other languages are not recognised.
    """
    return next((state for words, state in _REFUSALS if re.search(words, reason)), "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def begin(
    *, schema_path: Sequence[str], settings: dict[str, str], read_only: bool, proof: Statement
) -> list[Statement]:
    """Returns the statements that begin each transaction; `proof` is the last. Nothing of them outlives it."""
    path = ", ".join(sql.Identifier(name).as_string(None) for name in schema_path)
    chosen = {**_SETTINGS, "search_path": path, **settings}
    mode = "REPEATABLE READ, READ ONLY" if read_only else "READ COMMITTED, READ WRITE"
    return [(f"BEGIN ISOLATION LEVEL {mode}", ()), _setting(chosen, local=True), proof]


@contextmanager
def with_settings(connection: psycopg.Connection) -> Iterator[None]:
    """Begins a transaction in which answers do not depend on settings of others."""
    with connection.transaction():
        connection.execute(*_setting(_SETTINGS, local=True))
        yield


def _setting(values: dict[str, str], *, local: bool) -> Statement:
    calls = ", ".join([f"set_config(%s, %s, {local})"] * len(values))
    return f"SELECT {calls}", [part for pair in values.items() for part in pair]
