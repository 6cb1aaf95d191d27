"""`config --migrate`: prints the moved file, or replaces it and keeps the old one beside it."""

from __future__ import annotations

import os
from pathlib import Path

from config.changing import open_file
from config.errors import ConfigNotFoundError
from config.migration import Migration, Move, migrate_in_force
from config.source.editing import BOM
from config.source.located import render_path
from gateway.cli import output
from gateway.cli.options import Options, load_request


def run_migration(options: Options, *, write: bool) -> int:
    """Raises ConfigInvalidError, ConfigNotFoundError."""
    request = load_request(options)
    migration = migrate_in_force(request)
    if migration is None:
        raise ConfigNotFoundError(
            "There is no configuration file.", remedy="Without one there is nothing to migrate."
        )
    if options.json and not write:
        output.write_json(_as_data(migration))
        return os.EX_OK
    for line in _notes(migration):
        output.note(line)
    if not write:
        output.write_content(migration.text)
        return os.EX_OK
    if not migration.moves:
        output.say("Nothing has to be moved: OpenClaw accepts the places of all keys.")
        return os.EX_OK
    backup = _replace(migration)
    output.note(f"{migration.path} is replaced; what it was is in {backup}.")
    return os.EX_OK


def _notes(migration: Migration) -> list[str]:
    return [
        *map(_note, migration.moves),
        *(
            f"{move.node.source.path}, line {move.node.line}: {move.place} stands in a file that is "
            "included and stays there; move it by hand."
            for move in migration.elsewhere
        ),
    ]


def _as_data(migration: Migration) -> dict[str, object]:
    return {
        "file": str(migration.path),
        "text": migration.text,
        "moves": [_move_as_data(move) for move in migration.moves],
        "elsewhere": [
            _move_as_data(move) | {"file": str(move.node.source.path)}
            for move in migration.elsewhere
        ],
    }


def _move_as_data(move: Move) -> dict[str, object]:
    to = render_path(move.to) if move.to else None
    reason = move.reason or None
    return {"line": move.node.line, "from": move.place, "to": to, "reason": reason}


def _note(move: Move) -> str:
    if move.to is None:
        return f"Line {move.node.line}: {move.place} is left out: {move.reason}."
    return f"Line {move.node.line}: {move.place} moves to {render_path(move.to)}."


def _replace(migration: Migration) -> Path | None:
    """Raises ConfigInvalidError where the file has changed meanwhile, or cannot be written."""
    file = open_file(migration.path)
    if file.text.removeprefix(BOM) != migration.before:
        raise file.changed()
    return file.write(migration.text, keeps_copy=True)
