"""Vendors over HTTP: endpoints and keys, a wire format each, and reading answers and errors."""
