"""Keeping the index level with the disk: whole syncs, the small one before a search, their counts."""
