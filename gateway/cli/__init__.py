"""The command line: `memory-gateway serve|index|search|get|remember|status|health|doctor|reload|metrics|service|connect|config|demo|models`.

`entry` is called first and lets a plain `serve` start without typer; `app` declares everything that
can be typed; `commands/` holds the commands, by what they do; `guard` turns every failure into a message
and an exit code. Data goes to standard output, everything else to standard error.
"""
