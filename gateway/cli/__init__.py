"""The command line of `memory-gateway`.

`entry` is called first and lets a plain `serve` start without typer; `app` declares everything that
can be typed; `commands/` holds the commands, by what they do; `guard` turns every failure into a message
and an exit code. Data goes to standard output, everything else to standard error.
"""
