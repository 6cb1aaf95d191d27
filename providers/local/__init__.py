"""Embeddings without a key and without a cloud: an ONNX or GGUF model, in a worker process.

The gateway's side (`embedder`, `model`, `models`) never loads an engine; `worker` is what the
worker process runs, and imports nothing of the gateway's side but the protocol.
"""
