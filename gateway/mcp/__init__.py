"""The Model Context Protocol on the same pipe, for clients that know tools and not our methods.

`eras` tells which revision a request speaks and dresses results as each wants them, `tools` describes the
tools to a model, runs them and writes what they found as text, `mcp_methods` is what the pipe registers, notes
for people to choose among it. The work itself is that of `gateway.agent`, the same as for the
direct methods.
"""
