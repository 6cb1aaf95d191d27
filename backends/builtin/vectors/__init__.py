"""The vector lane: vectors kept once each, and exact search over them.

`store` owns the rows, `exact` the scan. Nothing here is imported before a provider is in use.
"""
