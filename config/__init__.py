"""The lowest floor: every configuration key, its type, unit, default and origin; paths; durations.

Reads the chat gateway's `openclaw.json` and answers with one immutable `Settings` for one agent. It
owns the closed list of error kinds too, since every floor raises them. Knows nothing of indexes,
providers or the wire, and writes no file but that of the settings, when a key is changed.
"""
