"""The command line of `memory-gateway`.

`entry` is called first and lets a plain `serve` start without typer; `app` builds the whole command line from the
commands in `commands/` and their `arguments`. `access` is the memory that commands ask, `guard` turns every failure
into a message and an exit code. Data goes to standard output, everything else to standard error.
"""
