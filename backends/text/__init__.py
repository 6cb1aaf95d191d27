"""Turning text and queries into index terms: one analyser for all scripts, nothing to configure.

Pure functions, no I/O. `analyser` is the entry; the other modules each own one step of it.
"""
