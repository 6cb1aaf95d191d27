"""The index in one SQLite file: its place, its tables, opening, damage, upkeep, and search."""
