"""Remembering: files, chunks, the index, ranking, and falling back from one engine to another.

Knows nothing of who asks or over what wire. `backends.interface` is what the floor above sees.
"""
