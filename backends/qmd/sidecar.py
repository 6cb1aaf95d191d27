"""A QMD that works: found and tried, in the home of one agent, with its configuration and the gateway's record.

`qmd.command` becomes an argument vector, past QMD's launcher where possible. A program counts as
working when it is recent enough and has opened a database, since `--version` also answers under a Node.js
that crashes on the first query.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from anyio.to_thread import run_sync

from backends.qmd.collections import Collection
from backends.qmd.process import (
    Finished,
    QmdHome,
    QmdUnavailableError,
    all_models,
    end_orphans,
    named_models,
    owner_variables,
    qmd_variables,
    run,
)
from config.paths import former_qmd_home, qmd_home
from config.runtime.decoding import prepared
from config.runtime.files import replace_file
from config.runtime.logs import Log
from config.settings import Settings

Version = tuple[int, int, int]

OLDEST: Final[Version] = (2, 8, 0)
_NEWEST_MAJOR: Final = 2

_VERSION = re.compile(r"\bqmd\s+v?(\d+)\.(\d+)\.(\d+)")
_PACKAGE_ENTRY = "dist/cli/qmd.js"
_NODE_OLDEST = 22
_PROBE_TIMEOUT_S = 20.0
_INSTALL = "Install QMD 2 (npm install -g @tobilu/qmd@2), or name it in qmd.command."
# The gateway holds the other end of standard input: when it is gone, however it ended, so is QMD.
# Helper processes and threads of QMD inherit this argument, but not that input.
_FOLLOW_GATEWAY = (
    'data:text/javascript,import{isMainThread}from"node:worker_threads";'
    "if(isMainThread&&!process.send)"
    'process.stdin.on("error",()=>{}).on("end",()=>process.kill(process.pid,"SIGKILL"))'
    ".resume().unref?.()"
)
_log = Log()


class QmdCommand(msgspec.Struct, frozen=True):
    """The command that starts QMD. `node` is None when a launcher chooses the runtime."""

    program: tuple[str, ...]
    directory: Path
    """The directory of the command; helper programs in it come first."""
    node: str | None = None
    arguments: tuple[str, ...] = ()
    """The arguments that the operator wants before all others."""

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.program, *self.arguments)

    @property
    def script(self) -> str:
        """The file that is run: QMD's own script if `node` is known, else the launcher."""
        return self.program[-1]

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The command for a person, whose QMD may outlive the gateway."""
        program = (self.node, self.script) if self.node else self.program
        return (*program, *self.arguments)


class Program(msgspec.Struct, frozen=True):
    """A QMD that has shown that it works."""

    command: QmdCommand
    version: Version

    @property
    def version_text(self) -> str:
        return _text(self.version)


def find_command(line: str, environment: Mapping[str, str]) -> QmdCommand:
    """Looks the first word up as a shell would. Raises QmdUnavailableError."""
    name, *arguments = shlex.split(line) or [""]
    if any(one.partition("=")[0] == "--index" for one in arguments):
        raise QmdUnavailableError(
            "broken",
            "qmd.command names an index (--index), but every agent has one of its own.",
            remedy="Leave --index out; qmd.paths adds directories to the agent's index.",
        )
    found = shutil.which(os.path.expanduser(name), path=environment.get("PATH", os.defpath))  # noqa: PTH111 - as text
    if found is None:
        raise QmdUnavailableError("missing", f"There is no program {name!r}.", remedy=_INSTALL)
    path = Path(found).absolute()
    entry = _package_entry(path)
    # The one beside the command, for which it was installed, else that of `PATH`.
    search = os.pathsep.join((str(path.parent), environment.get("PATH", os.defpath)))
    node = shutil.which("node", path=search) if entry else None
    rest = tuple(arguments)
    if entry is None or node is None:
        return QmdCommand((str(path),), path.parent, arguments=rest)
    return QmdCommand((node, "--import", _FOLLOW_GATEWAY, str(entry)), path.parent, node, rest)


async def probe(command: QmdCommand, environment: Mapping[str, str], home: QmdHome) -> Program:
    """Runs the program twice in a throw-away home. Raises QmdUnavailableError (`broken`)."""
    home.prepare({})
    variables = qmd_variables(environment, home, command.directory)
    said = await run((*command.argv, "--version"), variables, timeout_s=_PROBE_TIMEOUT_S)
    version = read_version(said.stdout)
    if version is None:
        raise await _broken(command, variables, said, "does not tell its version", command.node)
    if version < OLDEST or version[0] > _NEWEST_MAJOR:
        raise QmdUnavailableError(
            "broken",
            f"QMD {_text(version)} was found ({command.script}), but 2.8 or a later 2.x is needed.",
            remedy=_INSTALL,
        )
    opened = await run((*command.argv, "status"), variables, timeout_s=_PROBE_TIMEOUT_S)
    if opened.returncode != 0 and "Documents" not in opened.stdout:
        node = command.node or shutil.which("node", path=variables["PATH"])
        raise await _broken(command, variables, opened, "cannot open a database", node)
    return Program(command, version)


def read_version(text: str) -> Version | None:
    match = _VERSION.search(text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _package_entry(path: Path) -> Path | None:
    """Returns the script of QMD's npm package if `path` is its launcher."""
    launcher = path.resolve()
    package = launcher.parent.parent
    try:
        description = json.loads((package / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    entry = package / _PACKAGE_ENTRY
    named = isinstance(description, dict) and description.get("name") == "@tobilu/qmd"
    return entry if named and launcher.name == "qmd" and entry.is_file() else None


async def _broken(
    command: QmdCommand,
    variables: Mapping[str, str],
    finished: Finished,
    what: str,
    node: str | None,
) -> QmdUnavailableError:
    """Returns the error. `node`: the possible cause; None for a program that may not be QMD at all."""
    name = command.script
    if node is not None:
        said = await run((node, "--version"), variables, timeout_s=_PROBE_TIMEOUT_S)
        major = re.match(r"v(\d+)\.", said.stdout)
        if major and int(major[1]) < _NODE_OLDEST:
            return QmdUnavailableError(
                "broken",
                f"QMD ({name}) {what} under Node.js {said.stdout.strip()} ({node}).",
                remedy=f"QMD needs Node.js {_NODE_OLDEST} or later; put one beside it or on PATH.",
            )
    return QmdUnavailableError(
        "broken", f"QMD ({name}) {what}: {finished.complaint}.", remedy=_INSTALL
    )


_DAMAGE = re.compile(
    "SQLITE_(?:NOTADB|CORRUPT)|file is not a database|database disk image is malformed"
)
"""The words of SQLite about a damaged index file."""


def home_of(settings: Settings) -> QmdHome:
    """Returns the home of this agent's QMD, with the one that earlier releases used."""
    place = settings.state_dir, settings.agent_id
    return QmdHome(qmd_home(*place), former_qmd_home(*place))


def qmd_environment(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Returns the variables with which QMD works on exactly the index that the gateway uses."""
    home = home_of(settings)
    home.prepare(environment)
    try:
        directory = find_command(settings.qmd.command, environment).directory
    except QmdUnavailableError:
        directory = None
    return qmd_variables(environment, home, directory)


def qmd_command(settings: Settings, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Returns the program, for a person who runs it by hand. Raises QmdUnavailableError."""
    return find_command(settings.qmd.command, environment).by_hand


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One working QMD and its home. Make it with `open_sidecar`."""

    program: Program
    home: QmdHome
    variables: Mapping[str, str]
    models: Mapping[str, str]
    """The models that a new home uses for `embed`, `generate` and `rerank`; see `models_in`."""
    named_models: Mapping[str, str]
    """The part of `models` that the operator names in variables."""

    async def run(self, *arguments: str, timeout_s: float, niced: bool = False) -> Finished:
        """Runs one command of QMD. Raises QmdUnavailableError, also when the index is damaged."""
        argv = (*self.program.command.argv, *arguments)
        finished = await run(argv, self.variables, timeout_s=timeout_s, niced=niced)
        if finished.returncode != 0 and _DAMAGE.search(finished.stderr):
            raise QmdUnavailableError(
                "corrupt_index", f"QMD's index is damaged: {finished.complaint}."
            )
        return finished

    async def change(self, *arguments: str, timeout_s: float) -> Finished:
        """Runs a command that must succeed, with low priority. Raises QmdUnavailableError."""
        finished = await self.run(*arguments, timeout_s=timeout_s, niced=True)
        if finished.returncode != 0:
            what = " ".join(arguments[:2])
            raise QmdUnavailableError(finished.cause, f"qmd {what} failed: {finished.complaint}.")
        return finished


async def open_sidecar(settings: Settings, environment: Mapping[str, str] = os.environ) -> Sidecar:
    """Finds and tries the program, makes the home. Raises QmdUnavailableError."""
    home = home_of(settings)
    command = await run_sync(find_command, settings.qmd.command, environment)
    try:
        await run_sync(home.prepare, environment)
        ended = await run_sync(end_orphans, home)
        if ended:
            _log.warning("ended what an earlier gateway left running", processes=ended)
        trial = home.probing()
        try:
            program = await probe(command, environment, trial)
        finally:
            await run_sync(lambda: shutil.rmtree(trial.root, ignore_errors=True))
    except OSError as error:
        raise QmdUnavailableError(
            "broken",
            f"QMD's home {home.root} cannot be created: {error.strerror}.",
            remedy="Make room, or give the user who runs the gateway permission to write there.",
        ) from None
    variables = {**qmd_variables(environment, home, command.directory), **owner_variables()}
    return Sidecar(program, home, variables, all_models(environment), named_models(environment))


# Its arguments are QMD's script, whose packages it uses, and the file to be read.
_YAML_AS_JSON: Final = (
    'const [script, file] = process.argv.slice(1), {createRequire} = require("node:module");'
    'const text = require("node:fs").readFileSync(file, "utf8");'
    'console.log(JSON.stringify(createRequire(script)("yaml").parse(text)))'
)


class Binding(msgspec.Struct, frozen=True):
    """The directory and the pattern of a collection."""

    path: str
    pattern: str


class Ledger(msgspec.Struct, frozen=True):
    """The collections that the gateway made in this home."""

    collections: dict[str, Binding] = {}


class Reconciled(msgspec.Struct, frozen=True):
    """The changes that turn a configuration into the planned one."""

    document: dict[str, object]
    """The whole new file."""
    ours: dict[str, Binding]
    """The collections for the ledger, which may be searched."""
    dropped: tuple[str, ...]
    """Collections that are certainly ours and no longer wanted: still in `document`, to be removed through QMD."""
    conflicts: tuple[str, ...]
    """Wanted names that somebody else has given to something else: left alone."""


class Registered(msgspec.Struct, frozen=True):
    """`names` may be searched; `issues` says why others may not."""

    names: frozenset[str] = frozenset()
    issues: tuple[str, ...] = ()
    models: Mapping[str, str] = {}
    """The models that QMD uses for `embed`, `generate` and `rerank`."""


async def register(
    sidecar: Sidecar, planned: Sequence[Collection], *, timeout_s: float
) -> Registered:
    """Adds what is missing, binds anew what changed, drops what is certainly ours and unwanted.

    The caller holds the lock of the home. Raises QmdUnavailableError and OSError; nothing is removed before
    everything is added.
    """
    home = sidecar.home
    ledger = await run_sync(read_ledger, home.ledger)
    document = await read_document(sidecar, timeout_s=timeout_s)
    plan = reconcile(document, ledger, planned, sidecar.models, sidecar.named_models)
    await run_sync(_write_document, home.config_file, plan.document)
    # Until QMD has removed it, a dropped collection stays in the ledger as ours.
    kept = {name: ledger.collections[name] for name in plan.dropped}
    await run_sync(write_ledger, home.ledger, Ledger({**kept, **plan.ours}))
    if plan.dropped:
        for name in plan.dropped:
            await sidecar.change("collection", "remove", name, timeout_s=timeout_s)
        await run_sync(write_ledger, home.ledger, Ledger(plan.ours))
    issues = (
        f"QMD's collection {name!r} was bound to something else by hand and is left alone; "
        "rename it there or here."
        for name in plan.conflicts
    )
    return Registered(frozenset(plan.ours), tuple(issues), models_in(plan.document, sidecar))


def models_in(document: Mapping[str, object], sidecar: Sidecar) -> Mapping[str, str]:
    """Returns the models that QMD uses by this configuration. Raises QmdUnavailableError."""
    _, chosen = _collections_and_models(document)
    known = {kind: model for kind, model in chosen.items() if isinstance(model, str) and model}
    return {**sidecar.models, **known, **sidecar.named_models}


def reconcile(
    document: Mapping[str, object],
    ledger: Ledger,
    planned: Sequence[Collection],
    models: Mapping[str, str],
    named_models: Mapping[str, str],
) -> Reconciled:
    """Plans the changes. `models` fills gaps of the file, `named_models` overrides it. Pure.

    Raises QmdUnavailableError when `document` is not the configuration of a QMD.
    """
    present, chosen = _collections_and_models(document)
    bindings = {
        name: Binding(str(entry.get("path")), str(entry.get("pattern", "**/*.md")))
        for name, entry in present.items()
    }
    certain = {name for name, made in ledger.collections.items() if bindings.get(name) == made}
    wanted = {one.name: Binding(str(one.path), one.pattern) for one in planned}
    conflicts = tuple(
        name
        for name, binding in wanted.items()
        if name in bindings and name not in certain and bindings[name] != binding
    )
    ours = {name: binding for name, binding in wanted.items() if name not in conflicts}
    entries = present | {
        name: {**present.get(name, {}), "path": binding.path, "pattern": binding.pattern}
        for name, binding in ours.items()
    }
    used = {**models, **chosen, **named_models}
    return Reconciled(
        document={**document, "collections": entries, "models": used},
        ours=ours,
        dropped=tuple(sorted(certain - wanted.keys())),
        conflicts=conflicts,
    )


def _collections_and_models(
    document: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, object]]:
    """Raises QmdUnavailableError."""
    present, chosen = document.get("collections") or {}, document.get("models") or {}
    mappings = [present, chosen, *(present.values() if isinstance(present, dict) else ())]
    if not all(isinstance(one, dict) for one in mappings):
        raise QmdUnavailableError(
            "broken", "The collections or models of QMD's configuration are not mappings."
        )
    return present, chosen


async def read_document(sidecar: Sidecar, *, timeout_s: float) -> dict[str, object]:
    """Returns the configuration, empty when there is none. Raises QmdUnavailableError and OSError."""
    file = sidecar.home.config_file
    try:
        data = await run_sync(file.read_bytes)
    except FileNotFoundError:
        return {}
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = await _converted(sidecar, file, timeout_s)
    if not isinstance(document, dict):
        raise QmdUnavailableError("broken", f"{file} is not a mapping.")
    return document


async def _converted(sidecar: Sidecar, file: Path, timeout_s: float) -> object:
    """Returns the content of the YAML file."""
    command = sidecar.program.command
    if command.node is None:
        raise QmdUnavailableError(
            "broken",
            f"{file} was written by a QMD command as YAML, which only QMD's own package can read.",
            remedy="Name the launcher that npm installed in qmd.command, or remove the file.",
        )
    argv = (command.node, "-e", _YAML_AS_JSON, command.script, str(file))
    finished = await run(argv, sidecar.variables, timeout_s=timeout_s)
    try:
        return json.loads(finished.stdout)
    except ValueError:
        raise QmdUnavailableError(
            "broken", f"{file} cannot be understood: {finished.complaint}."
        ) from None


def _write_document(path: Path, document: Mapping[str, object]) -> None:
    """Writes the file only if it changes, so that nobody reads half of an unchanged file."""
    data = f"{json.dumps(document, indent=1, ensure_ascii=False)}\n".encode()
    if not path.exists() or path.read_bytes() != data:
        replace_file(path, data)


def read_ledger(path: Path) -> Ledger:
    """Reads the ledger. An unreadable one counts as empty: then nothing is certainly ours."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepared(Ledger))
    except (FileNotFoundError, msgspec.DecodeError):
        return Ledger()


def write_ledger(path: Path, ledger: Ledger) -> None:
    replace_file(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1))
