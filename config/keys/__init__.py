"""How settings are declared and read: kinds of values, keys in a tree, and fields that say which key fills them.

The settings themselves are declared in `config.settings`, and the places of their sections in `config.sections`.
"""
