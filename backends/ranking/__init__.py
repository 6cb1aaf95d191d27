"""Deciding what answers a query: parsing it, scoring passages, joining lanes.

Pure functions over values; the index that fetches the candidates is elsewhere.
"""
