"""Embedding a large backlog through a vendor's asynchronous batch jobs.

Knows how to write, start, watch and read one job. The floor above decides which texts go
into jobs, and remembers them.
"""
