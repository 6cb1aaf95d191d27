"""What a client runs before each prompt: `memory-gateway recall --hook CLIENT`. It never fails, and never takes long.

Carries the client's event to the gateway that runs, and its answer back, as they are: `gateway.agent.recalling`
understands them. Where the gateway answers was written down before (see `Route`); where none does, one is started
that stays: `gateway.process.serve`. Every import costs each turn of each conversation: this module has hardly any.
"""

# ruff: noqa: PTH103, PTH105, PTH109, PTH111, PTH116, PTH117, PTH118, PTH119, PTH120, PTH123, PTH208, RUF007
# A pathlib takes as long to import as all of this does.
from __future__ import annotations

import _socket
import _thread
import os
import sys
import time
import zlib

from config.runtime import PROC

LIMIT_S = 0.27
"""From the start of the process to its end. A client waits no longer for its memory."""
_LEAST_S = 0.06
"""What is left at least where the interpreter took its time."""
_USUAL_START_S = 0.03
_FIRST_LOOK_S = 0.02
_RESERVE_S = 0.02
"""What is left to write down that it took too long."""
MOST_BYTES = 4 * 1024 * 1024
"""Of an event; what is longer is no prompt that anybody typed."""
_MOST_ROUTE_BYTES = 65_536
_MOST_MISSES = 100_000
_START_EVERY_S = 10.0
"""A gateway that cannot start is not tried with each prompt."""
_ANCESTORS = 3
_LONGEST_ADDRESS = 100

SLOW, AWAY, BROKEN = b"s", b"a", b"b"
"""Why nothing was said: no answer in time, no gateway, an answer that is none."""
_REPLY = b'{"jsonrpc":"2.0","id":1,"result":'
_VARIABLES = (
    "HOME", "OPENCLAW_", "MEMORY_GATEWAY_", "CLAWDBOT_", "MOLTBOT_", "XDG_", "CLAUDE_CONFIG_DIR"
)  # fmt: skip
"""What the environment says of the memory and its places; some are the beginnings of names."""


_PATHS = ("--workspace", "-w", "--notes", "-n", "--state-dir", "--config", "-c")


class Route:
    """Where the gateway of one command line answers, in a file of the user's cache.

    Three lines: the command line and what the environment says, the files of the configuration with their stamps, the
    socket (none: this memory is off). Another configuration makes it void, also one where there was none.
    """

    def __init__(self, options: list[str]) -> None:
        named = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)]
        here = [os.getcwd()] if _is_relative(options) else []
        self.key = "\x1f".join((*options, *named, *here)).replace("\n", " ")
        name = f"{zlib.crc32(self.key.encode('utf-8', 'surrogateescape')):08x}"
        self.path = os.path.join(folder(), name)

    def read(self) -> str | None:
        """The socket; empty where memory is off. None: it has to be found out."""
        try:
            with open(self.path, "rb", 0) as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                text = file.read(_MOST_ROUTE_BYTES).decode("utf-8", "surrogateescape")
        except OSError:
            return None
        key, _, rest = text.partition("\n")
        configs, _, socket = rest.partition("\n")
        stamps = configs.split("\x1f")
        is_current = key == self.key and all(one == stamp(one.partition("\t")[0]) for one in stamps)
        return socket.rstrip("\n") if is_current else None

    def write(self, configs: list[str], socket: str) -> None:
        """Replaces it in one step. Raises OSError."""
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        stamps = "\x1f".join(map(stamp, configs))
        lines = f"{self.key}\n{stamps}\n{socket}\n"
        new = f"{self.path}.{os.getpid()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, lines.encode("utf-8", "surrogateescape"))
        finally:
            os.close(descriptor)
        os.replace(new, self.path)

    def missed(self, why: bytes) -> None:
        """Counts that nothing was said, in a byte each; `doctor` and `status` read them."""
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            descriptor = os.open(
                f"{self.path}.missed", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
            )
            if os.fstat(descriptor).st_size < _MOST_MISSES:
                os.write(descriptor, why)
            os.close(descriptor)
        except OSError:
            pass

    def may_start(self) -> bool:
        """Whether nobody has tried it a moment ago; notes that it is tried now."""
        mark = f"{self.path}.started"
        try:
            if 0 <= time.time() - os.stat(mark).st_mtime < _START_EVERY_S:
                return False
        except OSError:
            pass
        try:
            os.makedirs(os.path.dirname(mark), 0o700, exist_ok=True)
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            os.utime(mark)
        except OSError:
            return False
        return True


def _is_relative(options: list[str]) -> bool:
    """Whether they name a path below the working directory."""
    pairs = zip(options, options[1:], strict=False)
    given = [one.partition("=")[::2] for one in options if "=" in one]
    return any(flag in _PATHS and value[:1] not in "/~" for flag, value in (*pairs, *given))


def folder() -> str:
    """Where routes are. Raises OSError for a user without a home: `~` would be a folder wherever a hook is run."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = cache if os.path.isabs(cache) else os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        raise FileNotFoundError(base)
    return os.path.join(base, "memory-gateway", "hooks")


def stamp(path: str) -> str:
    """A file and how it is now."""
    try:
        found = os.stat(path)
    except OSError:
        return f"{path}\t-"
    return f"{path}\t{found.st_mtime_ns}\t{found.st_size}\t{found.st_ino}"


def misses() -> dict[str, int]:
    """How often nothing was said for which reason, of all command lines of this user."""
    counts = dict.fromkeys((SLOW, AWAY, BROKEN), 0)
    try:
        names = [one for one in os.listdir(folder()) if one.endswith(".missed")]
        for name in names:
            with open(os.path.join(folder(), name), "rb") as file:
                noted = file.read(_MOST_MISSES)
            for why in counts:
                counts[why] += noted.count(why)
    except OSError:
        pass
    return {"slow": counts[SLOW], "away": counts[AWAY], "broken": counts[BROKEN]}


def is_meant(arguments: list[str]) -> bool:
    """Whether a client runs `recall` with these arguments, rather than a person."""
    return any(one.partition("=")[0] == "--hook" for one in arguments)


def run(arguments: list[str]) -> int:
    """Answers one event; the exit code is always 0. `arguments` follow `recall`."""
    ends = time.monotonic() + max(_LEAST_S, LIMIT_S - _age_s())
    try:
        client, options = split_arguments(arguments)
        route = Route(options)
        _thread.start_new_thread(_give_up, (ends, route))
        _answer(client, route, ends)
    except BaseException:  # noqa: BLE001, S110 - whatever it is, the turn goes on
        pass
    os._exit(0)


def _age_s() -> float:
    """For how long the process has been there."""
    try:
        with open(f"{PROC}/self/stat", "rb", 0) as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return _USUAL_START_S
    return age_s if 0 <= age_s <= LIMIT_S else _USUAL_START_S


def split_arguments(arguments: list[str]) -> tuple[str, list[str]]:
    """The client, and the options that name the memory."""
    at = next(n for n, one in enumerate(arguments) if one.partition("=")[0] == "--hook")
    _, equals, joined = arguments[at].partition("=")
    rest = arguments[at + (1 if equals else 2) :]
    options = [*arguments[:at], *rest]
    if "--name" in options:  # which of several servers of a client it belongs to
        named = options.index("--name")
        del options[named : named + 2]
    return (joined if equals else arguments[at + 1]), options


def _give_up(ends: float, route: Route) -> None:
    """Ends the process, whatever hangs: a disk, a pipe that nobody closes, a gateway that is stopped."""
    time.sleep(max(0.0, ends - _RESERVE_S - time.monotonic()))
    _thread.start_new_thread(route.missed, (SLOW,))
    time.sleep(_RESERVE_S)
    os._exit(0)


def _answer(client: str, route: Route, ends: float) -> None:
    event = _read_event()
    socket = route.read()
    if socket == "":
        return
    connection = connect(socket)
    if connection is None and route.may_start():
        _start()
    pause_s = _FIRST_LOOK_S
    while connection is None:
        if time.monotonic() + pause_s > ends - _RESERVE_S:
            route.missed(AWAY)
            return
        time.sleep(pause_s)
        socket = route.read()
        if socket == "":
            return
        connection = connect(socket)
    reply = _ask(connection, client, event, ends - _RESERVE_S)
    if not reply.startswith(_REPLY):
        route.missed(BROKEN)
        _complain(reply)
    elif (answer := reply[len(_REPLY) : reply.rindex(b"}")]) != b"null":
        os.write(1, answer + b"\n")


def _complain(reply: bytes) -> None:
    """Says what is wrong with the event itself, to whoever wrote it: clients show that on demand only."""
    message = reply.partition(b'"message":"')[2].partition(b'","data"')[0]
    if b'"kind":"parse_error"' in reply:  # counts the bytes of the call around the event, too
        message = b"The event is no JSON that can be read."
    elif b'"kind":"invalid_params"' not in reply:
        return
    os.write(2, b"memory-gateway: %b\n" % message)


def _read_event() -> bytes:
    """One line of JSON: a newline within is white space only."""
    pieces = []
    size = 0
    while size <= MOST_BYTES and (piece := os.read(0, 65_536)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces).replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"null"


def connect(path: str | None) -> _socket.socket | None:
    """None where nobody listens there. The system takes short names only (see `ownership.owner.socket_address`)."""
    if path is None:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    folder_at = -1
    try:
        if len(os.fsencode(path)) > _LONGEST_ADDRESS:
            folder_at = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            path = f"{PROC}/self/fd/{folder_at}/{os.path.basename(path)}"
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    finally:
        if folder_at >= 0:
            os.close(folder_at)
    return connection


def _ask(connection: _socket.socket, client: str, event: bytes, ends: float) -> bytes:
    name = client.encode("ascii", "ignore").replace(b'"', b"").replace(b"\\", b"")
    processes = b",".join(b"%d" % one for one in _ancestors())
    left_ms = max(0.0, ends - time.monotonic()) * 1000
    call = b'{"jsonrpc":"2.0","id":1,"method":"$/hook","params":{"client":"%b","processes":[%b],"patienceMs":%d,"event":%b}}\n'
    connection.sendall(call % (name, processes, left_ms, event))
    reply = b""
    while not reply.endswith(b"\n"):
        piece = connection.recv(65_536)
        if not piece:
            break
        reply += piece
    return reply


def _ancestors() -> list[int]:
    """Who runs the hook, perhaps by a shell: the same program started the memory's server, if it has one."""
    found = []
    process = os.getppid()
    for _ in range(_ANCESTORS):
        if process <= 1:
            break
        found.append(process)
        try:
            with open(f"{PROC}/{process}/stat", "rb", 0) as file:
                process = int(file.read(4096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def _start() -> None:
    """Starts a gateway of these options that stays; it is nobody's child and holds none of our pipes."""
    given = sys.orig_argv
    at = len(given) - len(sys.argv) + 1
    command = [
        sys.executable,
        *given[1:at],
        "recall",
        "--serve",
        *split_arguments(given[at + 1 :])[1],
    ]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=nowhere, setsid=True)
