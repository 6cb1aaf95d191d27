"""The index file: where it lies, what is in it, opening it, its damage and its upkeep."""
