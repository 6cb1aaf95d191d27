"""Keeping the index up to date with the disk: whole syncs, the small one before a search, and their counts."""
