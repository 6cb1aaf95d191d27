"""Ranking: parses a query, scores passages and fuses the lanes.

Pure functions of values; the index that fetches the candidates is elsewhere.
"""
