"""The command line of `memory-gateway`.

`entry` is called first and lets a plain `serve` start without typer; `app` puts together everything that can be typed:
the commands of `commands/`, by what they do, and their `arguments`. `access` is the memory that they ask, `guard` turns
every failure into a message and an exit code. Data goes to standard output, everything else to standard error.
"""
