"""The transcripts of an agent's conversations, files or rows: finding them, reading them, their turns as text.

Knows nothing of indexes, so that every backend that takes in conversations may use it.
"""
