"""The requests of a client: the parameters and results of every method, checked and decorated.

This package is between the pipe, which knows only bytes and calls, and the backends, which know only memory.
"""
