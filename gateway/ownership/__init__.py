"""One owner for an index: who holds it, how others reach it, and what happens when it dies.

`places` says where lock and socket are, `lock` holds the lock, `sockets` makes and reaches sockets and
`listening` serves their clients. A process that comes too late is a guest: `bridge` carries its client's
lines to the owner, `standby` takes over when the owner is gone. `host` puts them together.
"""
