"""Vendors over HTTP: endpoints and keys, one wire for each vendor, and reading answers and errors.

The modules that import a vendor's library (`openai`, `gemini`, `voyage`) are loaded when they are used.
"""
