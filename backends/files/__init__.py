"""The Markdown files of one agent: which of them are memory, and how they are read safely.

Files are found (`scan`), named (`roots`), opened without following links (`safe_open`), and read for
the index or for a client (`reading`). Only `appending` writes. The functions here block: call them
in a worker thread.
"""
