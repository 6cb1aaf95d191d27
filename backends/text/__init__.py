"""Text analysis: index terms of notes and questions, by one analyser for all scripts, with nothing to configure.

Pure functions, no I/O. `analyser` is the entry; each of the other modules is one step of it.
"""
