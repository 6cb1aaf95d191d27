"""The JSONL transcripts of an agent's conversations: finding them, reading them, their turns as text.

Knows nothing of indexes, so that every backend that takes in conversations may use it.
"""
