"""JSON-RPC 2.0 by lines, over the stdio pipe and over Unix sockets.

Bytes become lines (`streams`, `framing`), lines become calls (`messages`), calls become tasks
(`dispatcher`, `inflight`), outcomes become frames (`encoding`, `errors`) and leave through one writer
(`outbox`). `connection.serve_connection` ties them together; `methods` is what a caller registers.
Knows nothing of memory: only `config.errors` is imported from other floors.
"""
