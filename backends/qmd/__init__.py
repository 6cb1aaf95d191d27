"""The QMD backend: a supervised sidecar process that searches collections of Markdown.

Owns everything that is known about QMD: finding it, its home, its configuration, its upkeep, asking it
and understanding its answers. Falling back to the builtin index is `backends/fallback`.
"""
