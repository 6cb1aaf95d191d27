"""Embedding a great many texts through a vendor's asynchronous batch jobs.

Knows how to write, start, watch and read one job. Which texts go into jobs, and what is remembered of
them, is the business of the floor above.
"""
