"""Putting the gateway into the configuration of MCP clients, and taking it out again.

`clients` knows which clients there are, where each keeps its servers, and how it is asked whether it sees one;
`entries` adds and removes one server in such a file, and keeps a copy of what was there.
"""
