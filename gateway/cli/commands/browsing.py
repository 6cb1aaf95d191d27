"""`browse`: search as you type, on the whole screen of a terminal."""

from __future__ import annotations

import os

from msgspec.structs import replace

from config.errors import ErrorKind
from gateway.cli import output
from gateway.cli.guard import EXIT_CODES
from gateway.cli.options import CommandLineError, Options


def browse(options: Options) -> int:
    """Search as you type, with a preview of each note. Without any command, it is what starts on a terminal."""
    from config.host_keys import is_disabled
    from gateway.cli.access import with_memory
    from gateway.cli.browser import Browser
    from gateway.cli.options import load

    if options.json or not (output.is_terminal() and output.may_ask()):
        raise CommandLineError(
            "browse needs a terminal, to read keys from and to draw on.",
            remedy="`memory-gateway search` prints what it finds.",
        )
    options = replace(options, log_level="error")  # a line of the log would stand across the screen
    settings = load(options)
    if is_disabled(settings):
        output.note("Memory is off: see `memory-gateway status`.")
        return EXIT_CODES[ErrorKind.INDEX_UNAVAILABLE]
    with_memory(settings, options, Browser(settings).run, patient=True, beside=True)
    return os.EX_OK
