"""Conversations as their keys tell them: whose they are, who may search, what a new one loads."""
