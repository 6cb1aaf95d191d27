"""QMD's configuration file and the gateway's own ledger beside it.

Owns what is ours in them: a collection is certainly ours when the ledger says that we made it and the
file still has it as we made it. Everything else in the file stays as it is. Pure but for reading and
replacing the two files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from backends.qmd.collections import Collection
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.yaml import UnknownYamlError, parse
from config.disk.replacing import replace_file


class Binding(msgspec.Struct, frozen=True):
    """What a collection stands for."""

    path: str
    pattern: str


class Ledger(msgspec.Struct, frozen=True):
    """What the gateway did in this home: which version made the index, which collections."""

    version: str = ""
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


def reconcile(
    document: Mapping[str, Any],
    ledger: Ledger,
    planned: Sequence[Collection],
    models: Mapping[str, str],
    named_models: Mapping[str, str],
) -> Reconciled:
    """`models` fills gaps of the file, `named_models` wins over it.

    Raises UnknownYamlError when `document` is not the configuration of a QMD.
    """
    present, chosen = document.get("collections") or {}, document.get("models") or {}
    mappings = [present, chosen, *(present.values() if isinstance(present, dict) else ())]
    if not all(isinstance(one, dict) for one in mappings):
        raise UnknownYamlError("its collections or models are not mappings")
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


def read_document(path: Path) -> dict[str, Any]:
    """The configuration, empty when there is none. Raises UnknownYamlError and OSError."""
    try:
        document = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise UnknownYamlError("it is not valid UTF-8") from None
    if not isinstance(document, dict):
        raise UnknownYamlError("it is not a mapping")
    return document


def read_ledger(path: Path) -> Ledger:
    """An unreadable ledger is an empty one: then nothing is certainly ours."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ledger)
    except (FileNotFoundError, msgspec.DecodeError):
        return Ledger()


def write_document(path: Path, document: Mapping[str, Any]) -> bool:
    """As JSON, which is YAML, and only when something differs; whether it was written."""
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        if read_document(path) == document:
            return False
    except UnknownYamlError as error:
        raise QmdUnavailableError("broken", f"{path} cannot be understood: {error}.") from None
    replace_file(path, text.encode())
    return True


def write_ledger(path: Path, ledger: Ledger) -> None:
    replace_file(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1))


def _binding(entry: Mapping[str, Any]) -> Binding:
    return Binding(str(entry.get("path")), str(entry.get("pattern", "**/*.md")))
