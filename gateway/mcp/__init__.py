"""The Model Context Protocol on the same pipe, for clients that know tools and not our methods.

`eras` finds out which revision a request speaks and gives results the form that it wants; `mcp_methods` has the methods
that the pipe registers, describes the tools to a model and writes what they found as text, and lists notes for people
to choose from. The work itself is done by `gateway.agent`, as for the direct methods.
"""
