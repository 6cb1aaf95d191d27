"""The commands, grouped by what they do. Each takes `Options` first and returns an exit code."""
