"""The process itself: what starts and ends it, its parent, its logs."""
