"""The vector lane: vectors kept once each, and exact search over them.

`store` writes and counts the rows, `select` chooses among the engines that search them: `resident` and the two of
`scans`, all behind the protocol in `engines`. Nothing here is imported before a provider is in use, and no library
before a search needs it.
"""
