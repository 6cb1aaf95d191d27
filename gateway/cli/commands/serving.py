"""`serve`, `service`, `reload`, `demo`: the gateway itself."""

from __future__ import annotations

import errno
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from config.paths import home_dir
from gateway.cli import output
from gateway.cli.options import LogLevel, Options, arguments_of, load, named_state_dir
from gateway.process.beginning import run_loop

if TYPE_CHECKING:
    from config.settings import Settings, StartedAs
    from gateway.cli import arguments as typed
    from gateway.sample import Event
    from gateway.systemd_units import UnitChange, UnitPlan


_LOG_LEVEL: Final[LogLevel] = "info"


def serve(
    options: Options, socket_only: typed.SocketOnly = False, write: typed.WriteGranted = False
) -> int:
    """Answer JSON-RPC on standard input and output until the input ends."""
    from config.runtime.standard_error import claim_standard_error

    claim_standard_error().write_behind()
    if socket_only:
        return _serve_sockets(options, write=write)
    return _serve(options, "sidecar", write=write)


def _serve_sockets(options: Options, *, write: bool) -> int:
    """Runs as a service; a child of a chat gateway leaves the service manager to its parent."""
    from gateway.notify import handed_in_sockets, notifying
    from gateway.process.log_output import configure_logs

    configure_logs(options.log_level or _LOG_LEVEL)  # the next call may log
    sockets = handed_in_sockets()
    with notifying() as notifier:
        return _serve(
            options, "service", write=write, socket_only=True, sockets=sockets, notifier=notifier
        )


def _serve(options: Options, started_as: StartedAs, *, write: bool, **service: Any) -> int:
    """Serves one agent, which a reload keeps. With `write`, clients may append whatever the configuration says."""
    from gateway.process import serve as process

    def read(options: Options, *args: StartedAs) -> Settings:
        settings = load(options, *args)
        return replace(settings, write_granted=True) if write else settings

    settings = read(options, started_as)
    if (folder := settings.notes_folder) is not None:
        same = replace(options, notes=str(folder))
    else:
        same = replace(options, agent=settings.agent_id)
    return process.serve(
        settings,
        read_settings=partial(read, same),
        log_level=options.log_level or _LOG_LEVEL,
        **service,
    )


def serve_hooks(options: Options) -> int:
    """Serves hooks until none asks any more. The route is that of this command line."""
    from gateway.hook import Route
    from gateway.process.serve import stay

    settings = load(options, "mcp")
    return stay(
        settings,
        Route([one for one in sys.argv[2:] if one != "--serve"]),
        read_settings=partial(load, options, "mcp"),
        log_level=options.log_level or "warning",
    )


NOT_RUNNING: Final = 3
"""The exit code of `service status` if the service does not run, as of systemctl."""
_LOGIN: Final = (
    "Log in as this user (su and sudo do not start its service manager), or keep that running: "
    "loginctl enable-linger."
)


def service(options: Options, action: typed.ServiceAction) -> int:
    """Run the gateway as one of your systemd user services."""
    from backends.interface import FileUnwritableError
    from gateway.systemd_units import install, name_of, uninstall

    settings = load(options)
    if action == "status":
        return _show_state(options, name_of(settings))
    plan = _plan(options, settings)
    try:
        installs = action == "install"
        change = install(plan) if installs else uninstall(plan.directory, plan.name)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # the cause is not the directory
        raise FileUnwritableError(
            f"{error.filename} cannot be written: {error.strerror}.",
            remedy="systemd reads its units there: make the directory writable for this user.",
        ) from error
    return _show_change(options, action, change, plan.name)


def _plan(options: Options, settings: Settings) -> UnitPlan:
    from pathlib import Path

    from config.runtime.start import command_of
    from gateway.systemd_units import UnitPlan, name_of, unit_directory

    folder = settings.notes_folder
    given = {
        "--agent": settings.agent_id if folder is None else None,
        "--notes": folder,
        "--workspace": options.workspace and settings.workspace,
        "--state-dir": options.state_dir and named_state_dir(settings),
        "--config": options.config and settings.config_path,
        "--log-level": options.log_level,
    }
    arguments = [*arguments_of(given), *(["--claude-code"] if options.claude_code else [])]
    writable = [settings.search.store.path.parent, settings.state_dir]
    if settings.workspace.is_dir():
        writable.append(settings.workspace)  # `remember` appends to notes through the service
    return UnitPlan(
        name=name_of(settings),
        program=command_of("gateway"),
        arguments=tuple(arguments),
        directory=unit_directory(os.environ, home_dir(os.environ, Path.cwd())),
        writable=tuple(dict.fromkeys(writable)),
        workspace=settings.workspace,
    )


def _show_change(options: Options, action: str, change: UnitChange, name: str) -> int:
    from gateway.systemd_units import instance

    if options.json:
        output.write_json(change)
    else:
        for path in change.paths:
            output.say(f"{'wrote' if action == 'install' else 'removed'} {path}")
        if change.hidden:
            output.note(
                f"The service has a /tmp of its own (PrivateTmp=yes) and cannot see "
                f"{', '.join(change.hidden)}. Move it, or set PrivateTmp=no in a drop-in."
            )
        if change.problem:
            outcome = "did not do it" if change.refused else "does not answer"
            output.note_text(f"systemd {outcome}: {change.problem.rstrip('.')}.")
            why = f"`journalctl --user -u {instance(name)}` tells why. Once it is mended, run: "
            when = why if change.refused else "After a login of your own, run: "
            output.note(when + "; ".join(change.by_hand))
        elif change.paths:
            output.say(f"{'started' if action == 'install' else 'stopped'} {instance(name)}")
        else:
            output.say(f"{instance(name)} is not installed.")
    return os.EX_UNAVAILABLE if change.problem else os.EX_OK


def _show_state(options: Options, name: str) -> int:
    from gateway.systemd_units import ManagerAnswer, instance, read_state

    state = read_state(instance(name))
    if isinstance(state, ManagerAnswer):
        problem = f"systemd does not answer: {state.problem}."
        if options.json:
            output.write_json(
                {"unit": instance(name), "state": "unknown", "problem": problem, "remedy": _LOGIN}
            )
        else:
            output.note_text(problem)
            output.note(_LOGIN)
        return os.EX_UNAVAILABLE
    if options.json:
        output.write_json(state)
    else:
        enabled = "enabled" if state.enabled else "not enabled"
        output.say(
            f"{state.unit}: {state.state}, {enabled if state.installed else 'not installed'}"
        )
        if state.status:
            output.say(f"  {state.status}")
    return os.EX_OK if state.active else NOT_RUNNING


def reload(options: Options) -> int:
    """Have the running gateway read its configuration again, and show what changed."""
    from gateway.cli.access import reload_owner

    result = reload_owner(load(options))
    return output.show(options, result, lambda lines: lines.reload_lines(result))


def demo(options: Options) -> int:
    """See it work: a real gateway answers questions about sample notes."""
    from gateway.sample import run_demo

    if options.json:
        events: list[Event] = []
        complete = run_loop(run_demo, events.append, options.log_level)
        exchanges = [found for one in events if (found := getattr(one, "exchange", None))]
        output.write_json({"complete": complete, "exchanges": exchanges})
    else:
        try:
            complete = run_loop(run_demo, _show, options.log_level)
        except BaseExceptionGroup as group:  # of the task that shows progress and the one that asks
            if group.subgroup(BrokenPipeError):
                raise BrokenPipeError from None
            raise
    return os.EX_OK if complete else os.EX_SOFTWARE


def _show(event: Event) -> None:
    from gateway.cli.rendering.results import event_lines
    from gateway.cli.terminal import print_lines

    print_lines(event_lines(event))
