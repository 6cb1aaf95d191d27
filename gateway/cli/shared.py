"""Gives every command the shared options without every command repeating them, as typer wants it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from gateway.cli.guard import guarded
from gateway.cli.options import SHARED_OPTIONS, LogLevel, Options, SharedOption

_TYPES: dict[str, Any] = {"json": bool, "claude_code": bool, "log_level": LogLevel | None}


class Command(TyperCommand):
    """A command to which an argument such as `- The kettle is descaled.` is text, never an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        items = [] if "--" in args else [one for one in args if one.startswith("- ")]
        others = [one for one in args if one not in items]
        return super().parse_args(ctx, [*others, "--", *items] if items else args)


def with_options(
    command: Callable[..., int], shared: Sequence[SharedOption] = SHARED_OPTIONS
) -> Callable[..., int]:
    """The command as typer wants it. Its first parameter takes the `Options`."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    fields = [option.field for option in shared]

    def run(**values: Any) -> int:
        options = Options(**{field: values.pop(field) for field in fields})
        return guarded(lambda: _run_logged(command, options, values), options)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature([*own, *map(_parameter, shared)])  # type: ignore[attr-defined]
    return run


def _run_logged(command: Callable[..., int], options: Options, values: dict[str, Any]) -> int:
    from gateway.process.logs import configure_logs

    configure_logs(options.log_level or "warning", for_people=not options.json)
    return command(options, **values)


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
