"""Local embeddings: a GGUF model on this machine, and how it comes here."""
