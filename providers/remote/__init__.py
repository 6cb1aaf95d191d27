"""Vendors over HTTP: endpoints and keys, one wire a vendor, what comes back and what goes wrong.

The modules that import a vendor's library (`openai`, `gemini`, `voyage`) are loaded when they are used.
"""
