"""Turning text into vectors: remote vendors, keys, request sizing, retry, choosing one provider.

Importing this package loads no vendor library, no HTTP client and no numpy; each is imported where
it is first used. What the text is for, only the floors above know.
"""
