"""`index`, `batch`, `models`, `qmd`, `store`, `forget`: work on the index, on what it needs, and on where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from config.errors import ErrorKind
from config.keys.kinds import parse_duration
from config.runtime.start import command_of
from gateway.cli import output
from gateway.cli.guard import NOT_FOUND, NotThereError
from gateway.cli.options import PROGRAM, CommandLineError, Options, load
from gateway.process.beginning import run_loop

if TYPE_CHECKING:
    from backends.builtin.copying import CopyReport
    from backends.interface import BackfillState, ForgetReport, SyncReport
    from config.settings import Settings
    from gateway.cli import arguments as typed
    from gateway.cli.access import Access
    from providers.choosing import Choice
    from providers.local.models import Suggestion
    from providers.local.models.references import ConfiguredModels


def index(options: Options, force: typed.IndexAll = False) -> int:
    """Bring the index up to date and wait for it, and for the vectors of all texts."""
    from gateway.cli.access import with_memory
    from gateway.cli.rendering.status_lines import embedding_lines, sync_remarks, sync_summary

    work = partial(_index, force)
    report, vectors, disabled, issues = with_memory(load(options), options, work, embeds=True)
    if report is None:
        if options.json:
            output.write_json({"disabled": True, "error": disabled, "kind": ErrorKind.DISABLED})
        else:
            output.note(disabled)
        return os.EX_OK
    if options.json:
        found = msgspec.to_builtins(report)
        output.write_json(found if vectors is None else {**found, "vectors": vectors})
    else:
        output.say(sync_summary(report))
        for line in () if vectors is None else embedding_lines(vectors):
            output.say(line)
        for remark in (*sync_remarks(report), *issues):
            output.note(remark)
    is_whole = report.complete and not report.error and not (vectors and vectors.last_error)
    return os.EX_OK if is_whole else os.EX_TEMPFAIL


async def _index(
    force: bool, memory: Access
) -> tuple[SyncReport | None, BackfillState | None, str, tuple[str, ...]]:
    """Returns the report, or why there is none; the state of the vectors; why something asked for is not indexed."""
    from backends.interface import SyncRequest
    from gateway.cli.progress import sync_progress, vector_progress

    with sync_progress() as progress:
        report = await memory.sync(SyncRequest(reason="cli", force=force), progress=progress)
    if report is None:
        return None, None, (await memory.status()).disabled or "", ()
    if not report.scanned:
        return report, None, "", (await memory.status()).issues
    with vector_progress() as progress:
        vectors = await memory.embed(progress)
    missed = await memory.missed()
    return report, vectors, "", (missed,) if missed else ()


def list_batches(options: Options) -> int:
    """Show the batch jobs of the index, the newest first."""
    from backends.builtin.embedding.batch_jobs import list_jobs

    jobs = list_jobs(load(options))
    if not jobs and not options.json:
        output.note("There are no batch jobs.")
        return os.EX_OK
    return output.show(options, {"jobs": jobs}, lambda lines: lines.batch_lines(jobs))


def cancel_batch(options: Options, job: typed.JobNumber) -> int:
    """Cancel a batch job; what it has done is kept, the rest is sent in ordinary requests."""
    from backends.builtin.embedding.batch_jobs import cancel_job

    if not cancel_job(load(options), job):
        raise NotThereError(
            f"No job {job} is under way.", remedy=f"`{PROGRAM} batch list` shows those that are."
        )
    sentence = f"Job {job} will be cancelled when the gateway next checks it."
    return output.answer(options, {"cancelling": True}, sentence)


def list_models(options: Options) -> int:
    """Show the configured model and those that were downloaded."""
    from providers.local.models.cache import listed_models

    configured = _configured(options)
    items = listed_models(configured)
    data = {"cacheDir": str(configured.cache_dir), "models": items}
    return output.show(options, data, lambda lines: lines.model_lines(items))


def pull(options: Options, model: typed.ModelToPull = None) -> int:
    """Download a model, or resume an interrupted download."""
    from providers.local.models import locate
    from providers.local.models.references import parse_reference

    configured = _configured(options)
    model = model or configured.reference
    if locate(model, configured.cache_dir) is None and not options.json:
        output.note(f"Fetching {parse_reference(model)} ...")
    path = run_loop(_pull, configured, model)
    return output.answer(options, {"path": str(path), "bytes": path.stat().st_size}, str(path))


def suggest(options: Options, yes: typed.InstallMissing = False) -> int:
    """Show which model gives meaning without a key, its size and licence; install and download it if you agree."""
    return offer_suggestion(options, yes=yes, again=sys.argv[1:])


def offer_suggestion(
    options: Options, *, yes: bool, again: Sequence[str], brief: bool = False
) -> int:
    """Does what `models suggest` does. `again` are the arguments of a command that does the rest."""
    from gateway.cli.rendering import status_lines
    from gateway.cli.terminal import print_lines, size
    from providers.choosing import choose
    from providers.installing import install_arguments, install_command
    from providers.local.models import SUGGESTIONS, configured_models
    from providers.local.models.references import ONNX

    settings = load(options)
    configured = configured_models(settings, os.environ)
    first = SUGGESTIONS[0]
    here = {one.name for one in SUGGESTIONS if one.is_here(configured.cache_dir)}
    command = install_command(ONNX.extra) if ONNX.not_installed else None
    incomplete = command is not None or first.name not in here
    if not options.json and not (yes and incomplete):
        print_lines(
            status_lines.offer_lines(first, is_here=first.name in here, install=command)
            if brief and incomplete
            else status_lines.suggestion_lines(SUGGESTIONS, here, command)
        )
    if incomplete and (yes or (not options.json and _wanted(first, here, command))):
        if command is not None:
            return _install_and_repeat(install_arguments(ONNX.extra), command, again)
        if not options.json:
            output.note(f"Fetching {first.name} ({size(first.bytes)}, {first.licence}) ...")
        run_loop(_pull_suggested, configured, first)
        here.add(first.name)
    if options.json:
        output.write_json(_suggested(configured, here, command, choose(settings)))
    elif first.name in here:
        print_lines(status_lines.suggestion_use_lines(first, choose(settings)))
    return os.EX_OK


def _suggested(
    configured: ConfiguredModels, here: Container[str], command: str | None, choice: Choice
) -> dict[str, object]:
    """Returns the suggestions for programs. `command` installs what is missing."""
    from providers.local.models import SUGGESTIONS

    suggestions = [
        {
            **msgspec.to_builtins(one),
            "path": str(one.path(configured.cache_dir)),
            "here": one.name in here,
        }
        for one in SUGGESTIONS
    ]
    chosen = {"provider": choice.primary and choice.primary.provider, "reason": choice.reason}
    return {"suggestions": suggestions, "install": command, "choice": chosen}


def _wanted(suggestion: Suggestion, here: Container[str], command: str | None) -> bool:
    """Asks a person whether to go on; if nobody can be asked, the table has shown how."""
    from gateway.cli.terminal import size

    if not output.may_ask():
        return False
    steps = [] if command is None else ["Run that command"]
    if suggestion.name not in here:
        steps.append(
            f"{'d' if steps else 'D'}ownload {suggestion.name} ({size(suggestion.bytes)}, {suggestion.licence})"
        )
    return output.ask(f"{', and '.join(steps)}?", default=False)


def _install_and_repeat(arguments: list[str], command: str, rest: Sequence[str]) -> int:
    """Installs the engine, then starts a process that does the rest. The installer writes to standard error."""
    output.note(f"Running {command} ...")
    try:
        done = subprocess.run(arguments, stdout=sys.stderr, check=False)  # noqa: S603 - names of our own
        installed = done.returncode == 0
    except OSError as error:
        output.note(f"{arguments[0]} cannot be started: {error.strerror}.")
        installed = False
    if not installed:
        output.note(
            f"The engine was not installed. Run it yourself, then this command again: {command}"
        )
        return os.EX_UNAVAILABLE
    again = [*command_of("gateway"), *rest]
    asked = {"--yes", "-y"} & set(again)
    done = subprocess.run(again if asked else [*again, "--yes"], check=False)  # noqa: S603 - this command
    return done.returncode


async def _pull_suggested(configured: ConfiguredModels, suggestion: Suggestion) -> None:
    from gateway.cli.progress import download_progress
    from providers.local.models import obtain_suggested
    from providers.local.models.references import ModelOfflineError
    from providers.provider_interface import ProviderTransientError

    try:
        with download_progress(suggestion.name) as progress:
            await obtain_suggested(suggestion, configured, progress)
    except (ModelOfflineError, ProviderTransientError) as error:
        by_hand = suggestion.by_hand(configured.cache_dir)
        offline = isinstance(error, ModelOfflineError)
        online = "Unset HF_HUB_OFFLINE." if offline else error.remedy
        error.remedy = (
            f"{online} By hand: {by_hand}, then `{PROGRAM} models suggest --yes`. "
            "Until then notes are found by their words."
        )
        raise


async def _pull(configured: ConfiguredModels, model: str) -> Path:
    from gateway.cli.progress import download_progress
    from providers.local.models import obtain
    from providers.local.models.references import parse_reference

    with download_progress(Path(str(parse_reference(model))).name) as progress:
        return await obtain(
            model, configured.cache_dir, environment=configured.environment, on_progress=progress
        )


def remove(options: Options, model: typed.ModelName) -> int:
    """Remove a downloaded model, or the part of it that was downloaded."""
    from gateway.cli.terminal import size
    from providers.local.models.cache import remove as remove_model

    freed = remove_model(model, _configured(options).cache_dir)
    if options.json:
        output.write_json({"removed": freed > 0, "bytes": freed})
    elif freed:
        output.say(f"Removed {size(freed)}.")
    else:
        output.note(f"There is no downloaded model {model}; see `{PROGRAM} models list`.")
    return os.EX_OK if freed else NOT_FOUND


def _configured(options: Options) -> ConfiguredModels:
    from providers.local.models import configured_models

    return configured_models(load(options), os.environ)


def qmd(options: Options, words: typed.QmdWords = None) -> int:
    """Run QMD on the index that the gateway uses; `env` prints the variables for a shell."""
    from backends.qmd.backend import become_qmd, own_variables, shell_lines

    settings = load(options)
    if words != ["env"]:
        waiting = f"{PROGRAM}: waiting until the gateway's own upkeep of QMD is done ..."
        become_qmd(settings, words or ["--help"], lambda: output.note(waiting))
    if options.json:
        output.write_json(own_variables(settings))
    else:
        output.write_text("".join(f"{line}\n" for line in shell_lines(settings)))
    return os.EX_OK


# --- Stores, and what they keep -------------------------------------------------------------------


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
