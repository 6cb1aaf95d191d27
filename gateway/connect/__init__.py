"""Putting the gateway into the configuration of MCP clients, and taking it out again.

`clients` knows which clients there are and where each keeps its servers, `entries` adds and removes one server
in the text of such a file, `files` does that on the disk with a copy of what was there, `checking` asks the
client whether it sees the server.
"""
