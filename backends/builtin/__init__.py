"""The builtin engine: one SQLite file per agent, BM25 and vectors, published one file at a time.

`backend` is the entry. The Markdown files are the source of truth; what is stored here can be deleted at any
time and is built again by itself.
"""
