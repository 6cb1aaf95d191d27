"""What runs in the worker process: llama.cpp, and nothing of the gateway.

Everything here may die at any moment without harm: an abort of llama.cpp ends this process only.
"""
