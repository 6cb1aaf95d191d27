"""`recall`: what a model would be told before a prompt, for people; clients run it with `--hook`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gateway.cli import output
from gateway.cli.options import CommandLineError, Options

_WHY = {
    "small_talk": "Nothing: the prompt has no subject.",
    "machine_output": "Nothing: what was pasted asks nothing.",
    "command": "Nothing: this is a command of the client.",
    "nothing_likely": "Nothing in memory likely answers this.",
    "no_room": "Nothing: no passage fits into so few tokens.",
}


def recall(
    options: Options,
    prompt: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="What a person would say.")
    ] = None,
    *,
    max_tokens: Annotated[
        int, typer.Option(min=1, max=4000, metavar="N", help="At most about this many.")
    ] = 400,
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT",
            help="Answer an event of claude-code, codex, gemini or copilot on standard input, at once or not at all.",
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", hidden=True, help="Stay for hooks: they start it so.")
    ] = False,
) -> int:
    """Show what a model is told before a prompt, without being asked."""
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.recall import RecallParams

    if serve:
        from gateway.cli.running import run_staying

        return run_staying(options)
    del hook  # `gateway.hook` answers it before any of this is imported
    if not prompt:
        raise CommandLineError(
            "There is no prompt.",
            remedy='Give one: memory-gateway recall "When is the boiler serviced?"',
        )
    params = RecallParams(prompt=" ".join(prompt), max_tokens=max_tokens)
    result = with_memory(load(options), options, lambda memory: memory.recall(params))
    if options.json:
        output.write_json(result)
    elif result.text:
        output.say(result.text)
    else:
        output.note(result.error or _WHY.get(result.reason or "", f"Nothing ({result.reason})."))
    return os.EX_UNAVAILABLE if result.error else os.EX_OK
