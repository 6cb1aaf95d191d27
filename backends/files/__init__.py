"""The Markdown files of one agent: which of them are memory, and how they are read safely.

Owns finding (`scan`), naming (`roots`), opening without following links (`safe_open`), reading for
the index (`reading`) and for a person (`get`). Every function here blocks: call it in a worker
thread. Nothing in this package ever writes.
"""
