"""Embedding with one provider: filling requests, learning its limits, caching queries, failing over."""
