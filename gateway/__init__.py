"""Floor 4: the process. Pipe, socket, tools, scheduling, watching, health, command line.

Knows who asks and over what; asks `backends` for everything that concerns memory. Never SQL, never HTTP.
"""
