"""The index in one SQLite file: where it lies, what is in it, opening it, its damage, its upkeep, and search in it."""
