"""Turning text into vectors: remote vendors, keys, request sizing, retry, choosing one provider.

Importing this package loads no vendor library, no HTTP client and no numpy; each is imported where
it is first used. Only the floors above know what the text is for.
"""
