"""The declaring and reading of settings: kinds of values, keys in a tree, and fields with the keys that fill them.

The settings themselves are declared in `config.settings`, and the places of their sections in `config.sections`.
"""
