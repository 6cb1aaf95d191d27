"""The vector lane: vectors kept once each, and exact search over them.

`store` owns the rows, `select` the choice among the engines that search them: `resident`, `sqlite_scan`
and `numpy_scan`, all behind the protocol in `engine`. Nothing here is imported before a provider is in
use, and no library before a search needs it.
"""
