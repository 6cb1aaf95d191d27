"""`connect` and `disconnect`: this gateway in the configuration of MCP clients; `openclaw`: in its memory slot."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from config.errors import ConfigNotFoundError, MemoryGatewayError
from config.paths import CONFIG_PATH_VARIABLES, STATE_DIR_VARIABLES, home_dir, variable
from config.runtime.files import remove_empty
from config.source.discover import discover
from gateway.cli import output
from gateway.cli.options import (
    PROGRAM,
    CommandLineError,
    Options,
    arguments_of,
    load,
    named_state_dir,
    openclaw_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.cli import arguments as typed
    from gateway.connect.clients import Client, Entry, Seen, Surroundings
    from gateway.connect.entries import Done, FilePlan
    from gateway.openclaw.installation import InstallPlan, InstallState, Outcome
    from gateway.openclaw.program import OpenClawHost


_NAME: Final = "memory-gateway"
_NAMES: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RECALL: Final = "Show the model before each prompt what memory says about it?"
_WRITE: Final = "May the agent write into today's log?"


def connect(
    options: Options,
    client: typed.ClientName = None,
    *,
    name: typed.ServerName = _NAME,
    show: typed.OnlyPrint = False,
    yes: typed.Yes = False,
    recall: typed.RecallInClient = None,
    write: typed.WriteInClient = None,
) -> int:
    """Give an MCP client this memory, in its own configuration; without CLIENT, list them all.

    It shows what is added and asks. Everything else in the file stays, and a copy of it is kept. Which memory:
    --notes, or --workspace, or --agent; else the folder that `setup` named, or the default agent of openclaw.json.
    """
    if client is None and not show:
        return _list_clients(options)
    chosen = _client(client) if client is not None else None
    if chosen is not None and chosen.name == "claude-code" and not show:
        options = _with_its_memory(options, yes=yes)
    asks = not (show or yes or options.json) and output.may_ask()
    if chosen is not None and chosen.hooks is not None and recall is None:
        recall = output.ask(_RECALL, default=True) if asks else True
    if write is None:
        write = asks and output.ask(_WRITE, default=False)
    memory = _arguments(options)
    command = (*_program(), memory[0], *(("--write",) if write else ()), *memory[1:])
    if chosen is None:
        generic = {"mcpServers": {_checked(name): {"command": command[0], "args": command[1:]}}}
        output.write_json(generic)
        return os.EX_OK
    hooks = _hooks(chosen, name, memory) if recall else None
    if show:
        return _print_entry(options, chosen, _checked(name), chosen.entry(command), hooks)
    return _answer(
        options, _Change.of(chosen, _checked(name), chosen.entry(command), hooks), yes=yes
    )


def disconnect(
    options: Options,
    client: typed.ClientName = None,
    *,
    name: typed.ServerName = _NAME,
    yes: typed.Yes = False,
) -> int:
    """Take this memory out of the configuration of an MCP client again."""
    if client is None:
        raise CommandLineError(
            "Which client?", remedy=f"`{PROGRAM} connect` lists those that are connected."
        )
    return _answer(options, _Change.of(_client(client), _checked(name), None, None), yes=yes)


def _answer(options: Options, change: _Change, *, yes: bool) -> int:
    """Makes the change, prints its JSON if wanted, and returns the exit code."""
    data = change.finish(options, yes=yes)
    if options.json:
        output.write_json(data)
    return os.EX_OK if is_seen(data) else os.EX_UNAVAILABLE


def is_seen(data: Mapping[str, Any]) -> bool:
    """Returns whether the client sees the connected server; true if it cannot be asked."""
    seen: Seen | None = data["check"]
    return seen is None or seen.verdict != "not_seen"


# Connecting and disconnecting for `setup`, for each client that it finds.


def installed_clients() -> list[Client]:
    """Returns the clients that are found on this machine."""
    from gateway.connect.clients import CLIENTS

    there = _surroundings()
    return [client for client in CLIENTS.values() if client.is_installed(there)]


def connect_found(
    options: Options, client: Client, *, yes: bool, writes: bool, before: Callable[[], None]
) -> dict[str, object]:
    """Connects a client as `connect --yes` does, asking once unless `yes`; returns what was done, for programs.

    Calls `before` just before it writes. A client that is connected already stays as it is. Without `writes`
    the change is only shown.
    """
    memory = _arguments(options)
    entry = client.entry((*_program(), *memory))
    change = _Change.of(client, _NAME, entry, _hooks(client, _NAME, memory))
    if change.plan.old is None and writes:
        return change.finish(options, yes=yes, before=before)
    if not options.json and change.plan.old is None:
        change.show()
    elif not options.json:
        output.say(
            f"{client.title} is connected already; `{PROGRAM} connect {client.name}` changes it."
        )
    return _as_data(change.plan, None, None)


def disconnect_found(options: Options, client: Client, *, writes: bool) -> dict[str, object]:
    """Removes what `connect_found` added; without `writes` the change is only shown."""
    change = _Change.of(client, _NAME, None, None)
    done = change.carry_out() if writes else (None, None)
    if not options.json and writes:
        change.say_outcome(*done)
    elif not options.json:
        change.show()
    return _as_data(change.plan, done[0], None)


class _Change(NamedTuple):
    """The changes for a client: to its server entry, and to its hooks if it has any."""

    plan: FilePlan
    hooks: FilePlan | None
    there: Surroundings

    @classmethod
    def of(cls, client: Client, name: str, entry: Entry | None, hooks: Entry | None) -> _Change:
        """Plans the changes. Without an `entry`, or `hooks`, our existing ones are removed."""
        there = _surroundings()
        hooked = client.hooked()
        beside = None if hooked is None else _planned(hooked, there, name, hooks)
        return cls(_planned(client, there, name, entry), beside, there)

    def finish(
        self, options: Options, *, yes: bool, before: Callable[[], None] = lambda: None
    ) -> dict[str, object]:
        """Makes the changes if agreed, reports to people, and returns what was done, for programs."""
        plan, hooks = self.plan, self.hooks
        if not options.json:
            self.show()
        changes = plan.changes or (hooks is not None and hooks.changes)
        wanted = changes and (yes or (not options.json and _agreed(plan)))
        done = hooks_done = None
        if wanted:
            before()
            done, hooks_done = self.carry_out()
        is_there = plan.new is not None and (wanted or not changes)
        seen = _check(plan, self.there) if is_there else None
        if not options.json:
            self.say_outcome(done, hooks_done)
            if seen is not None:
                output.say(seen.words)
            if plan.new is not None and wanted:
                self.say_next()
        data = _as_data(plan, done, seen)
        return data if hooks is None else {**data, "hooks": _as_data(hooks, hooks_done, None)}

    def carry_out(self) -> tuple[Done | None, Done | None]:
        """Makes both changes or neither. Raises as `entries.carry_out`.

        Hooks are added last and removed first, so that the copies are restored in the reverse order.
        """
        from gateway.connect.entries import carry_out

        plan, hooks = self.plan, self.hooks
        done = hooks_done = None
        shares_file = hooks is not None and hooks.path == plan.path and plan.changes
        try:
            if hooks is not None and hooks.old is not None and (hooks.new is None or shares_file):
                hooks_done = carry_out(self._again(hooks, None))
            if plan.changes:
                done = carry_out(self._again(plan, plan.new))
            if hooks is not None and hooks.new is not None:
                again = self._again(hooks, hooks.new)
                hooks_done = carry_out(again) if again.changes else hooks_done
        except MemoryGatewayError as error:
            if done is not None:
                self._take_back(plan, error)
            if hooks is not None and hooks_done is not None:
                self._take_back(hooks, error)
            raise
        for gone in filter(None, (plan, hooks)):
            if gone.new is None and gone.changes:
                remove_empty(gone.path.parent, below=self.there.home)
        return done, hooks_done

    def _take_back(self, plan: FilePlan, error: MemoryGatewayError) -> None:
        """Undoes a change. Raises FileUnwritableError, with the message of `error`, if the file stays changed."""
        from backends.interface import FileUnwritableError
        from gateway.connect.entries import carry_out

        try:
            carry_out(self._again(plan, plan.old))
        except MemoryGatewayError:
            raise FileUnwritableError(
                f"{error.message} {plan.path} was changed before that, and stays so.",
                remedy=error.remedy,
            ) from None
        if plan.old is None:
            remove_empty(plan.path.parent, below=self.there.home)

    def _again(self, plan: FilePlan, entry: Entry | None) -> FilePlan:
        """Returns the same plan for the file as it is now."""
        return _planned(plan.client, self.there, plan.name, entry)

    def show(self) -> None:
        _show(self.plan)
        if self.hooks is not None and self.hooks.changes:
            _show(self.hooks)

    def say_outcome(self, done: Done | None, hooks_done: Done | None) -> None:
        if done is not None:
            _say_done(self.plan, done)
        if self.hooks is None or hooks_done is None:
            return
        path = self.hooks.path
        if self.hooks.new is None:
            how = "has changed since, and keeps the rest"
            if hooks_done.restored:
                how = "is as before" if self.hooks.path.exists() else "is gone, as before"
            output.say(f"Nothing is recalled by itself any more; {path} {how}.")
        elif done is None:
            output.say(f"The hooks for recall are in {path}.")

    def say_next(self) -> None:
        client, hooks = self.plan.client, self.hooks
        output.say(client.then)
        if client.hooks is None:
            output.say(f"{client.title} runs no hooks: its model has to search memory by itself.")
        elif hooks is not None and hooks.new is not None and client.hooks.then:
            output.say(client.hooks.then)


def _planned(client: Client, there: Surroundings, name: str, entry: Entry | None) -> FilePlan:
    from gateway.connect.entries import plan_change

    return plan_change(client, there, name, entry)


def _hooks(client: Client, name: str, memory: Sequence[str]) -> Entry | None:
    """Returns the hooks with which the client asks before a prompt, if it has hooks. `memory` begins with `serve`."""
    if client.hooks is None:
        return None
    named = ("--name", name) if name != _NAME else ()
    return client.hooks.entry((*_program(), "recall", "--hook", client.name, *named, *memory[1:]))


def _client(name: str) -> Client:
    from gateway.connect.clients import CLIENTS

    if (found := CLIENTS.get(name)) is None:
        raise CommandLineError(
            f"There is no client {name!r} here.",
            remedy=f"Known are {', '.join(CLIENTS)}; --print shows what any other one needs.",
        )
    return found


def _checked(name: str) -> str:
    if not _NAMES.fullmatch(name):
        raise CommandLineError(
            f"--name {name!r} is no name that every client takes.",
            remedy="Use letters, digits, - and _.",
        )
    return name


def _surroundings() -> Surroundings:
    from gateway.connect.clients import Surroundings

    environment = {one: value for one, value in os.environ.items() if one != "OPENCLAW_HOME"}
    return Surroundings(environment, home_dir(environment, Path.cwd()), Path.cwd())


def _program() -> tuple[str, ...]:
    """Returns the command that starts this installation with any PATH: its absolute path, which updates keep."""
    from config.runtime.start import command_of

    beside = Path(sys.executable).with_name(PROGRAM)
    if not beside.is_file():
        return command_of("gateway")
    found = Path(shutil.which(PROGRAM) or "")
    return (str(found if found.is_absolute() and found.samefile(beside) else beside),)


def _arguments(options: Options) -> tuple[str, ...]:
    """Returns arguments that find the memory of these options from anywhere. Raises as `load`.

    They include what environment variables set here: a program that a desktop starts would not have those.
    """
    settings = load(options)
    if not settings.workspace.is_dir() and not settings.search.extra_paths:
        raise ConfigNotFoundError(
            f"There is no memory to connect: the workspace {settings.workspace} does not exist.",
            remedy="Name a folder of Markdown with --notes, or a workspace with --workspace.",
        )
    given: dict[str, object] = {}
    is_folder = settings.notes_folder is not None
    if is_folder:
        given["--notes"] = settings.workspace
    else:
        given["--agent"] = settings.agent_id
        given["--workspace"] = options.workspace and settings.workspace
    is_elsewhere = not is_folder and variable(os.environ, *STATE_DIR_VARIABLES)
    if options.state_dir is not None or is_elsewhere:
        given["--state-dir"] = named_state_dir(settings)
    is_named = not is_folder and variable(os.environ, *CONFIG_PATH_VARIABLES)
    if settings.config_path is not None and (options.config is not None or is_named):
        given["--config"] = settings.config_path
    return ("serve", *arguments_of(given), *(("--claude-code",) if options.claude_code else ()))


def _with_its_memory(options: Options, *, yes: bool) -> Options:
    """Asks whether to search Claude Code's own memory, which is a source only on request."""
    if options.claude_code or yes or options.json or not output.may_ask():
        return options
    wanted = output.ask("Search what Claude Code itself remembers, too?", default=False)
    return replace(options, claude_code=wanted)


def _print_entry(
    options: Options, client: Client, name: str, entry: Entry, hooks: Entry | None
) -> int:
    from gateway.connect.entries import entry_lines, with_server

    there = _surroundings()
    path = client.file(there)
    hooked = client.hooked() if hooks is not None else None
    if options.json:
        data = {"file": str(path), "key": client.key, "name": name, "entry": entry}
        if hooked is not None:
            data["hooks"] = {"file": str(hooked.file(there)), "entry": hooks}
        output.write_json(data)
        return os.EX_OK
    output.note(f"{client.title} reads {path}:")
    if client.form == "toml":
        output.write_text("\n".join((*entry_lines(client, name, entry), "")))
    else:
        output.write_text(with_server(client, "", path, name, entry))
    if hooked is not None and hooks is not None:
        output.note(f"To recall before each prompt, {hooked.file(there)}:")
        output.note_text(with_server(hooked, "", path, name, hooks))
    return os.EX_OK


def _show(plan: FilePlan) -> None:
    """Shows only our own entries: anything else in the file may be secret."""
    title, key = plan.client.title, plan.client.key
    if not plan.changes:
        state = "is connected" if plan.new is not None else "is not connected"
        output.say(f"{title} {state} as {plan.name}; {plan.path} stays as it is.")
        return
    output.say(f"{title}: {plan.path}, under {key}")
    for sign, entry in (("-", plan.old), ("+", plan.new)):
        for line in _lines(plan, entry):
            output.say(f"  {sign} {line}")
    if plan.warning is not None:
        output.note(plan.warning)


def _lines(plan: FilePlan, entry: Entry | None) -> Sequence[str]:
    from gateway.connect.entries import entry_lines, shown

    if entry is None:
        return ()
    if plan.client.is_hooks:
        return [line for event in entry for line in entry_lines(plan.client, event, entry[event])]
    return entry_lines(plan.client, plan.name, shown(entry))


def _agreed(plan: FilePlan) -> bool:
    return output.agreed(f"Nothing was written to {plan.path}", "Write this?", "--yes writes it.")


def _say_done(plan: FilePlan, done: Done) -> None:
    copy = done.copy
    if done.lost:
        output.note(f"Attributes of {plan.path} that could not be kept: {', '.join(done.lost)}.")
    if plan.new is None:
        what = "is written" if plan.path.exists() else "is gone, as before"
        output.say(f"Disconnected; {plan.path} {what}.")
        if not done.restored:
            kept = f" An earlier copy stays in {copy}." if copy is not None else ""
            output.say(
                f"{plan.client.title}, or somebody else, has changed the file since: only our entry "
                f"is cut out, the rest stays as it is now.{kept}"
            )
        return
    kept = f" What it was is in {copy}." if copy is not None else ""
    named = f" --name {plan.name}" if plan.name != _NAME else ""
    output.say(f"Connected as {plan.name}.{kept}")
    output.say(f"`{PROGRAM} disconnect {plan.client.name}{named}` undoes it.")


def _check(plan: FilePlan, there: Surroundings) -> Seen:
    from gateway.connect.clients import check
    from gateway.connect.entries import with_server

    assert plan.new is not None
    data, arguments = plan.after or b"", plan.new["args"]
    if "--claude-code" in arguments:
        # The client is asked in another directory, from which its own memory would seem to be deleted.
        entry = {**plan.new, "args": [one for one in arguments if one != "--claude-code"]}
        data = with_server(plan.client, "", plan.path, plan.name, entry).encode()
    return check(plan.client, there, plan.name, data)


def _as_data(plan: FilePlan, done: Done | None, seen: Seen | None) -> dict[str, object]:
    from gateway.connect.entries import shown

    copy = done.copy if done is not None else None
    return {
        "client": plan.client.name,
        "file": str(plan.path),
        "name": plan.name,
        "changes": plan.changes,
        "written": done is not None,
        "warning": plan.warning,
        "lostAttributes": done.lost if done is not None else (),
        "entry": shown(plan.new) if plan.new is not None else None,
        "copy": str(copy) if copy is not None else None,
        "check": seen,
    }


def _list_clients(options: Options) -> int:
    from gateway.connect.clients import CLIENTS

    there = _surroundings()
    rows = [_row(client, there) for client in CLIENTS.values()]
    if options.json:
        output.write_json({"clients": rows})
        return os.EX_OK
    for row in rows:
        state = "installed" if row["installed"] else "not found"
        if row["connected"]:
            state = "connected as " + ", ".join(row["connected"])
        output.say(f"{row['client']:15} {row['problem'] or state}")
    output.say(f"`{PROGRAM} connect CLIENT` connects one, `disconnect CLIENT` undoes it.")
    return os.EX_OK


def _row(client: Client, there: Surroundings) -> dict[str, Any]:
    from gateway.connect.entries import connected, shown

    servers: dict[str, object] = {}
    problem = None
    try:
        servers = {name: shown(entry) for name, entry in connected(client, there).items()}
    except MemoryGatewayError as error:
        problem = error.message
    return {
        "client": client.name,
        "installed": client.is_installed(there),
        "connected": servers,
        "file": str(client.file(there)),
        "problem": problem,
    }


# --- OpenClaw -------------------------------------------------------------------------------------

_RECALL_IN_HOST = (
    "It will read each prompt and put before it what the notes likely answer (at most 400 tokens): for that OpenClaw "
    "asks a permission, plugins.entries.memory-gateway.hooks.allowConversationAccess, which is set. Groups that scope "
    "denies are shown nothing. Uninstalling takes it back."
)


def install_plugin(
    options: Options,
    *,
    openclaw: typed.OpenClawCommand = None,
    yes: typed.Yes = False,
    recall: typed.RecallInHost = False,
) -> int:
    """Put this program into OpenClaw's memory slot, as a plugin."""
    from gateway.openclaw.installation import allow_recall, install, plan_installation

    host, state = _found(options, openclaw)
    plan = plan_installation(host, state)
    if not options.json:
        for line in _plan_lines(plan):
            output.say(line)
        if recall:
            output.say(_RECALL_IN_HOST)
    if not (yes or output.agreed("Nothing was changed")):
        return os.EX_OK
    known = install(host, state, plan)
    if recall:
        allow_recall(host)
    return output.answer(
        options,
        {"plan": plan, "loaded": True, "tools": known.get("tools", [])},
        "OpenClaw loads the plugin into its memory slot.",
        "If its gateway runs, restart it: openclaw gateway restart",
        "Back again: memory-gateway openclaw uninstall",
    )


def plugin_status(options: Options, *, openclaw: typed.OpenClawCommand = None) -> int:
    """Show whether OpenClaw loads the plugin, and which."""
    from gateway.openclaw.installation import read_state

    host, place = _found(options, openclaw)
    state = read_state(host, place)
    code = os.EX_OK if state.loaded and not state.problems else 1
    return output.answer(options, state, *_state_lines(state), code=code)


def uninstall_plugin(
    options: Options, *, openclaw: typed.OpenClawCommand = None, yes: typed.Yes = False
) -> int:
    """Take the plugin out of OpenClaw, and put its configuration back as it was."""
    from gateway.openclaw.installation import uninstall

    host, state = _found(options, openclaw)
    if not options.json:
        output.say(
            "OpenClaw forgets the plugin; its own memory, or who had the slot before, answers again."
        )
        output.say("Notes, index and settings of memory stay.")
    if not (yes or output.agreed("Nothing was changed")):
        return os.EX_OK
    outcome = uninstall(host, state)
    return output.answer(options, outcome, _outcome_line(outcome), *outcome.remarks)


def _found(options: Options, openclaw: str | None) -> tuple[OpenClawHost, Path]:
    from gateway.openclaw.program import find_host, host_overlay

    if options.notes is not None:
        raise CommandLineError(
            "--notes and OpenClaw do not go together.",
            remedy="Leave it out: the plugin serves the workspaces of OpenClaw's agents.",
        )
    overlay = host_overlay(options.state_dir, options.config)
    host = find_host(os.environ, openclaw, overlay, output.note)
    return host, discover(openclaw_request(options)).state_dir


def _plan_lines(plan: InstallPlan) -> list[str]:
    now = f"now {plan.slot}" if plan.slot else "now OpenClaw's own"
    lines = [
        f"OpenClaw {plan.openclaw}, Node.js {plan.node}, configuration {plan.config}",
        "",
        f"  1. The plugin is copied to {plan.plugin}.",
        "  2. OpenClaw links it, accepts what it declares (two tools, two commands), and sets",
        f"     plugins.slots.memory ({now}) to memory-gateway.",
        f"     For each agent that is used it will start: {' '.join(plan.command)} serve",
        "  3. OpenClaw loads it once, to see that it works.",
        "",
        "The configuration is kept as it is; `memory-gateway openclaw uninstall` puts it back.",
    ]
    if plan.loses_comments:
        lines.append("OpenClaw drops its comments when it writes it; they come back with it.")
    if plan.loses_link:
        lines.append(
            "It is a link, which OpenClaw replaces by a file; the link comes back with it."
        )
    if plan.loses_attributes:
        names = ", ".join(plan.loses_attributes)
        lines.append(f"OpenClaw drops its extended attributes ({names}); they come back with it.")
    if plan.names > 1:
        lines.append(
            f"It has {plan.names} names (hard links): the others keep what it says now, and it stays a file of its own."
        )
    return lines


def _state_lines(state: InstallState) -> list[str]:
    lines = [
        f"OpenClaw {state.openclaw}, Node.js {state.node}, configuration {state.config}",
        f"plugin: {'loaded into the memory slot' if state.loaded else 'not loaded'}"
        + (f", {state.version} from {state.plugin}" if state.plugin else ""),
    ]
    if state.config_problem:
        lines.append(f"The configuration is not valid: {state.config_problem}")
    lines += [f"  {problem}" for problem in state.problems]
    if not state.loaded:
        lines.append("`memory-gateway openclaw install` puts it there.")
    return lines


def _outcome_line(outcome: Outcome) -> str:
    return {
        "restored": f"{outcome.path} is byte for byte as it was before the installation.",
        "edited": "The configuration has changed since the installation, so only the plugin was taken out of it.",
        "untouched": "OpenClaw knows no plugin of this program; nothing was changed.",
    }[outcome.config]
