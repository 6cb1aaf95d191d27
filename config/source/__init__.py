"""Reads configuration files and variables into values with their places, without knowing any key's meaning."""
