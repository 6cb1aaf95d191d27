"""What a client can ask for: the parameters and results of every method, checked and decorated.

Between the pipe, which knows only bytes and calls, and the backends, which know only memory.
"""
