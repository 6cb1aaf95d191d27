"""One agent's memory at work: its settings, its backend, its background work, its conversations.

Everything that lives as long as the process and belongs to one agent. Knows methods and results as types,
never how they travel.
"""
