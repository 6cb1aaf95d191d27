"""`store migrate | check | copy | drop-agent` and `forget`: what an index keeps, and where."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from config.keys.kinds import parse_duration
from gateway.cli import output
from gateway.cli.guard import NOT_FOUND
from gateway.cli.options import PROGRAM, CommandLineError, Options, load
from gateway.process.beginning import run_loop

if TYPE_CHECKING:
    from backends.builtin.copying import CopyReport
    from backends.interface import ForgetReport
    from config.settings import Settings
    from gateway.cli import arguments as typed


def migrate_store(
    options: Options, *, role: typed.Role = None, url_from: typed.UrlFrom = None
) -> int:
    """Make the tables in PostgreSQL, or bring them to this release's schema.

    An agent with store.vector.hnswFrom vectors also gets an approximate index; run it again later for one that grows.
    """
    from backends.builtin.store.opening import migrate

    done = migrate(_settings(options, url_from), role=role)
    return output.answer(options, {"done": done, "role": role}, *done)


def check_store(options: Options, *, url_from: typed.UrlFrom = None) -> int:
    """Look whether the store can be used, is safe, and agrees with itself."""
    from backends.builtin.store.opening import check

    report = check(_settings(options, url_from))
    version = report.schema_version
    place = report.place if version is None else f"{report.place}, schema version {version}"
    facts = [f"  {fact}" for fact in report.facts]
    if not report.problems:
        return output.answer(options, report, place, *facts, "Nothing is wrong with it.")
    output.answer(options, report, place, *facts)
    for problem in report.problems if not options.json else ():
        output.note(problem)
    return os.EX_CONFIG


def copy_store(options: Options, *, source: typed.From, target: typed.To) -> int:
    """Fill another store with this index; nothing is embedded again.

    Files are read from the workspace, vectors and batch jobs come from the old store. Again after
    an interruption, it goes on where it was. Stop the agent's gateway meanwhile.
    """
    from gateway.cli.rendering.status_lines import sync_summary

    if source == target:
        raise CommandLineError(
            f"--from and --to are both {source}.", remedy="Name the other one in one of them."
        )
    settings = load(options)
    report = run_loop(_copy, settings, source, target)
    if options.json:
        output.write_json(report)
        return os.EX_OK
    output.say(sync_summary(report.sync))
    output.say(_copied(report))
    for remark in report.remarks:
        output.note(remark)
    if settings.search.store.driver != target:
        output.say(f'Now set store.driver to "{target}".')
    return os.EX_OK


def _copied(report: CopyReport) -> str:
    from gateway.cli.terminal import counted

    parts = [
        f"{counted(report.files, 'file')}, {counted(report.chunks, 'chunk')}",
        f"{counted(report.vectors, 'vector')} copied",
    ]
    if report.jobs:
        parts.append(f"{report.jobs:,} batch jobs taken over")
    if report.lacking:
        parts.append(f"{report.lacking:,} texts that neither has a vector of")
    return f"{report.to}: {', '.join(parts)}."


async def _copy(settings: Settings, source: typed.Driver, target: typed.Driver) -> CopyReport:
    from backends.builtin.backend import open_store
    from backends.builtin.copying import copy_index
    from gateway.cli.access import owning, with_driver
    from gateway.cli.progress import sync_progress, vector_progress

    before, after = with_driver(settings, source), with_driver(settings, target)
    with sync_progress() as on_sync:
        async with owning(settings), open_store(before) as old, open_store(after) as new:
            with vector_progress() as on_vectors:
                return await copy_index(after, old, new, on_sync=on_sync, on_vectors=on_vectors)


def drop_agent(options: Options, name: typed.AgentName, *, yes: typed.Yes = False) -> int:
    """Remove all that PostgreSQL holds of an agent: notes are indexed, and embedded, anew."""
    from backends.builtin.store.opening import drop

    settings = load(options)
    if not (yes or output.agreed("Nothing was changed")):
        return os.EX_OK
    dropped = drop(settings, name)
    if options.json:
        output.write_json({"dropped": dropped, "agent": name})
    elif dropped:
        output.say(f"Nothing is stored of agent {name} any more.")
    else:
        output.note(f"Nothing was stored of agent {name}; see `{PROGRAM} store check`.")
    return os.EX_OK if dropped else NOT_FOUND


def _settings(options: Options, url_from: str | None) -> Settings:
    """Loads the settings, with the address of another role if a variable is named for it."""
    from gateway.cli.access import with_address

    settings = load(options)
    if url_from is None:
        return settings
    address = os.environ.get(url_from)
    if not address:
        raise CommandLineError(
            f"The environment variable {url_from} is not set.",
            remedy="It holds the address of a role that may make tables, as store.url does.",
        )
    return with_address(settings, address)


def forget(
    options: Options,
    path: typed.ForgottenPath = None,
    *,
    older_than: typed.OlderThan = None,
    yes: typed.Yes = False,
) -> int:
    """Show what is kept of notes and conversations that are gone, and remove it.

    Afterwards all files of the index are searched for their lines. Markdown is never touched: what is still there stays
    indexed. With --json nothing is removed without --yes.
    """
    from gateway.cli.access import with_memory
    from gateway.tools.notes import ForgetParams

    settings = load(options)
    params = ForgetParams(path=path, older_than_ms=_age(older_than))
    params.request()
    report = with_memory(settings, options, lambda memory: memory.forget(params))
    if not options.json:
        _show(report)
    may_ask = not options.json and any(not one.is_there for one in report.kept)
    if wanted := yes or (may_ask and _agreed()):
        params = replace(params, remove=True)
        report = with_memory(settings, options, lambda memory: memory.forget(params))
    if options.json:
        output.write_json(report)
    elif wanted:
        _say_removed(report)
    if report.found:
        return os.EX_UNAVAILABLE
    return os.EX_OK if report.kept or wanted else NOT_FOUND


def _age(text: str | None) -> int | None:

    if text is None:
        return None
    try:
        return parse_duration(text, "d")
    except ValueError as error:
        raise CommandLineError(f"--older-than: {error}.", remedy="Say for example 90d.") from None


def _show(report: ForgetReport) -> None:
    from gateway.cli.terminal import counted

    if not report.kept:
        output.say("Nothing is kept of it.")
    for one in report.kept:
        fate = (
            "; the file is still there and stays indexed: delete it first" if one.is_there else ""
        )
        output.say(f"{one.path}: {counted(one.chunks, 'chunk')}{fate}")


def _agreed() -> bool:
    question = "Remove what is kept of files that are gone?"
    return output.agreed("Nothing was removed", question, "--yes removes it.", default=False)


def _say_removed(report: ForgetReport) -> None:
    from gateway.cli.terminal import counted

    output.say(f"Removed: {report.removed}. What was deleted before is erased, too.")
    if report.searched_for and report.files:
        lines, files = counted(report.searched_for, "line"), counted(len(report.files), "file")
        where = f"found in {', '.join(report.found)}" if report.found else "none was found"
        output.say(f"{lines} of it looked for in {files} of the index: {where}.")
    for remark in report.remarks:
        output.note(remark)
