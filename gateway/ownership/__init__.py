"""One owner for an index: who holds it, how others reach it, and what happens when it dies.

`owner` says where lock and socket are, holds the lock, and checks who is at the other end of a socket; `sockets` makes
and reaches sockets, and serves their clients. A process that comes too late is a guest: `bridge` forwards its client's
lines to the owner, and takes over when the owner is gone. `host` puts them together.
"""
