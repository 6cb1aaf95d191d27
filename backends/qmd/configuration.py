"""QMD's configuration file, the gateway's own ledger beside it, and making one follow the settings.

A collection is certainly ours when the ledger says that we made it and the file still has it as we made it.
Everything else in the file stays as it is. The gateway writes JSON, which is YAML; what QMD's own commands
have written as YAML is read with the parser that QMD brings along.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from anyio.to_thread import run_sync

from backends.qmd.collections import Collection
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.sidecar import Sidecar
from config.disk.replacing import replace_file

# Its arguments are QMD's script, whose packages it uses, and the file to be read.
_YAML_AS_JSON: Final = (
    'const [script, file] = process.argv.slice(1), {createRequire} = require("node:module");'
    'const text = require("node:fs").readFileSync(file, "utf8");'
    'console.log(JSON.stringify(createRequire(script)("yaml").parse(text)))'
)


class Binding(msgspec.Struct, frozen=True):
    """What a collection stands for."""

    path: str
    pattern: str


class Ledger(msgspec.Struct, frozen=True):
    """Which collections the gateway made in this home."""

    collections: dict[str, Binding] = {}


class Reconciled(msgspec.Struct, frozen=True):
    """How a configuration becomes what is planned."""

    document: dict[str, Any]
    """The whole new file."""
    ours: dict[str, Binding]
    """For the ledger; these collections may be searched."""
    dropped: tuple[str, ...]
    """Certainly ours and no longer wanted: still in `document`, to be removed through QMD."""
    conflicts: tuple[str, ...]
    """Wanted names that somebody else has given to something else: left alone."""


class Registered(msgspec.Struct, frozen=True):
    """`names` may be searched; `issues` says why others may not."""

    names: frozenset[str] = frozenset()
    issues: tuple[str, ...] = ()


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
    return Registered(frozenset(plan.ours), tuple(issues))


def reconcile(
    document: Mapping[str, Any],
    ledger: Ledger,
    planned: Sequence[Collection],
    models: Mapping[str, str],
    named_models: Mapping[str, str],
) -> Reconciled:
    """`models` fills gaps of the file, `named_models` wins over it. Pure.

    Raises QmdUnavailableError when `document` is not the configuration of a QMD.
    """
    present, chosen = document.get("collections") or {}, document.get("models") or {}
    mappings = [present, chosen, *(present.values() if isinstance(present, dict) else ())]
    if not all(isinstance(one, dict) for one in mappings):
        raise QmdUnavailableError(
            "broken", "The collections or models of QMD's configuration are not mappings."
        )
    bindings = {name: _binding(entry) for name, entry in present.items()}
    certain = {name for name, made in ledger.collections.items() if bindings.get(name) == made}
    wanted = {one.name: Binding(str(one.path), one.pattern) for one in planned}
    conflicts = tuple(
        name
        for name, binding in wanted.items()
        if name in bindings and name not in certain and bindings[name] != binding
    )
    ours = {name: binding for name, binding in wanted.items() if name not in conflicts}
    entries = {
        **present,
        **{
            name: {**present.get(name, {}), "path": binding.path, "pattern": binding.pattern}
            for name, binding in ours.items()
        },
    }
    return Reconciled(
        document={
            **document,
            "collections": entries,
            "models": {**models, **chosen, **named_models},
        },
        ours=ours,
        dropped=tuple(sorted(certain - wanted.keys())),
        conflicts=conflicts,
    )


async def read_document(sidecar: Sidecar, *, timeout_s: float) -> dict[str, Any]:
    """The configuration, empty when there is none. Raises QmdUnavailableError and OSError."""
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


async def _converted(sidecar: Sidecar, file: Path, timeout_s: float) -> Any:
    """What stands in YAML there."""
    command = sidecar.program.command
    if command.node is None:
        raise QmdUnavailableError(
            "broken",
            f"{file} was written by a QMD command as YAML, which only QMD's own package can read.",
            remedy="Name the launcher that npm installed in memory.qmd.command, or remove the file.",
        )
    argv = (command.node, "-e", _YAML_AS_JSON, command.script, str(file))
    finished = await sidecar.run_program(argv, timeout_s=timeout_s)
    try:
        return json.loads(finished.stdout)
    except ValueError:
        raise QmdUnavailableError(
            "broken", f"{file} cannot be understood: {finished.complaint}."
        ) from None


def _write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Only when something differs: a file that stays the same is never read half."""
    data = f"{json.dumps(document, indent=1, ensure_ascii=False)}\n".encode()
    if not path.exists() or path.read_bytes() != data:
        replace_file(path, data)


def read_ledger(path: Path) -> Ledger:
    """An unreadable ledger is an empty one: then nothing is certainly ours."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ledger)
    except (FileNotFoundError, msgspec.DecodeError):
        return Ledger()


def write_ledger(path: Path, ledger: Ledger) -> None:
    replace_file(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1))


def _binding(entry: Mapping[str, Any]) -> Binding:
    return Binding(str(entry.get("path")), str(entry.get("pattern", "**/*.md")))
