"""The builtin engine: one SQLite file an agent, BM25 and vectors, published one file at a time.

`backend` is the entry. The Markdown files are the truth; what is stored here can be deleted at any
time and comes back by itself.
"""
