"""The command that clients run before each prompt, `memory-gateway recall --hook CLIENT`. Never fails or takes long.

It passes the client's event to the running gateway, and the answer back, unchanged: `gateway.recall`
understands them. The gateway's address was written down before (see `Route`); where none answers, one is started that
stays: `gateway.process.serve`. Every import delays each turn of each conversation: this module has hardly any.
"""

# ruff: noqa: PTH103, PTH105, PTH109, PTH111, PTH116, PTH117, PTH118, PTH119, PTH120, PTH123, PTH208, RUF007
# Importing pathlib takes as long as all of this.
from __future__ import annotations

import _socket
import _thread
import os
import sys
import time
import zlib

from config.runtime import PROC

LIMIT_S = 0.27
"""The most time from the start of the process to its end: a client waits no longer for its memory."""
_LEAST_S = 0.06
"""The time that is left even where the interpreter was slow to start."""
_USUAL_START_S = 0.03
_FIRST_LOOK_S = 0.02
_RESERVE_S = 0.02
"""The time kept for writing down that it took too long."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of an event: a longer one is not a prompt that a person typed."""
_MOST_ROUTE_BYTES = 65_536
_MOST_MISSES = 100_000
_START_EVERY_S = 10.0
"""A gateway that cannot start is not started again at each prompt."""
_ANCESTORS = 3
_LONGEST_ADDRESS = 100

SLOW, AWAY, BROKEN = b"s", b"a", b"b"
"""The reasons why nothing was said: no answer in time, no gateway, no valid answer."""
_REPLY = b'{"jsonrpc":"2.0","id":1,"result":'
_VARIABLES = (
    "HOME", "OPENCLAW_", "MEMORY_GATEWAY_", "CLAWDBOT_", "MOLTBOT_", "XDG_", "CLAUDE_CONFIG_DIR"
)  # fmt: skip
"""Environment variables that decide on the memory and its places; some are the beginnings of names."""


_PATHS = ("--workspace", "-w", "--notes", "-n", "--state-dir", "--config", "-c")


class Route:
    """The address at which the gateway of one command line answers, in a file of the user's cache.

    Three lines: the command line and the environment variables, the files of the configuration with their stamps, the
    socket (empty: this memory is off). Another configuration makes it void, also one where there was none.
    """

    def __init__(self, options: list[str]) -> None:
        named = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)]
        here = [os.getcwd()] if _is_relative(options) else []
        self.key = "\x1f".join((*options, *named, *here)).replace("\n", " ")
        name = f"{zlib.crc32(self.key.encode('utf-8', 'surrogateescape')):08x}"
        self.path = os.path.join(folder(), name)

    def read(self) -> str | None:
        """Returns the socket; empty where memory is off, None where it has to be found out."""
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
        """Replaces the file in one step. Raises OSError."""
        stamps = "\x1f".join(map(stamp, configs))
        lines = f"{self.key}\n{stamps}\n{socket}\n"
        new = f"{self.path}.{os.getpid()}"
        descriptor = _made(new, os.O_EXCL)
        try:
            os.write(descriptor, lines.encode("utf-8", "surrogateescape"))
        finally:
            os.close(descriptor)
        os.replace(new, self.path)

    def missed(self, why: bytes) -> None:
        """Notes that nothing was said, by one byte more; `doctor` and `status` count them."""
        try:
            descriptor = _made(f"{self.path}.missed", os.O_APPEND)
            if os.fstat(descriptor).st_size < _MOST_MISSES:
                os.write(descriptor, why)
            os.close(descriptor)
        except OSError:
            pass

    def may_start(self) -> bool:
        """Returns whether nobody tried to start a gateway a moment ago, and notes that it is tried now."""
        mark = f"{self.path}.started"
        try:
            if 0 <= time.time() - os.stat(mark).st_mtime < _START_EVERY_S:
                return False
        except OSError:
            pass
        try:
            os.close(_made(mark))
            os.utime(mark)
        except OSError:
            return False
        return True


def _made(path: str, flags: int = 0) -> int:
    """Opens a file for writing; makes it, and its folder, for this user only."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)


def _is_relative(options: list[str]) -> bool:
    """Returns whether the options name a path relative to the working directory."""
    pairs = zip(options, options[1:], strict=False)
    given = [one.partition("=")[::2] for one in options if "=" in one]
    return any(flag in _PATHS and value[:1] not in "/~" for flag, value in (*pairs, *given))


def folder() -> str:
    """Returns the folder of routes. Raises OSError for a user without a home, as `~` would be a relative path."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = cache if os.path.isabs(cache) else os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        raise FileNotFoundError(base)
    return os.path.join(base, "memory-gateway", "hooks")


def stamp(path: str) -> str:
    """Returns the path of a file with its present time, size and inode."""
    try:
        found = os.stat(path)
    except OSError:
        return f"{path}\t-"
    return f"{path}\t{found.st_mtime_ns}\t{found.st_size}\t{found.st_ino}"


def misses() -> dict[str, int]:
    """Returns how often nothing was said, by reason, for all command lines of this user."""
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
    """Returns whether a client runs `recall` with these arguments, and not a person."""
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
    """Returns how long ago the process started."""
    try:
        with open(f"{PROC}/self/stat", "rb", 0) as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return _USUAL_START_S
    return age_s if 0 <= age_s <= LIMIT_S else _USUAL_START_S


def split_arguments(arguments: list[str]) -> tuple[str, list[str]]:
    """Returns the client and the options that name the memory."""
    at = next(n for n, one in enumerate(arguments) if one.partition("=")[0] == "--hook")
    _, equals, joined = arguments[at].partition("=")
    rest = arguments[at + (1 if equals else 2) :]
    options = [*arguments[:at], *rest]
    if "--name" in options:  # says which of a client's servers it belongs to
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
    """Writes what is wrong with the event itself to standard error, which clients show on demand only."""
    message = reply.partition(b'"message":"')[2].partition(b'","data"')[0]
    if b'"kind":"parse_error"' in reply:  # its message counts the bytes of the call, too
        message = b"The event is no JSON that can be read."
    elif message.startswith(b"$/hook: `client`"):
        message = (
            b"--hook names no client that is known; `memory-gateway recall --help` names them."
        )
    elif message.startswith(b"$/hook: `event`"):
        message = b"The event is no JSON object, as each event of a client is."
    elif b'"kind":"invalid_params"' not in reply:
        return
    os.write(2, b"memory-gateway: %b\n" % message)


def _read_event() -> bytes:
    """Reads the event as one line of JSON: newlines in it are white space only."""
    pieces = []
    size = 0
    while size <= MOST_BYTES and (piece := os.read(0, 65_536)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces).replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"null"


def connect(path: str | None) -> _socket.socket | None:
    """Connects; returns None where nobody listens. Only short addresses work (see `ownership.owner.socket_address`)."""
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
    call = (
        b'{"jsonrpc":"2.0","id":1,"method":"$/hook","params":'
        b'{"client":"%b","processes":[%b],"patienceMs":%d,"event":%b}}\n'
    )
    connection.sendall(call % (name, processes, left_ms, event))
    reply = b""
    while not reply.endswith(b"\n"):
        piece = connection.recv(65_536)
        if not piece:
            break
        reply += piece
    return reply


def _ancestors() -> list[int]:
    """Returns the processes above the hook, perhaps a shell first; one of them also started the client's server."""
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
    """Starts a gateway with these options that stays: it has a session of its own and none of our pipes."""
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
