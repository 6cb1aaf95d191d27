"""Embeddings without a key and without a cloud: a GGUF model through llama.cpp, in a worker process.

The gateway's side (`provider`, `embedder`, `supervisor`) never loads llama.cpp; `worker` is what the
worker process runs, and imports nothing of the gateway's side but the protocol.
"""
