"""What runs in the worker process: ONNX Runtime or llama.cpp, and nothing of the gateway.

Everything here may die at any moment without harm: an abort of an engine ends this process only.
"""
