"""JSON-RPC 2.0 by lines, over the stdio pipe and over Unix sockets.

`transport` moves bytes, `wire` cuts lines out of them and reads and writes messages, `connection` runs what
a client asks for, `registry` has the methods that can be called. The package knows nothing of memory.
"""
