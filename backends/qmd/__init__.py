"""The QMD backend: a supervised sidecar process that searches collections of Markdown.

Everything that is known about QMD is in this package: how it is found, its home, its configuration, its
upkeep, how it is asked and what its answers mean. Falling back to the builtin index is `backends/fallback`.
"""
