"""`reload`: tells the running gateway that its configuration has changed."""

from __future__ import annotations

import os

from gateway.cli import output
from gateway.cli.options import Options


def reload(options: Options) -> int:
    """Let the running gateway read its configuration again, and say what changed."""
    import anyio

    from config.groups import ungrouped
    from gateway.cli.access import reload_owner
    from gateway.cli.loading import load

    with ungrouped():
        result = anyio.run(reload_owner, load(options))
    if options.json:
        output.write_json(result)
        return os.EX_OK
    from gateway.cli.rendering.report import reload_lines
    from gateway.cli.terminal import print_lines

    print_lines(reload_lines(result))
    return os.EX_OK
