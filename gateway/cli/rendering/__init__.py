"""Texts and tables for people, made of typed results. Pure."""
