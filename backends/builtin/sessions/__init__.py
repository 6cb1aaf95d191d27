"""Transcripts as the second source of the builtin index: what is due, and taking it in by stretches."""
