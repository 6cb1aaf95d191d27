"""`status`, `health`, `config`, `doctor`, `metrics`: the state of a memory and its settings, and the reasons for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from config.errors import ConfigNotFoundError, MemoryGatewayError, lone_error, ungrouped
from config.runtime.files import denied
from config.source.located import render_path
from gateway import hook
from gateway.cli import output
from gateway.cli.guard import HEALTH_CODES
from gateway.cli.options import CommandLineError, Options, load, load_request
from gateway.process.beginning import run_loop

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from config.describe import Row
    from config.migration import Migration, Move
    from config.settings import Settings
    from gateway.cli import arguments as typed
    from gateway.cli.access import Access
    from gateway.tools.status import StatusResult

    Look = Callable[[], StatusResult]
    Show = Callable[[StatusResult | MemoryGatewayError], None]


def status(options: Options, index: typed.IndexFirst = False, watch: typed.Watch = False) -> int:
    """Show what is indexed, from where, and what is wrong with it."""
    settings = load(options)
    if watch:
        first = iter((index,))  # only the first look brings the index up to date
        watch_status(lambda: _read_status(settings, options, next(first, False)), options.json)
        return os.EX_OK
    result = _read_status(settings, options, index, patient=True)
    return output.show(options, result, lambda lines: lines.status_lines(result))


def _read_status(
    settings: Settings, options: Options, index: bool, *, patient: bool = False
) -> StatusResult:
    """Returns the status, with `index` after a sync. Raises IndexUnavailableError."""
    from gateway.cli.access import with_memory

    found = with_memory(settings, options, partial(_status, index), patient=patient)
    return replace(found, silent_hooks=hook.misses())


async def _status(index: bool, memory: Access) -> StatusResult:
    if index:
        from backends.interface import SyncRequest
        from gateway.cli.progress import sync_progress

        with sync_progress() as progress:
            await memory.sync(SyncRequest(reason="cli"), progress=progress)
    return await memory.status()


def health(options: Options, deep: typed.Deep = False) -> int:
    """Say whether memory works; exit code 0 ok, 1 degraded, 2 failing."""
    from gateway.cli.access import with_memory
    from gateway.tools.status import judge_health

    try:
        with ungrouped():
            result = with_memory(load(options), options, lambda memory: memory.health(deep=deep))
    except (MemoryGatewayError, PermissionError) as error:
        result = judge_health(failure=str(denied(error) or error))
    code = HEALTH_CODES[result.status]
    return output.show(options, result, lambda lines: lines.health_lines(result), code)


def config(
    options: Options,
    words: typed.KeyWords = None,
    *,
    migrate: typed.Migrate = False,
    write: typed.WriteMigrated = False,
) -> int:
    """Show every setting with its value and where it comes from, or change one.

    `config set query.maxResults 8` checks the value and writes it into the file that is in force, whose comments
    stay: our own for a folder of notes, else openclaw.json. `config unset query.maxResults` takes it out again.
    """
    match words or []:
        case [] if migrate:
            return run_migration(options, write=write)
        case _ if migrate:
            output.note("--migrate moves the whole file; leave KEY out.")
            return os.EX_USAGE
        case _ if write:
            output.note("--write goes with --migrate.")
            return os.EX_USAGE
        case ["set", key, value]:
            return _change(options, key, value)
        case ["unset", key]:
            return _change(options, key, None)
        case ["set" | "unset", *_] | [_, _, *_]:
            raise CommandLineError(
                "config takes KEY, `set KEY VALUE` or `unset KEY`.",
                remedy="Quote a value of several words.",
            )
        case given:
            return _show_settings(options, given[0] if given else None)


def _show_settings(options: Options, key: str | None) -> int:
    from config.describe import describe_json, describe_rows

    settings = load(options)
    rows = describe_rows(settings)
    if key is not None:
        rows = _chosen(rows, key)
    output.show(options, describe_json(settings, rows), lambda lines: lines.config_lines(rows))
    for warning in settings.warnings if not options.json else ():
        line = f" (line {warning.line})" if warning.line else ""
        output.note(f"Warning: {warning.path}{line}: {warning.message}")
    return os.EX_OK


def _change(options: Options, key: str, value: str | None) -> int:
    from config.changing import change_setting
    from config.describe import describe_rows, rows_of

    request = load_request(options)
    change = change_setting(request, key, value)
    change.write()
    row = next(iter(rows_of(describe_rows(change.settings), change.key)), None)
    if options.json:
        output.write_json(
            {
                "file": str(change.file.path),
                "key": change.key,
                "written": change.changes,
                "value": row and row.value,
                "origin": row and row.origin,
            }
        )
        return os.EX_OK
    if row is not None:
        output.say(f"{row.path} is {row.value_text} ({row.origin_text}).")
        if value is not None and request.notes is not None and row.origin == request.notes_origin:
            output.note(
                f"A folder of notes has a {row.path} of its own: {value} does not count for it."
            )
    if change.changes:
        output.say(f"{change.file.path} is written; a gateway that runs takes it with `reload`.")
    elif value is None:
        output.say(f"Nothing was taken out of {change.file.path}.")
    for place in change.left:
        output.note(f"It stays set for all agents, or in an included file: {place}.")
    return os.EX_OK


def _chosen(rows: Sequence[Row], key: str) -> tuple[Row, ...]:
    """Returns the rows of a setting. Raises CommandLineError if there is no such setting."""
    from config.describe import nearest_path, rows_of

    found = rows_of(rows, key)
    if found:
        return found
    near = nearest_path(rows, key)
    hint = f"Did you mean {near}? " if near else ""
    raise CommandLineError(
        f"There is no setting {key!r}.", remedy=f"{hint}`memory-gateway config` shows all of them."
    )


def schema(options: Options) -> int:
    """Print what every method of the pipe takes and answers, as JSON Schema."""
    del options  # it is always JSON, and the same for every memory
    from gateway.methods import all_schemas

    output.write_json(all_schemas())
    return os.EX_OK


def doctor(options: Options) -> int:
    """Find what is wrong and say how to fix it; exit code 0 ok, 1 degraded, 2 failing."""
    from gateway.doctor.diagnosing import diagnose
    from gateway.process.log_output import configure_logs

    # The findings say what warnings would.
    configure_logs(options.log_level or "error", for_people=not options.json)
    diagnosis = run_loop(diagnose, partial(load, options))
    code = HEALTH_CODES[diagnosis.status]
    return output.show(options, diagnosis, lambda lines: lines.diagnosis_lines(diagnosis), code)


def metrics(options: Options, textfile: typed.Textfile = None) -> int:
    """Print what the running gateway counts, as OpenMetrics text."""
    from gateway.cli.access import owner_metrics

    result = owner_metrics(load(options))
    if options.json:
        output.write_json(result)
        return os.EX_OK
    from backends.interface import unwritable
    from gateway.metrics import openmetrics_text, write_textfile

    if textfile is None:
        output.write_text(openmetrics_text(result.families))
        return os.EX_OK
    try:
        write_textfile(textfile, result.families)
    except OSError as error:
        raise unwritable(textfile, error) from error
    return os.EX_OK


_EVERY_S: Final = 2.0


def watch_status(look: Look, as_json: bool) -> None:
    """Shows the status again and again, until it is interrupted."""
    from gateway.cli.terminal import console

    out = console()
    if as_json:
        _watch(look, _show_json)
    elif out.is_terminal and not out.is_dumb_terminal:
        from rich.live import Live

        with Live(console=out, auto_refresh=False) as live:
            _watch(look, lambda seen: live.update(_picture(seen, out), refresh=True))
    else:
        _watch(look, _show_line)


def _watch(look: Look, show: Show) -> None:
    while True:
        try:
            show(look())
        except Exception as error:
            cause = lone_error(error)  # an index may be readable again at the next look
            if not isinstance(cause, MemoryGatewayError):
                raise
            show(cause)
        time.sleep(_EVERY_S)


def _show_json(seen: StatusResult | MemoryGatewayError) -> None:
    if isinstance(seen, MemoryGatewayError):
        error = {"kind": seen.kind, "message": seen.message, "remedy": seen.remedy}
        output.write_json_line({"error": error})
    else:
        output.write_json_line(seen)


def _picture(seen: StatusResult | MemoryGatewayError, out: Console) -> Text:
    """Returns the status in lines that fit the screen, where longer ones would be cut off."""
    from rich.text import Text

    from gateway.cli.rendering.status_lines import status_lines
    from gateway.cli.terminal import folded

    texts = [Text(str(seen))] if isinstance(seen, MemoryGatewayError) else status_lines(seen)
    lines = (one.wrap(out, out.width) for line in texts for one in folded(line, out.width))
    return Text("\n").join([Text(_now(), style="dim"), *(piece for one in lines for piece in one)])


def _show_line(seen: StatusResult | MemoryGatewayError) -> None:
    from gateway.cli.rendering.status_lines import status_line

    text = str(seen) if isinstance(seen, MemoryGatewayError) else status_line(seen)
    output.write_line(f"{_now()} {text}")


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def run_migration(options: Options, *, write: bool) -> int:
    """Shows or writes the migrated file. Raises ConfigInvalidError, ConfigNotFoundError."""
    from config.migration import migrate_in_force
    from config.paths import CONFIG_NAMES
    from config.source.discover import discover

    request = load_request(options)
    migration = migrate_in_force(request)
    if migration is None:
        place = discover(request).state_dir / CONFIG_NAMES[0]
        raise ConfigNotFoundError(
            f"Nothing to migrate: there is no {place}.",
            remedy="If it is elsewhere, --config names it.",
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
        *(
            f"Line {move.node.line}: {move.place} "
            + (f"moves to {render_path(move.to)}." if move.to else f"is left out: {move.reason}.")
            for move in migration.moves
        ),
        *(
            f"{move.node.source.path}, line {move.node.line}: {move.place} is in a file that is "
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


def _replace(migration: Migration) -> Path | None:
    """Writes the migrated file, returns the copy. Raises ConfigInvalidError if it has changed or cannot be written."""
    from config.changing import open_file
    from config.source.editing import split_bom

    file = open_file(migration.path)
    bom, before = split_bom(file.text)
    if before != migration.before:
        raise file.changed()
    return file.write(bom + migration.text, keeps_copy=True)
