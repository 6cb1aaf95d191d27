"""QMD's home for one agent, the environment it gets and its models; running it there, and ending what an earlier
gateway left. No shell, a process group of its own, deadlines, bounded output.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

import anyio
from anyio.abc import ByteReceiveStream, Process

from config.errors import ErrorKind, MemoryGatewayError
from config.paths import named_dir
from config.runtime import PROC
from config.runtime.children import end_child, kill_group, start_child
from config.runtime.files import lock_within, make_directories
from config.runtime.logs import Log

_log = Log()

_PATIENCE_MS: Final = 5_000
"""The longest wait for a QMD that writes to the index in the former home."""


class QmdHome:
    """The home below `root`. Paths only; `prepare` makes them."""

    def __init__(self, root: Path, former: Path | None = None) -> None:
        """`former`: the home that earlier releases used."""
        self.root, self.former = root, former
        self.config_home, self.cache_home = root / "xdg-config", root / "xdg-cache"
        self.config_dir = self.config_home / "qmd"
        self.config_file = self.config_dir / "index.yml"
        self.index = self.cache_home / "qmd" / "index.sqlite"
        self.models = self.cache_home / "qmd" / "models"
        self.ledger = root / "gateway.json"
        """The record of what the gateway itself has put into this home."""
        self.exports = root / "exports"
        """The records of the exported transcripts."""
        self.lock = root / "change.lock"
        """The lock of the process that changes the index or its configuration."""

    def index_identity(self) -> tuple[int, int] | None:
        """Returns the identity of the index file; None when there is none."""
        try:
            status = self.index.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Makes the directories (mode 0700) and links the user's models. Blocks; raises OSError.

        Vectors in the former home are taken over, so that no text is embedded again.
        """
        if self.former is not None:
            _take_over(QmdHome(self.former), self)
        for directory in (self.config_dir, self.index.parent):
            make_directories(directory)
        self.root.chmod(0o700)
        shared = user_models(environment)
        if shared.is_dir() and not os.path.lexists(self.models):
            self.models.symlink_to(shared)

    def probing(self) -> QmdHome:
        """Returns a throw-away home inside this one, to try a program without touching the index."""
        return QmdHome(self.root / "probe")


def _take_over(former: QmdHome, home: QmdHome) -> None:
    """Copies what an earlier release made, in one atomic step. The former home stays as it is.

    A chat gateway of February may use that home for its own QMD.
    """
    if home.root.exists() or not former.ledger.exists():
        return
    make_directories(home.root.parent)
    descriptor = os.open(home.root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_within(descriptor, lenient=True)  # another process may be doing the same
        if home.root.exists():
            return
        draft = QmdHome(home.root.with_name(f".{home.root.name}.new"))
        shutil.rmtree(draft.root, ignore_errors=True)  # of a process that was killed meanwhile
        for directory in (draft.config_dir, draft.index.parent):
            make_directories(directory)
        for file, copy in ((former.config_file, draft.config_file), (former.ledger, draft.ledger)):
            if file.exists():
                shutil.copyfile(file, copy)
        if former.exports.is_dir():
            shutil.copytree(former.exports, draft.exports)
        if former.models.is_dir() and not former.models.is_symlink():
            shutil.copytree(former.models, draft.models, copy_function=os.link)
        _copy_index(former.index, draft.index)
        draft.root.rename(home.root)
        _log.info("qmd home taken over", source=str(former.root), target=str(home.root))
    finally:
        os.close(descriptor)


def _copy_index(source: Path, target: Path) -> None:
    """Copies the index with its write-ahead log. One that cannot be read is left behind: QMD makes another."""
    import apsw  # noqa: PLC0415 - done once, after an update

    if not source.exists():
        return
    try:
        with (
            closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as read,
            closing(apsw.Connection(str(target))) as written,
        ):
            read.set_busy_timeout(_PATIENCE_MS)
            with written.backup("main", read, "main") as backup:
                backup.step(-1)
    except apsw.Error as error:
        _log.warning("qmd index not taken over", source=str(source), cause=str(error))
        target.unlink(missing_ok=True)


def user_models(environment: Mapping[str, str]) -> Path:
    """Returns where the user's own QMD keeps models that it has downloaded."""
    home = Path(environment.get("HOME", "/"))
    return (named_dir(environment, "XDG_CACHE_HOME") or home / ".cache") / "qmd" / "models"


def embed_lock(environment: Mapping[str, str]) -> Path:
    """Returns the one lock of this user on this machine; its holder may compute embeddings."""
    runtime = named_dir(environment, "XDG_RUNTIME_DIR")
    if runtime is not None and runtime.is_dir():
        return runtime / "memory-gateway-qmd-embed.lock"
    return Path(tempfile.gettempdir()) / f"memory-gateway-qmd-embed-{os.getuid()}.lock"


NEUTRAL_DIRECTORY: Final = "/"
"""QMD looks for a project's own configuration from the working directory upwards."""

_PASSED = frozenset(
    "HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR XDG_RUNTIME_DIR LD_LIBRARY_PATH "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS HF_ENDPOINT "
    "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS".split()
)
_PASSED_PREFIXES = ("LC_", "QMD_")
_OWN = frozenset(("QMD_CONFIG_DIR", "QMD_HOST", "QMD_SOURCE_MODE"))


def qmd_variables(
    environment: Mapping[str, str], home: QmdHome, program_dir: Path | None = None
) -> dict[str, str]:
    """Returns the whole environment of a QMD process. `program_dir` comes first in `PATH`."""
    passed = {
        name: value
        for name, value in environment.items()
        if name in _PASSED or (name.startswith(_PASSED_PREFIXES) and name not in _OWN)
    }
    path = environment.get("PATH", os.defpath)
    return {
        **passed,
        "PATH": f"{program_dir}{os.pathsep}{path}" if program_dir else path,
        "XDG_CONFIG_HOME": str(home.config_home),
        "XDG_CACHE_HOME": str(home.cache_home),
        "QMD_CONFIG_DIR": str(home.config_dir),
        "PWD": NEUTRAL_DIRECTORY,
        "NO_COLOR": "1",
    }


SearchMode = Literal["query", "search", "vsearch"]

_DEFAULTS: Final = {
    "embed": "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
    "generate": "hf:tobil/qmd-query-expansion-1.7B-gguf/qmd-query-expansion-1.7B-q4_k_m.gguf",
    "rerank": "hf:ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF/qwen3-reranker-0.6b-q8_0.gguf",
}
"""The models of QMD 2.8. A configuration that names all three is never rewritten by QMD."""
_NEEDED: dict[SearchMode, tuple[str, ...]] = {
    "search": (),
    "vsearch": ("embed",),
    "query": ("embed", "rerank"),
}


def named_models(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the models that the operator names in variables."""
    return {
        kind: environment[name]
        for kind in _DEFAULTS
        if environment.get(name := f"QMD_{kind.upper()}_MODEL", "").strip()
    }


def all_models(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the models that a new home uses for `embed`, `generate` and `rerank`."""
    return {**_DEFAULTS, **named_models(environment)}


def model_file(model: str, directory: Path) -> Path:
    """Returns where QMD looks for a model: a path as it is, an `hf:` address below `directory`."""
    if not model.startswith("hf:"):
        return Path(model)
    owner, _, name = model.removeprefix("hf:").partition("/")
    return directory / f"hf_{owner}_{name.rpartition('/')[2]}"


def missing_models(mode: SearchMode, models: Mapping[str, str], directory: Path) -> tuple[str, ...]:
    """Returns the models that `mode` needs and that are not there, as they are configured."""
    needed = [models.get(kind, f"(no {kind} model)") for kind in _NEEDED[mode]]
    return tuple(model for model in needed if not model_file(model, directory).is_file())


def absent(models: Sequence[str]) -> str:
    """Returns the end of a sentence, without its full stop, that says that these models are missing."""
    return f"{' and '.join(models)} {'is' if len(models) == 1 else 'are'} not on this machine"


# --- Running it -----------------------------------------------------------------------------------

Cause = Literal[
    "missing", "broken", "not_ready", "timeout", "crashed", "bad_answer", "corrupt_index", "away"
]


class QmdUnavailableError(MemoryGatewayError):
    """QMD cannot answer now. `cause` is the kind of reason."""

    kind = ErrorKind.QMD_UNAVAILABLE

    def __init__(self, cause: Cause, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.cause: Cause = cause


MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024
"""The most that is kept of each stream. What comes later is read and dropped."""
_NICENESS: Final = 15


class Finished(NamedTuple):
    """A process that ended by itself. `returncode` is negative when a signal ended it."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def cause(self) -> Cause:
        """`crashed` if a signal ended it, which a launcher reports as 128 plus its number, else `broken`."""
        return "crashed" if self.returncode < 0 or self.returncode > 128 else "broken"

    @property
    def complaint(self) -> str:
        """The line that says best what went wrong."""
        lines = [line.strip() for line in f"{self.stderr}\n{self.stdout}".splitlines()]
        said = [line for line in lines if line and not line.startswith(("at ", "^", "\x1b"))]
        errors = [line for line in said if "Error" in line or "error" in line]
        chosen = (errors or said or ["it said nothing"])[0]
        return f"{chosen[:300]} (exit {self.returncode})"


async def _drain(stream: ByteReceiveStream | None, said: bytearray) -> None:
    """Reads to the end, so that the process never waits for a reader."""
    assert stream is not None
    async for piece in stream:
        said += piece[: max(0, MAX_OUTPUT_BYTES - len(said))]


@asynccontextmanager
async def started(
    argv: Sequence[str], environment: Mapping[str, str], *, niced: bool = False
) -> AsyncIterator[Process]:
    """Yields a running process; its group is killed at the end. Raises QmdUnavailableError."""
    try:
        process = await start_child(argv, environment, directory=NEUTRAL_DIRECTORY)
    except OSError as error:
        raise QmdUnavailableError(
            "missing",
            f"{argv[0]!r} cannot be started: {error.strerror}.",
            remedy="Install QMD, or name its command in qmd.command.",
        ) from None
    try:
        if niced:
            with suppress(OSError):
                os.setpriority(os.PRIO_PGRP, process.pid, _NICENESS)
        yield process
    finally:
        await end_child(process)


async def run(
    argv: Sequence[str], environment: Mapping[str, str], *, timeout_s: float, niced: bool = False
) -> Finished:
    """Runs a program to its end. Raises QmdUnavailableError: `missing`, or `timeout` after `timeout_s`."""
    out, err = bytearray(), bytearray()
    try:
        with anyio.fail_after(timeout_s):
            async with (
                started(argv, environment, niced=niced) as process,
                anyio.create_task_group() as readers,
            ):
                readers.start_soon(_drain, process.stdout, out)
                readers.start_soon(_drain, process.stderr, err)
                returncode = await process.wait()
                # What a launcher leaves behind would keep the pipes open.
                kill_group(process)
    except TimeoutError:
        raise QmdUnavailableError(
            "timeout", f"QMD took longer than {timeout_s:g} s and was ended."
        ) from None
    return Finished(returncode, out.decode(errors="replace"), err.decode(errors="replace"))


_VARIABLE: Final = "MEMORY_GATEWAY_PROCESS"


def owner_variables() -> dict[str, str]:
    """Returns the variable that marks processes as started by this gateway; none if that is not possible."""
    started = _start_time(os.getpid())
    return {} if started is None else {_VARIABLE: f"{os.getpid()}:{started}"}


def end_orphans(home: QmdHome) -> list[int]:
    """Ends processes left by gateways that are gone, and returns their ids. Blocks."""
    ended = []
    mark = f"QMD_CONFIG_DIR={home.config_dir}".encode()
    for directory in Path(PROC).glob("[0-9]*"):
        with suppress(OSError):
            variables = (directory / "environ").read_bytes().split(b"\0")
            if mark in variables and _is_orphan(variables):
                os.kill(int(directory.name), signal.SIGKILL)
                ended.append(int(directory.name))
    return ended


def _is_orphan(variables: list[bytes]) -> bool:
    """Returns whether the variables name a gateway that does not run any more."""
    for one in variables:
        name, _, owner = os.fsdecode(one).partition("=")
        if name == _VARIABLE:
            pid, _, started = owner.partition(":")
            return pid.isdigit() and str(_start_time(int(pid))) != started
    return False


def _start_time(pid: int) -> int | None:
    """Returns the start time in clock ticks since boot; None when no such process runs, or it is unknown."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"{PROC}/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name of the program, in brackets, may contain anything.
        state, *fields = text.rpartition(")")[2].split()
        return None if state == "Z" else int(fields[18])
    return None
