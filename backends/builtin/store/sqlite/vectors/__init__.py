"""The vector lane: exact search over the stored vectors.

`select` chooses among the engines that search them: `resident` and the two of `engines`, all behind one protocol.
No module of it is imported before a provider is in use, and no library before a search needs it.
"""
