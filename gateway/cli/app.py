"""The whole command line for typer: commands, their shared options, help, completion, `--version`.

Mistakes in a command line become errors of our own, with messages and exit codes like those of all others.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from gateway.cli import arguments, output
from gateway.cli.commands import (
    asking,
    connecting,
    inspecting,
    listing,
    maintaining,
    serving,
    setting_up,
    upgrading,
)
from gateway.cli.guard import guarded, run_logged
from gateway.cli.options import (
    PROGRAM,
    SERVE_OPTIONS,
    SHARED_OPTIONS,
    CommandLineError,
    LogLevel,
    Options,
    SharedOption,
)

_EPILOG = f"""`{PROGRAM} demo` shows it at work, `help COMMAND` how a command is used.

\b
Exit codes:
  0        done; of health and doctor: ok (1 degraded, 2 failing)
  1        nothing found (search, recent, tags), as of grep
  3        `service status`: the service does not run
  64       the command line is wrong; 65 an input is too large
  66       a file is not there or cannot be read; 73 cannot be written
  69       something that is needed is not available, such as the gateway
  70       an internal error; 76 an answer that breaks a protocol
  75       not now: a time limit, a full disk, too many requests
  77       not permitted; 78 the configuration is wrong
  130, 141 interrupted; the reader of the output went away

\b
Files and variables:
  ~/.openclaw                    indexes and .env (OPENCLAW_STATE_DIR,
                                 OPENCLAW_HOME, OPENCLAW_PROFILE)
  ~/.openclaw/openclaw.json      settings (OPENCLAW_CONFIG_PATH)
  ~/.config/memory-gateway/config.json5
                                 what `setup` and `config set` wrote
                                 (XDG_CONFIG_HOME)
  ~/.local/share/memory-gateway  indexes of --notes (XDG_DATA_HOME)
  MEMORY_GATEWAY_NOTES           a folder of notes, as --notes
  OPENAI_API_KEY and others      keys of providers of embeddings
  NO_COLOR                       no colours
"""

_GROUPS = {
    "Everyday Commands": "browse search get recent tags links open remember recall report status",
    "Setup Commands": "setup connect disconnect openclaw models config demo",
    "Upkeep Commands": "index doctor health forget service reload metrics",
}
"""The commands under each heading of the help; all others come last."""


class Commands(TyperGroup):
    """The commands, those of every day first."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - its signature
        rest = dict(self.commands)
        groups = [
            (title, {name: rest.pop(name) for name in names.split() if name in rest})
            for title, names in _GROUPS.items()
        ]
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, commands in [*groups, ("Other Commands", rest)]:
            with formatter.section(title):
                formatter.write_dl(
                    [(name, one.get_short_help_str(10 * width)) for name, one in commands.items()]
                )


app = typer.Typer(
    cls=Commands,
    help="Makes the plain-Markdown memory of an AI agent searchable.",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


_TYPES: dict[str, object] = {"json": bool, "claude_code": bool, "log_level": LogLevel | None}


class Command(TyperCommand):
    """A command that takes `- The kettle is descaled.`, or `-1` as a setting, for an argument and not an option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                # Its metavar says in words what `<list[str]>` says in Python.
                parameter.display_type_rich = lambda **_: None  # type: ignore[attr-defined]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.name in ("search", "recent"):
            args = list(_with_count(args))
        is_text = _ITEM_OR_NUMBER if self.name == "config" else _ITEM
        items = [] if "--" in args else [one for one in args if is_text.match(one)]
        others = [one for one in args if one not in items]
        return super().parse_args(ctx, [*others, "--", *items] if items else args)


_ITEM = re.compile(r"- ")
_ITEM_OR_NUMBER = re.compile(r"- |-\.?\d")


def _with_count(args: Sequence[str]) -> Iterator[str]:
    """Replaces `-n` before a number by `--max-results`, its meaning before folders of notes had names."""
    rest = iter(args)
    for one in rest:
        if one == "--":
            yield one
            yield from rest
        elif (joined := re.fullmatch(r"-n(-?\d+)", one)) is not None:
            yield from ("--max-results", joined[1])
        elif one == "-n":
            value = next(rest, None)
            yield "--max-results" if value and re.fullmatch(r"-?\d+", value) else one
            yield from () if value is None else (value,)
        else:
            yield one


def with_options(
    command: Callable[..., int], shared: Sequence[SharedOption] = SHARED_OPTIONS
) -> Callable[..., int]:
    """Returns the command in the form that typer expects. Its first parameter takes the `Options`."""
    signature = inspect.signature(command, eval_str=True, locals={"typed": arguments})
    own = list(signature.parameters.values())[1:]
    fields = [option.field for option in shared]

    def run(**values: Any) -> int:
        options = Options(**{field: values.pop(field) for field in fields})
        return guarded(lambda: run_logged(command, options, values), options)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature([*own, *map(_parameter, shared)])  # type: ignore[attr-defined]
    return run


def _parameter(option: SharedOption) -> inspect.Parameter:
    flags = (option.flag, option.short) if option.short else (option.flag,)
    declared = typer.Option(*flags, metavar=option.metavar, help=option.help)
    kind = _TYPES.get(option.field, str | None)
    return inspect.Parameter(
        option.field,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[kind, declared],
    )


def _add(
    group: typer.Typer,
    command: Callable[..., int],
    name: str | None = None,
    *,
    options: Sequence[SharedOption] = SHARED_OPTIONS,
) -> None:
    """Adds a command. The list of commands shows its first paragraph of help, which typer would cut to one line."""
    summary = " ".join((command.__doc__ or "").split("\n\n")[0].split())
    group.command(name, short_help=summary, cls=Command)(with_options(command, options))


def _add_group(name: str, about: str, **commands: Callable[..., int]) -> None:
    group = typer.Typer(help=about, short_help=about)
    for one, command in commands.items():
        _add(group, command, one.replace("_", "-"))
    app.add_typer(group, name=name)


_add(app, serving.serve, options=SERVE_OPTIONS)
for _command in (
    *(setting_up.setup, maintaining.index, asking.browse, asking.search, asking.get),
    *(listing.recent, listing.tags, listing.links, asking.recall, asking.remember),
    *(maintaining.forget, inspecting.status, inspecting.health, inspecting.doctor),
    *(serving.reload, inspecting.metrics, listing.report, serving.service),
    *(connecting.connect, connecting.disconnect),
    *(inspecting.config, inspecting.schema, maintaining.qmd, serving.demo, upgrading.upgrade),
):
    _add(app, _command)
_add(app, listing.open_note, "open")
_add_group(
    "models", "Show, suggest, download and remove the models of local embeddings.",
    list=maintaining.list_models, suggest=maintaining.suggest, pull=maintaining.pull, remove=maintaining.remove,
)  # fmt: skip
_add_group(
    "batch", "Show and cancel the batch jobs that embed a large backlog.",
    list=maintaining.list_batches, cancel=maintaining.cancel_batch,
)  # fmt: skip
_add_group(
    "store", "Make, check, fill and empty the store of an index, where that is more than a file.",
    migrate=maintaining.migrate_store, check=maintaining.check_store, copy=maintaining.copy_store,
    drop_agent=maintaining.drop_agent,
)  # fmt: skip
_add_group(
    "openclaw", "Put this program into OpenClaw's memory slot, and take it out again.",
    install=connecting.install_plugin, status=connecting.plugin_status, uninstall=connecting.uninstall_plugin,
)  # fmt: skip


def _print_version(asked: bool) -> None:
    if asked:
        from gateway.version import VERSION

        typer.echo(f"{PROGRAM} {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Takes the options that come before a command."""


def run_app(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit code. Raises CommandLineError for a wrong one."""
    command = typer.main.get_command(app)
    given = list(arguments) or ["browse" if output.is_terminal() and output.may_ask() else "--help"]
    if given[0] == "help":
        given = [*given[1:], "--help"]
    try:
        code = command.main(given, PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else PROGRAM
        message = error.format_message().replace(": Value error, ", ": ", 1)
        remedy = f"`{path} --help` lists what there is."
        if isinstance(group := getattr(context, "command", None), TyperGroup) and group.name:
            *others, last = group.commands
            remedy = f"There are {', '.join(others)} and {last}: {remedy}"
        elif context and context.parent is None and (option := _of_a_command(message)):
            remedy = f"Put it behind the command: `{PROGRAM} search {option} ...`."
        elif near := _begun(message, context):
            message = f"{message.partition(' (Possible')[0]}. Did you mean {near}?"
        elif message.startswith(_UNKNOWN) and _takes_an_argument(context):
            remedy += f" Put a word that begins with a dash and is no option behind `--`: `{path} -- ...`."
        raise CommandLineError(message, remedy=remedy) from error
    return int(code or 0)


_UNKNOWN: Final = "No such option: "


def _takes_an_argument(context: Any) -> bool:
    return any(one.param_type_name == "argument" for one in context.command.params)


def _of_a_command(message: str) -> str | None:
    """Returns the unknown option if most commands have it."""
    given = message.removeprefix(_UNKNOWN).split()[0]
    return given if any(given in (one.flag, one.short) for one in SHARED_OPTIONS) else None


def _begun(message: str, context: Any) -> str | None:
    """Returns the only option that begins with the unknown one; the parser names those that merely look similar."""
    given = re.match(rf"{_UNKNOWN}(--\w+)", message)
    options = [
        one
        for parameter in (context.command.params if context else ())
        for one in parameter.opts
        if given and one.startswith(given[1])
    ]
    return options[0] if len(options) == 1 else None
