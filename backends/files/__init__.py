"""The Markdown files of one agent: which of them are memory, and how they are read safely.

Files are found (`scan`), named (`roots`), opened without following links (`safe_open`), and read for
the index or for whoever asks (`reading`). Every function here blocks: call it in a worker
thread. Nothing in this package ever writes.
"""
